/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Replays inputs through a fuzz target, without libFuzzer: every file named, and every file of
 * every folder named. What once broke a parser stays in tests/fuzz/corpus and is tried again by
 * every compiler and every sanitizer; looking for new inputs is libFuzzer's work.
 *
 * Each input is handed over in memory of exactly its size, so that AddressSanitizer sees a read
 * one byte too far. No input at all is a failure: a corpus that moved must not pass in silence.
 */

#include <dirent.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static unsigned replayed;

static void fail(const char *path)
{
    (void)fprintf(stderr, "%s: %s\n", path, strerror(errno));
    exit(1);
}

static void replay_file(const char *path, size_t size)
{
    FILE *file = fopen(path, "rb");
    uint8_t *data = malloc(size > 0 ? size : 1);
    if (file == NULL || data == NULL || fread(data, 1, size, file) != size) {
        fail(path);
    }
    (void)fclose(file);

    (void)printf("%s\n", path);
    (void)fflush(stdout); /* the last line names the input that crashed */
    (void)LLVMFuzzerTestOneInput(data, size);
    free(data);
    replayed++;
}

static void replay(const char *path)
{
    struct stat status;
    if (stat(path, &status) < 0) {
        fail(path);
    }
    if (!S_ISDIR(status.st_mode)) {
        replay_file(path, (size_t)status.st_size);
        return;
    }

    struct dirent **entries;
    int n = scandir(path, &entries, NULL, alphasort);
    if (n < 0) {
        fail(path);
    }
    for (int i = 0; i < n; i++) {
        if (entries[i]->d_name[0] != '.') {
            char *below = NULL;
            if (asprintf(&below, "%s/%s", path, entries[i]->d_name) < 0) {
                fail(path);
            }
            replay(below);
            free(below);
        }
        free(entries[i]);
    }
    free(entries);
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        replay(argv[i]);
    }
    (void)printf("%u inputs\n", replayed);
    return replayed > 0 ? 0 : 1;
}

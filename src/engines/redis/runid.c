/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which run of the server was here last time: one line in one small file per server.
 *
 * A command that locks, runs and ends is new to the server each time; without a memory it could not
 * tell a server that has just lost everybody's locks from one it has never seen. Where the file
 * cannot be kept, nothing fails: a client still remembers for as long as it lives.
 *
 * The place is fixed per user, from the password database: root's is below /var/lib, that of others
 * below their home. state= names another.
 */
#include "engines/redis/runid.h"

#include "base/hash.h"

#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PATH_BYTES 1024
#define LINE_BYTES 80

static bool folder_of(const char *named, char out[PATH_BYTES])
{
    struct passwd entry, *found = NULL;
    char buffer[4096];
    int n;
    if (named) {
        n = snprintf(out, PATH_BYTES, "%s", named);
    } else if (geteuid() == 0) {
        n = snprintf(out, PATH_BYTES, "/var/lib/snib-redis");
    } else if (getpwuid_r(geteuid(), &entry, buffer, sizeof buffer, &found) == 0 && found &&
               found->pw_dir && found->pw_dir[0] == '/') {
        n = snprintf(out, PATH_BYTES, "%s/.local/state/snib-redis", found->pw_dir);
    } else {
        return false;
    }
    return n > 0 && n < PATH_BYTES;
}

/* mkdir -p, for us alone. */
static void make_folder(char *path)
{
    for (char *p = path + 1; *p; p++) {
        if (*p == '/') {
            *p = '\0';
            (void)mkdir(path, 0755);
            *p = '/';
        }
    }
    (void)mkdir(path, 0700);
}

static bool file_of(const char *folder, const char *where, char out[PATH_BYTES])
{
    unsigned long long hash = snib__hash_text(where); /* a name, not a secret */
    int n = snprintf(out, PATH_BYTES, "%s/%016llx.run", folder, hash);
    return n > 0 && n < PATH_BYTES;
}

/* "ID" or "ID durable". */
static struct snib__run read_line(const char *line)
{
    struct snib__run run = {.durable = false};
    size_t size = strspn(line, "0123456789abcdef");
    if (size < sizeof run.id) {
        memcpy(run.id, line, size);
        run.durable = strcmp(line + size, " durable\n") == 0;
    }
    return run;
}

struct snib__run snib__runid_recall(const char *named, const char *where)
{
    char folder[PATH_BYTES], path[PATH_BYTES], line[LINE_BYTES];
    struct snib__run none = {.durable = false};
    if (!folder_of(named, folder) || !file_of(folder, where, path)) {
        return none;
    }
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0) {
        return none;
    }
    ssize_t n = read(fd, line, sizeof line - 1);
    line[n > 0 ? n : 0] = '\0';
    close(fd);
    return read_line(line);
}

void snib__runid_note(const char *named, const char *where, const struct snib__run *run)
{
    char folder[PATH_BYTES], path[PATH_BYTES], fresh[PATH_BYTES + 16], line[LINE_BYTES];
    if (!folder_of(named, folder) || !file_of(folder, where, path)) {
        return;
    }
    make_folder(folder);
    snprintf(fresh, sizeof fresh, "%s.%ld", path, (long)getpid());
    int fd = open(fresh, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0) {
        return;
    }
    int size = snprintf(line, sizeof line, "%s%s\n", run->id, run->durable ? " durable" : "");
    bool whole = write(fd, line, (size_t)size) == size;
    close(fd);
    if (!whole || rename(fresh, path) < 0) {
        (void)unlink(fresh);
    }
}

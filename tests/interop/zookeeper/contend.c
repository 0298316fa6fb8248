/* SPDX-License-Identifier: Apache-2.0 */
/*
 * snib's locks, for run and bench: see Contend.java. KIND: mutex, write, kazoo, which are dialects;
 * read; async, which does not wait for the answer to a release.
 */
#include <snib.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static int64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static void must(int code, const char *message)
{
    if (code < 0) {
        fprintf(stderr, "%s\n", message);
        exit(1);
    }
}

static snib *client;
static const char *name;
static snib_options options = SNIB_OPTIONS;

static snib_lease *take(void)
{
    snib_error error;
    snib_lease *lease = NULL;
    must(snib_acquire(&lease, client, name, &options, &error), error.message);
    return lease;
}

static void give(snib_lease *lease)
{
    snib_error error;
    must(snib_release(&lease, &error), error.message);
}

static long read_number(const char *path)
{
    long value = -1;
    FILE *file = fopen(path, "r");
    if (file == NULL || fscanf(file, "%ld", &value) != 1) {
        must(-1, "cannot read the counter");
    }
    fclose(file);
    return value;
}

static long contend(long seconds, const char *path)
{
    long done = 0;
    int64_t end = now_ns() + seconds * 1000000000;
    while (now_ns() < end) {
        snib_lease *lease = take();
        long value = read_number(path);
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
        if (options.mode == SNIB_EXCLUSIVE) {
            FILE *file = fopen(path, "w");
            fprintf(file, "%ld\n", value + 1);
            fclose(file);
            done++;
        } else if (read_number(path) != value) {
            puts("torn");
        }
        give(lease);
    }
    return done;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double pairs(long count)
{
    double *each = calloc((size_t)count, sizeof *each);
    for (long i = -count; i < count; i++) {
        int64_t start = now_ns();
        give(take());
        if (i >= 0) {
            each[i] = (double)(now_ns() - start) / 1e3;
        }
    }
    qsort(each, (size_t)count, sizeof *each, compare);
    double median = each[count / 2];
    free(each);
    return median;
}

static long grab(long seconds)
{
    long done = 0;
    int64_t end = now_ns() + seconds * 1000000000;
    while (now_ns() < end) {
        give(take());
        done++;
    }
    return done;
}

int main(int argc, char **argv)
{
    char url[512];
    snib_error error;
    if (argc < 6) {
        return 2;
    }
    char *slash = strrchr(argv[3], '/');
    name = slash + 1;
    const char *dialect = strcmp(argv[4], "kazoo") == 0                               ? "kazoo"
                          : strcmp(argv[4], "write") == 0 || !strcmp(argv[4], "read") ? "curator-rw"
                                                                                      : "curator";
    snprintf(url, sizeof url, "zookeeper://%s%.*s?session=10s&dialect=%s", argv[2],
             (int)(slash - argv[3]), argv[3], dialect);
    options.mode = strcmp(argv[4], "read") == 0 ? SNIB_SHARED : SNIB_EXCLUSIVE;
    options.flags = strcmp(argv[4], "async") == 0 ? SNIB_ASYNC_RELEASE : 0;
    must(snib_open(&client, url, &error), error.message);
    long number = atol(argv[5]);
    if (strcmp(argv[1], "contend") == 0) {
        printf("%ld\n", contend(number, argv[6]));
    } else if (strcmp(argv[1], "pairs") == 0) {
        printf("%.1f\n", pairs(number));
    } else {
        printf("%ld\n", grab(number));
    }
    snib_close(client);
    return 0;
}

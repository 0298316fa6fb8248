/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What bench/peers/etcd/run measures of snib: the same as tests/interop/etcd/peer does of Go.
 *
 *   pairs URL sync|async ROUNDS      microseconds per acquire and release, the median
 *   pairs URL contend WORKERS SECONDS    hand-overs per second, each worker a process with a client
 */
#include "snib.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static double now_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static void must(int code, const snib_error *error)
{
    if (code < 0) {
        fprintf(stderr, "%s\n", error->message);
        exit(1);
    }
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void pairs(const char *url, int async, int rounds)
{
    snib *client;
    snib_lease *lease;
    snib_error error;
    snib_options options = SNIB_OPTIONS;
    double *took = calloc((size_t)rounds, sizeof *took);
    char name[32];
    options.flags = async ? SNIB_ASYNC_RELEASE : 0;
    must(snib_open(&client, url, &error), &error);
    for (int i = -20; took && i < rounds; i++) {
        /* As many names as one would have under way: a release that is not waited for is. */
        snprintf(name, sizeof name, "bench-snib-%d", async ? (i + 20) % 4 : 0);
        double start = now_us();
        must(snib_acquire(&lease, client, name, &options, &error), &error);
        must(snib_release(&lease, &error), &error);
        if (i >= 0) {
            took[i] = now_us() - start;
        }
    }
    snib_close(client);
    qsort(took, (size_t)rounds, sizeof *took, by_size);
    printf("%.0f\n", took[rounds / 2]);
    free(took);
}

static void worker(const char *url, long *grants, double until)
{
    snib *client;
    snib_lease *lease;
    snib_error error;
    must(snib_open(&client, url, &error), &error);
    while (now_us() < until) {
        must(snib_acquire(&lease, client, "bench-snib-contended", NULL, &error), &error);
        ++*grants;
        must(snib_release(&lease, &error), &error);
    }
    snib_close(client);
}

static void contend(const char *url, int workers, int seconds)
{
    size_t size = (size_t)workers * 64 * sizeof(long);
    long *grants = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    long all = 0;
    double until = now_us() + seconds * 1e6;
    for (int i = 0; i < workers; i++) {
        if (fork() == 0) {
            worker(url, &grants[i * 64], until);
            _exit(0);
        }
    }
    while (wait(NULL) > 0) {
    }
    for (int i = 0; i < workers; i++) {
        all += grants[i * 64];
    }
    printf("%ld\n", all / seconds);
}

int main(int argc, char **argv)
{
    if (argc == 4 && (strcmp(argv[2], "sync") == 0 || strcmp(argv[2], "async") == 0)) {
        pairs(argv[1], argv[2][0] == 'a', atoi(argv[3]));
    } else if (argc == 5 && strcmp(argv[2], "contend") == 0) {
        contend(argv[1], atoi(argv[3]), atoi(argv[4]));
    } else {
        fprintf(stderr, "usage: pairs URL sync|async ROUNDS, or URL contend WORKERS SECONDS\n");
        return 64;
    }
    return 0;
}

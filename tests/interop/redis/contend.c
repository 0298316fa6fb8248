/* SPDX-License-Identifier: Apache-2.0 */
/*
 * snib's locks, for run. All programs here have the same ways:
 *
 *   contend PORT NAME KIND SECONDS FILE
 *       Adds 1 to the number in FILE, under the lock; then prints how often. Behind the number
 *       stands the last token: one that does not grow is "torn". With read-write locks every third
 *       turn reads only, twice, as a reader: what differs is "torn".
 *   hold PORT NAME KIND FILE
 *       "held"; and when FILE is there, the time when it is given back, and "lost" if it was not
 *       held any more.
 *   wait PORT NAME KIND
 *       "waiting", then the time when it is held.
 *
 * Times are in microseconds of the wall clock. KIND: a layout; "-read" behind it makes readers,
 * "brief" behind that leases of 2 seconds.
 */
#include <snib.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static int64_t now_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

static void must(int code, const char *message)
{
    if (code < 0) {
        fprintf(stderr, "%s\n", message);
        exit(1);
    }
}

static void pause_us(long us)
{
    nanosleep(&(struct timespec){.tv_sec = us / 1000000, .tv_nsec = us % 1000000 * 1000}, NULL);
}

static snib_lease *take(snib *client, const char *name, bool reads)
{
    snib_error error;
    snib_lease *lease = NULL;
    snib_options options = SNIB_OPTIONS;
    options.mode = reads ? SNIB_SHARED : SNIB_EXCLUSIVE;
    must(snib_acquire(&lease, client, name, &options, &error), error.message);
    return lease;
}

static void give(snib_lease *lease)
{
    snib_error error;
    must(snib_release(&lease, &error), error.message);
}

static long read_counter(const char *path, unsigned long long *last)
{
    long value = -1;
    FILE *file = fopen(path, "r");
    if (file == NULL || fscanf(file, "%ld %llu", &value, last) != 2) {
        must(-1, "cannot read the counter");
    }
    fclose(file);
    return value;
}

static void read_twice(const char *path)
{
    unsigned long long last;
    long before = read_counter(path, &last);
    pause_us(300);
    if (read_counter(path, &last) != before) {
        puts("torn");
    }
}

static void add_one(const char *path, unsigned long long token)
{
    unsigned long long last = 0;
    long value = read_counter(path, &last);
    if (token <= last) {
        puts("torn");
    }
    pause_us(100);
    FILE *file = fopen(path, "w");
    fprintf(file, "%ld %llu\n", value + 1, token);
    fclose(file);
}

static void contend(snib *client, const char *name, bool mixed, long seconds, const char *path)
{
    long done = 0;
    int64_t end = now_us() + seconds * 1000000;
    for (long turn = 1; now_us() < end; turn++) {
        bool reads = mixed && turn % 3 == 0;
        snib_lease *lease = take(client, name, reads);
        if (reads) {
            read_twice(path);
        } else {
            add_one(path, snib_token(lease));
            done++;
        }
        give(lease);
    }
    printf("%ld\n", done);
}

static void hold(snib *client, const char *name, bool reads, const char *path)
{
    snib_error error;
    snib_lease *lease = take(client, name, reads);
    puts("held");
    while (access(path, F_OK) != 0) {
        pause_us(2000);
    }
    printf("%lld\n", (long long)now_us());
    int code = snib_release(&lease, &error);
    if (code == SNIB_ELOST) {
        puts("lost");
    } else {
        must(code, error.message);
    }
}

int main(int argc, char *argv[])
{
    char url[200], kind[40];
    snib *client = NULL;
    snib_error error;
    if (argc < 5) {
        must(-1, "usage: contend|hold|wait PORT NAME KIND ...");
    }
    snprintf(kind, sizeof kind, "%s", argv[4]);
    char *brief = strstr(kind, "brief");
    if (brief) {
        *brief = '\0';
    }
    char *reads = strstr(kind, "-read");
    if (reads) {
        *reads = '\0';
    }
    snprintf(url, sizeof url, "redis://127.0.0.1:%s?quarantine=no&layout=%s%s", argv[2], kind,
             brief ? "&ttl=2s" : "");
    setvbuf(stdout, NULL, _IOLBF, 0);
    must(snib_open(&client, url, &error), error.message);
    if (strcmp(argv[1], "contend") == 0) {
        contend(client, argv[3], strstr(kind, "-rw") != NULL, atol(argv[5]), argv[6]);
    } else if (strcmp(argv[1], "hold") == 0) {
        hold(client, argv[3], reads != NULL, argv[5]);
    } else {
        puts("waiting");
        snib_lease *lease = take(client, argv[3], reads != NULL);
        printf("%lld\n", (long long)now_us());
        give(lease);
    }
    snib_close(client);
    return 0;
}

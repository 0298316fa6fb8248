/* SPDX-License-Identifier: Apache-2.0 */
/*
 * snib's locks, for run. All programs here have the same three ways:
 *
 *   contend PORT NAME KIND SECONDS FILE
 *       Adds 1 to the number in FILE, under the lock; then prints how often. Behind the number
 * stands the last token: one that does not grow is "torn". hold PORT NAME KIND FILE "held"; and
 * when FILE is there, the time when it is given back. wait PORT NAME KIND "waiting", then the time
 * when it is held.
 *
 * Times are in microseconds of the wall clock. KIND: a layout; "brief" behind it makes leases of 2
 * seconds.
 */
#include <snib.h>
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

static snib_lease *take(snib *client, const char *name)
{
    snib_error error;
    snib_lease *lease = NULL;
    must(snib_acquire(&lease, client, name, NULL, &error), error.message);
    return lease;
}

static void give(snib_lease *lease)
{
    snib_error error;
    must(snib_release(&lease, &error), error.message);
}

static void contend(snib *client, const char *name, long seconds, const char *path)
{
    long done = 0;
    int64_t end = now_us() + seconds * 1000000;
    while (now_us() < end) {
        long value = -1;
        unsigned long long last = 0;
        snib_lease *lease = take(client, name);
        FILE *file = fopen(path, "r");
        if (file == NULL || fscanf(file, "%ld %llu", &value, &last) != 2) {
            must(-1, "cannot read the counter");
        }
        fclose(file);
        if (snib_token(lease) <= last) {
            puts("torn");
        }
        pause_us(100);
        file = fopen(path, "w");
        fprintf(file, "%ld %llu\n", value + 1, (unsigned long long)snib_token(lease));
        fclose(file);
        done++;
        give(lease);
    }
    printf("%ld\n", done);
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
    snprintf(url, sizeof url, "redis://127.0.0.1:%s?quarantine=no&layout=%s%s", argv[2], kind,
             brief ? "&ttl=2s" : "");
    setvbuf(stdout, NULL, _IOLBF, 0);
    must(snib_open(&client, url, &error), error.message);
    if (strcmp(argv[1], "contend") == 0) {
        contend(client, argv[3], atol(argv[5]), argv[6]);
    } else if (strcmp(argv[1], "hold") == 0) {
        snib_lease *lease = take(client, argv[3]);
        puts("held");
        while (access(argv[5], F_OK) != 0) {
            pause_us(2000);
        }
        printf("%lld\n", (long long)now_us());
        give(lease);
    } else {
        puts("waiting");
        snib_lease *lease = take(client, argv[3]);
        printf("%lld\n", (long long)now_us());
        give(lease);
    }
    snib_close(client);
    return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A re-entry beside the least it could be: an uncontended mutex and one look at the clock.
 *
 *     reentry [FOLDER]                a fresh folder below FOLDER, TMPDIR or /tmp
 *
 * A re-entry is an acquire and a release by an owner that holds the lock already. It says nothing
 * to the engine, so the engine does not matter; `file:` needs no server.
 */
#include "measure.h"
#include "snib.h"

#include <pthread.h>

enum { COUNT = 5000 };

static const char owner; /* its address is the owner */
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static volatile int64_t sink;

static _Noreturn void die(const char *message)
{
    fprintf(stderr, "%s\n", message);
    exit(1);
}

static double mutex_and_clock(void *arg, long count)
{
    (void)arg;
    int64_t start = measure_now_ns();
    for (long i = 0; i < count; i++) {
        pthread_mutex_lock(&mutex);
        sink = measure_now_ns();
        pthread_mutex_unlock(&mutex);
    }
    return measure_each(start, count);
}

static double reenter(void *arg, long count)
{
    snib_options options = SNIB_OPTIONS;
    snib_error error;
    options.owner = &owner;
    int64_t start = measure_now_ns();
    for (long i = 0; i < count; i++) {
        snib_lease *lease;
        if (snib_acquire(&lease, arg, "bench", &options, &error) < 0 ||
            snib_release(&lease, &error) < 0) {
            die(error.message);
        }
    }
    return measure_each(start, count);
}

static snib_lease *hold(snib *client)
{
    snib_options options = SNIB_OPTIONS;
    snib_lease *lease;
    snib_error error;
    options.owner = &owner;
    if (snib_acquire(&lease, client, "bench", &options, &error) < 0) {
        die(error.message);
    }
    return lease;
}

int main(int argc, char **argv)
{
    char folder[256], url[300];
    snib *client;
    snib_error error;
    measure_make_folder(folder, sizeof folder, argc, argv);
    snprintf(url, sizeof url, "file://%s", folder);
    if (snib_open(&client, url, &error) < 0) {
        die(error.message);
    }
    snib_lease *lease = hold(client);
    const struct measure_subject subjects[] = {
        {"bare: mutex lock, clock, mutex unlock", mutex_and_clock, NULL, COUNT, -1, 0, 0},
        {"snib: re-entry, acquire and release", reenter, client, COUNT, 0, 5, 0},
    };
    measure(subjects, sizeof subjects / sizeof subjects[0]);
    snib_release(&lease, NULL);
    snib_close(client);
    measure_remove_folder(folder);
    return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A service that can be stopped while its threads wait for locks.
 *
 *     shutdown [URL]          else SNIB_URL, else the default
 *
 * Four threads wait for a lock that somebody else keeps. SIGTERM arrives at a descriptor, which is
 * the stop_fd of every wait: all of them end with SNIB_ECANCELED, and nothing is left behind.
 * Here the program sends the signal to itself.
 *
 * Left out on purpose: an event loop. One that has the descriptor already goes on as it does; who
 * waits only looks whether it is readable, and never reads it.
 */
#include <snib.h>

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/signalfd.h>
#include <unistd.h>

enum { WORKERS = 4 };

struct service {
    snib *client;
    int stop_fd;
};

static _Noreturn void give_up(const snib_error *error)
{
    fprintf(stderr, "%s: %s\n", snib_errname(error->code), error->message);
    exit(1);
}

static void *work(void *arg)
{
    struct service *service = arg;
    snib_options options = SNIB_OPTIONS;
    snib_lease *lease;
    snib_error error;

    options.stop_fd = service->stop_fd;
    int code = snib_acquire(&lease, service->client, "report", &options, &error);
    if (code == SNIB_ECANCELED) {
        return service; /* told to stop */
    }
    if (code < 0) {
        give_up(&error);
    }
    snib_release(&lease, NULL);
    return NULL;
}

/* Before the first thread, so that all of them leave the signal to the descriptor. */
static int open_signals(void)
{
    sigset_t stopping;
    sigemptyset(&stopping);
    sigaddset(&stopping, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &stopping, NULL);
    return signalfd(-1, &stopping, SFD_CLOEXEC | SFD_NONBLOCK);
}

int main(int argc, char **argv)
{
    const char *url = argc > 1 ? argv[1] : NULL;
    struct service service = {.stop_fd = open_signals()};
    pthread_t threads[WORKERS];
    snib *other;
    snib_lease *kept;
    snib_error error;
    int stopped = 0;

    if (service.stop_fd < 0) {
        perror("signalfd");
        return 1;
    }
    if (snib_open(&service.client, url, &error) < 0 || snib_open(&other, url, &error) < 0 ||
        snib_acquire(&kept, other, "report", NULL, &error) < 0) {
        give_up(&error);
    }
    for (int i = 0; i < WORKERS; i++) {
        if (pthread_create(&threads[i], NULL, work, &service) != 0) {
            fprintf(stderr, "no thread to be had\n");
            return 1;
        }
    }
    kill(getpid(), SIGTERM);
    for (int i = 0; i < WORKERS; i++) {
        void *answer = NULL;
        pthread_join(threads[i], &answer);
        stopped += answer != NULL;
    }
    printf("%d of %d waits stopped\n", stopped, WORKERS);
    snib_release(&kept, NULL);
    snib_close(other);
    snib_close(service.client);
    close(service.stop_fd);
    return stopped == WORKERS ? 0 : 1;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One thread, one poll loop: asynchronous acquires, a cancel, and the notice of a loss.
 *
 *     event_loop [URL]                else SNIB_URL, else the default
 *
 * Three jobs want a lock each:
 *   printing   is held by somebody else: the job hears that it waits, and cancels
 *   scanning   is granted, runs longer than its max_hold, is warned, and told when it is over
 *   plotting   is granted, and done before anything happens
 *
 * The somebody else is a second client in this program; in life it is another process.
 *
 * Left out on purpose: a timer of its own. The lease has one, and shows it as a descriptor.
 */
#include <snib.h>

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PRINTING, SCANNING, PLOTTING, JOBS };

struct job {
    snib *client;
    const char *name;
    snib_ticket ticket;
    snib_lease *lease; /* while it runs */
    int watch_fd;      /* readable: stop the work */
    int answered;      /* the code of the acquire */
    int released;      /* the code of the release */
    int over;
};

static _Noreturn void give_up(const snib_error *error)
{
    fprintf(stderr, "%s: %s\n", snib_errname(error->code), error->message);
    exit(1);
}

static void finish(struct job *job)
{
    job->released = snib_release(&job->lease, NULL);
    job->watch_fd = -1;
    job->over = 1;
    printf("%s: released, %s\n", job->name, snib_strerror(job->released));
}

/* The answer to an acquire. Runs inside snib_dispatch, so on the loop's own thread. */
static void on_done(snib_lease *lease, const snib_error *error, void *arg)
{
    struct job *job = arg;

    if (lease == NULL) {
        printf("%s: %s\n", job->name, snib_strerror(error->code));
        job->answered = error->code;
        job->over = 1;
        return;
    }
    printf("%s: token %llu\n", job->name, (unsigned long long)snib_token(lease));
    job->lease = lease;
    job->watch_fd = snib_fd(lease);
    if (strcmp(job->name, "plotting") == 0) {
        finish(job); /* a short job */
    }
}

/* What happens to a wait or to a lease. Also inside snib_dispatch; may release the lease. */
static void on_event(const snib_event *event, void *arg)
{
    struct job *job = arg;

    printf("%s: %s\n", job->name, event->why);
    if (event->state == SNIB_WAITING) {
        snib_cancel(job->client, event->ticket);
    } else if (event->state == SNIB_LOST) {
        finish(job);
    }
}

/* The descriptor of a lease is readable: it is DOUBTFUL, or LOST already. A careful job stops
 * here and releases in time; this one needs a little longer than it has. */
static void on_watch(struct job *job)
{
    printf("%s: %lld ms left\n", job->name, (long long)snib_left_ms(job->lease));
    job->watch_fd = -1; /* it stays readable: do not look again */
}

static void start(struct job *job, snib *client, const char *name, int64_t max_hold_ms)
{
    snib_options options = SNIB_OPTIONS;
    snib_error error;

    memset(job, 0, sizeof *job);
    job->client = client;
    job->name = name;
    job->watch_fd = -1;
    options.max_hold_ms = max_hold_ms;
    options.on_event = on_event;
    options.arg = job;
    if (snib_acquire_async(&job->ticket, client, name, &options, on_done, job, &error) < 0) {
        give_up(&error);
    }
}

/* Until all jobs are over. poll ignores the descriptors that are negative. */
static void run(snib *client, int events_fd, struct job jobs[JOBS])
{
    while (!jobs[PRINTING].over || !jobs[SCANNING].over || !jobs[PLOTTING].over) {
        struct pollfd fds[JOBS + 1] = {{.fd = events_fd, .events = POLLIN}};
        for (int i = 0; i < JOBS; i++) {
            fds[i + 1] = (struct pollfd){.fd = jobs[i].watch_fd, .events = POLLIN};
        }
        if (poll(fds, JOBS + 1, 30000) <= 0) {
            fprintf(stderr, "nothing happens\n");
            exit(1);
        }
        for (int i = 0; i < JOBS; i++) {
            if (fds[i + 1].revents != 0) {
                on_watch(&jobs[i]);
            }
        }
        if (fds[0].revents != 0) {
            snib_dispatch(client, 0);
        }
    }
}

int main(int argc, char **argv)
{
    const char *url = argc > 1 ? argv[1] : NULL;
    snib *client, *somebody;
    snib_lease *taken;
    snib_error error;
    struct job jobs[JOBS];
    int events_fd;

    if (snib_open(&somebody, url, &error) < 0 || snib_open(&client, url, &error) < 0 ||
        snib_acquire(&taken, somebody, "printing", NULL, &error) < 0 ||
        snib_events(client, &events_fd, &error) < 0) {
        give_up(&error);
    }
    start(&jobs[PRINTING], client, "printing", 0);
    start(&jobs[SCANNING], client, "scanning", 300);
    start(&jobs[PLOTTING], client, "plotting", 0);
    run(client, events_fd, jobs);

    snib_release(&taken, NULL);
    snib_close(client);
    snib_close(somebody);
    return jobs[PRINTING].answered == SNIB_ECANCELED && jobs[SCANNING].released == SNIB_ELOST &&
                   jobs[PLOTTING].released == SNIB_OK
               ? 0
               : 1;
}

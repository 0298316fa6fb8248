/* SPDX-License-Identifier: Apache-2.0 */
/*
 * snib run: a command under a lock.
 *
 *   snib ---- supervises, keeps the lock, passes signals and the terminal on      supervise.c
 *    |-- snib-guard ---- kills the job's group if snib dies or stands still       guardian.c
 *    `-- the command ---- leads a process group of its own                        job.c
 *
 * Order is everything: the lock, then the guardian, then the command; at the end the command and
 * what is left of its group, then the guardian, then the lock. So there is no instant at which
 * the command runs and the lock is not held, whoever of them is killed.
 *
 * We adopt what the command's processes leave behind (a subreaper), so that we see them end, also
 * as process 1 of a container. What has left the group (setsid, a daemon, sudo with a terminal of
 * its own) is not followed: snib(1) says so.
 */
#include "clock.h"
#include "command.h"
#include "environment.h"
#include "say.h"
#include "supervise.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define LISTEN_AFTER_NS (100 * CLOCK_MS)
#define HEAR_MS 500 /* how often to see where the deadline is when nothing depends on it */

/* The ttl, or the maximum hold if that is shorter. The library's deadline is 9/10 of the ttl, so
 * that tells it; before the grant, it is known only if it was given. */
static int64_t span_ms(const struct lock *lock, bool granted)
{
    const struct options *o = lock->options;
    int64_t span = INT64_MAX;
    if (lock->leased && o->lock.ttl_ms) {
        span = o->lock.ttl_ms;
    } else if (lock->leased && granted) {
        span = (lock->deadline_ns - clock_now_ns()) / CLOCK_MS / 9 * 10;
    }
    if (o->lock.max_hold_ms && o->lock.max_hold_ms < span) {
        span = o->lock.max_hold_ms;
    }
    return span;
}

/* The least time may not be over when the command is. Signals end this too. */
static void hold_on(const struct supervision *s)
{
    int64_t until_ns = s->lock->held_since_ns + s->options->min_hold_ms * CLOCK_MS;
    if (clock_now_ns() >= until_ns) {
        return;
    }
    char left[SPAN_SIZE];
    tell("keeping the lock for another %s",
         span_text(left, (until_ns - clock_now_ns()) / CLOCK_MS));
    int timer_fd = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK);
    clock_arm(timer_fd, until_ns);
    for (bool ended = timer_fd < 0; !ended && !s->lock->lost;) {
        struct pollfd fds[] = {{.fd = timer_fd, .events = POLLIN},
                               {.fd = s->signals->fd, .events = POLLIN},
                               {.fd = lock_fd(s->lock), .events = POLLIN}};
        (void)poll(fds, 3, s->lock->leased ? HEAR_MS : -1);
        ended = clock_now_ns() >= until_ns;
        for (int number; (number = signals_next(s->signals)) != 0;) {
            ended |= signals_ends(number);
        }
        lock_hear(s->lock);
    }
    close(timer_fd);
}

/* Lock and guardian are there: the command, until nothing of it lives. */
static int run_job(struct supervision *s, char **environment)
{
    struct job_plan plan = {
        .command = s->options->command,
        .environment = environment,
        .signals = s->signals,
        .terminal = s->terminal,
        .page = s->guardian->page,
        .not_after_ns = s->timeline.kill_ns,
    };
    int status = job_start(s->job, &plan);
    if (status == 0) {
        supervise(s);
        terminal_take_back(s->terminal, WIFSIGNALED(s->job->status));
        status = job_not_executed(s->job, s->options->command[0]);
    }
    guardian_dismiss(s->guardian);
    if (status != 0) {
        return status;
    }
    if (s->options->min_hold_ms) {
        hold_on(s);
    }
    int released = lock_release(s->lock);
    if (released == SNIB_OK && telling()) {
        char span[SPAN_SIZE];
        tell("released after %s",
             span_text(span, (clock_now_ns() - s->lock->held_since_ns) / CLOCK_MS));
    }
    return supervise_status(s, released);
}

/* The guardian, then the command. */
static int run_guarded(struct supervision *s, char **environment)
{
    int error = guardian_start(s->guardian);
    if (error != 0) {
        return fail(STATUS_INTERNAL, "cannot start the guardian: %s", strerror(error));
    }
    return run_job(s, environment);
}

/* The lock is there. */
static int run_locked(struct supervision *s, char *title, size_t title_size)
{
    char **environment = NULL;
    int status = lock_confirm(s->lock);
    if (status == 0) {
        status = timeline_plan(&s->timeline, span_ms(s->lock, true), s->options->grace_ms);
    }
    if (status == 0) {
        environment = environment_make(s->lock);
        status = environment ? guardian_prepare(s->guardian, title, title_size)
                             : fail(STATUS_INTERNAL, "out of memory");
    }
    if (status == 0) {
        timeline_move(&s->timeline, s->lock->deadline_ns);
        s->listen_ns = lock_deaf(s->lock) ? clock_now_ns() + LISTEN_AFTER_NS : CLOCK_NEVER;
        if (s->options->on_lost == ON_LOST_KILL) {
            guardian_set(s->guardian, s->timeline.guard_ns);
        }
        status = run_guarded(s, environment);
    }
    (void)lock_release(s->lock); /* if it was not done */
    guardian_bury(s->guardian);
    environment_free(environment);
    return status;
}

/* What can be refused is refused before anything is waited for. */
static int prepare(struct lock *lock, struct options *options)
{
    struct timeline draft;
    int status = lock_open(lock, options);
    if (status == 0) {
        status = timeline_plan(&draft, span_ms(lock, false), options->grace_ms);
    }
    return status == 0 ? environment_check_nested(lock) : status;
}

/*
 * On a terminal Ctrl-C means everything in the foreground: also the script that runs us, or the
 * shell's loop around us. They go by whether we died of the signal, not by a status of 130. And
 * if the job had the terminal, they have not seen the signal at all.
 */
static void pass_interrupt_on(int number, struct terminal *terminal)
{
    if ((number == SIGINT || number == SIGQUIT) && terminal_is_ours(terminal)) {
        signals_die(number, terminal->lent_to != 0);
    }
}

int command_run(int argc, char *argv[])
{
    struct options options;
    struct signals signals;
    struct terminal terminal;
    struct guardian guardian = {0};
    struct job job = {0};
    struct lock lock;
    int status = options_read(&options, argc, argv, OPTIONS_RUN);
    if (status != 0 || !options.names) {
        return status;
    }
    status = signals_take(&signals);
    if (status != 0) {
        options_free(&options);
        return status;
    }
    int interrupt = 0;
    status = prepare(&lock, &options);
    terminal_find(&terminal);
    if (status == 0 && lock_acquire(&lock, &signals, &status)) {
        struct supervision s = {
            .options = &options,
            .lock = &lock,
            .signals = &signals,
            .terminal = &terminal,
            .guardian = &guardian,
            .job = &job,
            .timer_fd = -1,
        };
        char *end = argv[argc - 1] + strlen(argv[argc - 1]);
        prctl(PR_SET_CHILD_SUBREAPER, 1);
        status = run_locked(&s, argv[0], (size_t)(end - argv[0]));
        interrupt = status == STATUS_SIGNAL + supervise_interrupt(&s) ? status - STATUS_SIGNAL : 0;
    }
    interrupt = lock.ended_by ? lock.ended_by : interrupt;
    lock_close(&lock);
    options_free(&options);
    pass_interrupt_on(interrupt, &terminal);
    return status;
}

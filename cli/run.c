/* SPDX-License-Identifier: Apache-2.0 */
/*
 * snib run: a command under a lock.
 *
 *   snib ---- what the user started: passes signals down, the status up         guardian.c
 *    `-- job-supervisor ---- has the lock, passes the terminal on               supervise.c
 *         `-- the command ---- leads a process group of its own                 job.c
 *
 * Order is everything: the guardian, the lock, what the guardian must have to keep it, then the
 * command; at the end all that came of the command, then the lock. So there is no instant at which
 * the command runs and the lock is not held, whoever of them is killed.
 *
 * The supervisor has another name than snib, and shows no arguments: `pkill -9 snib` and `pkill -f`
 * with the words of a command line kill one of the two and not both.
 */
#include "clock.h"
#include "command.h"
#include "deposit.h"
#include "descendants.h"
#include "environment.h"
#include "label.h"
#include "say.h"
#include "supervise.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
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
        for (int number; (number = signals_next(s->signals, NULL)) != 0;) {
            ended |= signals_ends(number);
        }
        lock_hear(s->lock);
    }
    close(timer_fd);
}

/* The command, until nothing of it lives; then the lock is given back. */
static int run_job(struct supervision *s, char **environment)
{
    struct guardian_page *page = s->guardian->page;
    struct job_plan plan = {
        .command = s->options->command,
        .environment = environment,
        .signals = s->signals,
        .terminal = s->terminal,
        .witness = &page->witness,
        .error = &page->exec_error,
        .not_after_ns = s->timeline.kill_ns,
    };
    if (signals_orphaned(s->signals)) {
        return STATUS_INTERNAL; /* whoever wanted it is dead, and nobody reads this */
    }
    if (s->terminal->at_start) {
        supervise_typing(s);
        plan.witnessed = s->witness != 0;
    }
    int status = job_start(s->job, &plan);
    if (status == 0) {
        supervise(s);
        terminal_take_back(s->terminal, WIFSIGNALED(s->job->status));
        status = job_report_error(page->exec_error, s->options->command[0]);
    }
    guardian_set(s->guardian, CLOCK_NEVER);
    if (status != 0) {
        return status;
    }
    if (s->options->min_hold_ms && s->reason != STOP_ORPHANED) {
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

/* The lock is there. */
static int run_locked(struct supervision *s)
{
    char **environment = NULL;
    int status = deposit_leave(s->guardian, s->lock); /* first: we may be killed any moment */
    if (status == 0) {
        status = lock_confirm(s->lock);
    }
    if (status == 0) {
        status = timeline_plan(&s->timeline, span_ms(s->lock, true), s->options->grace_ms);
    }
    if (status == 0) {
        environment = environment_make(s->lock);
        status = environment ? 0 : fail(STATUS_INTERNAL, "out of memory");
    }
    if (status == 0) {
        timeline_move(&s->timeline, s->lock->deadline_ns);
        s->listen_ns = lock_deaf(s->lock) ? clock_now_ns() + LISTEN_AFTER_NS : CLOCK_NEVER;
        if (s->options->on_lost == ON_LOST_KILL) {
            atomic_store(&s->guardian->page->margin_ns, s->timeline.margin_ns);
            guardian_set(s->guardian, s->timeline.guard_ns);
        }
        status = run_job(s, environment);
    }
    (void)lock_release(s->lock); /* if it was not done */
    environment_free(environment);
    return status;
}

/* What can be refused is refused before anything is waited for. */
static int prepare(struct lock *lock, struct guardian *guardian)
{
    struct options *options = guardian->options;
    struct guardian_page *page = guardian->page;
    struct timeline draft;
    int status = lock_open(lock, options);
    if (status == 0) {
        (void)snprintf(page->shown, sizeof page->shown, "%s", snib_url(lock->client));
        atomic_store(&page->opened, true);
        if (guardian->shows_url) {
            guardian_nudge(guardian);
        }
        status = timeline_plan(&draft, span_ms(lock, false), options->grace_ms);
    }
    return status == 0 ? environment_check_nested(lock) : status;
}

static int run_supervised(struct guardian *guardian)
{
    struct job job = {0};
    struct lock lock;
    struct supervision s = {
        .options = guardian->options,
        .lock = &lock,
        .signals = guardian->signals,
        .terminal = &guardian->page->terminal,
        .guardian = guardian,
        .job = &job,
        .timer_fd = -1,
    };
    int status = prepare(&lock, guardian);
    if (status == 0 && lock_acquire(&lock, s.signals, &status)) {
        status = run_locked(&s);
        if (status == STATUS_SIGNAL + supervise_interrupt(&s)) {
            guardian->page->interrupt = status - STATUS_SIGNAL;
            guardian->page->interrupt_group = s.terminal->lent_to != 0;
        }
    }
    if (lock.ended_by) {
        guardian->page->interrupt = lock.ended_by;
    }
    lock_close(&lock);
    return status;
}

/* ---- Two processes ---------------------------------------------------------------------- */

/* The arguments, which the options point to, move to another place; where they were, others see
 * our name and nothing else. */
static int take_another_name(int argc, char *argv[], struct options *options, char **moved)
{
    char **whole = argv - 1; /* as main had it: the program's name, "run", ... */
    char *from = *whole;
    size_t size = (size_t)(argv[argc - 1] + strlen(argv[argc - 1]) + 1 - from);
    char *copy = *moved = malloc(size);
    if (!copy) {
        return fail(STATUS_INTERNAL, "out of memory");
    }
    memcpy(copy, from, size);
    options_move(options, from, size, copy);
    for (int i = 0; i <= argc; i++) {
        whole[i] = copy + (whole[i] - from);
    }
    memset(from, 0, size);
    (void)snprintf(from, size, "%s", SUPERVISOR_NAME);
    prctl(PR_SET_NAME, SUPERVISOR_NAME);
    return 0;
}

/* In the supervisor. Its group is its own, so that signals to that of the guardian come by way of
 * the guardian, and once. */
static int become_supervisor(struct guardian *guardian, int argc, char *argv[])
{
    setpgid(0, 0);
    close(guardian->deposit_fds[0]);
    guardian->deposit_fds[0] = -1;
    signals_watch_parent(guardian->signals, guardian->guardian_fd);
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    char *moved = NULL;
    int status = take_another_name(argc, argv, guardian->options, &moved);
    if (status == 0) {
        status = run_supervised(guardian);
    }
    free(moved);
    atomic_store(&guardian->page->over, true);
    return status;
}

int command_run(int argc, char *argv[])
{
    struct options options;
    struct signals signals;
    struct guardian guardian = {0};
    char label[LABEL_SIZE];
    int status = options_read(&options, argc, argv, OPTIONS_RUN);
    if (status != 0 || !options.names) {
        return status;
    }
    if (!options.lock.label) {
        options.lock.label = label_make(label, options.command[0]);
    }
    status = signals_take(&signals);
    if (status == 0) {
        status = guardian_prepare(&guardian, &options, &signals);
    }
    if (status == 0) {
        pid_t pid = fork();
        if (pid < 0) {
            status = fail(STATUS_INTERNAL, "cannot start the supervisor: %s", strerror(errno));
        } else if (pid == 0) {
            status = become_supervisor(&guardian, argc, argv);
        } else {
            guardian.supervisor = pid;
            setpgid(pid, pid); /* whoever comes first */
            status = guardian_watch(&guardian);
        }
    }
    guardian_free(&guardian);
    options_free(&options);
    return status;
}

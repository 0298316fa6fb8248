/* SPDX-License-Identifier: Apache-2.0 */
/*
 * snib hold: a lock for as long as somebody keeps our stdin open.
 *
 * What flock(1) does with a descriptor number, on every engine: a script starts it with a pipe as
 * its stdin, reads the token from its stdout (which is then closed, so that a reader sees the
 * end), and closes the pipe when it is done. The death of our parent ends it too: a script that
 * was killed does not leave its lock behind because some child of its still has the pipe.
 *
 * With --json it is a conversation about any number of locks instead: see converse.c.
 *
 * There is no job to stop, so when the lock is lost all we can do is to end at once, with 79.
 */
#include "clock.h"
#include "command.h"
#include "converse.h"
#include "environment.h"
#include "input.h"
#include "label.h"
#include "say.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define FAREWELL_MS 300

static int print_tokens(const struct lock *lock)
{
    for (size_t i = 0; i < lock->options->name_count; i++) {
        (void)printf("%s%" PRIu64, i ? " " : "", snib_token(lock->leases[i]));
    }
    (void)putchar('\n');
    if (fflush(stdout) != 0) {
        return fail(STATUS_INTERNAL, "cannot write the token: %s", strerror(errno));
    }
    int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
    if (null >= 0) {
        (void)dup2(null, STDOUT_FILENO);
        close(null);
    }
    return 0;
}

/* Takes the signals that have come; true: one of them ends us. */
static bool take_signals(const struct signals *signals)
{
    bool ends = false;
    for (int number; (number = signals_next(signals, NULL)) != 0;) {
        if (number == SIGTSTP) {
            say("not stopped: it would hold the lock unseen");
        }
        ends |= signals_ends(number);
    }
    return ends;
}

static void *end_us(void *arg)
{
    (void)arg;
    nanosleep(&(struct timespec){.tv_nsec = FAREWELL_MS * CLOCK_MS}, NULL);
    _exit(STATUS_LOST);
}

/* Whoever waits for our end must hear of the loss. Other locks are given back to a server that
 * answers; for one that does not nobody waits. */
static void end_soon(void)
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, end_us, NULL) == 0) {
        pthread_detach(thread);
    }
}

static int hold(struct lock *lock, const struct signals *signals)
{
    char left[SPAN_SIZE];
    struct input input;
    input_open(&input);
    lock_listen(lock);
    for (;;) {
        struct pollfd fds[] = {
            {.fd = signals->fd, .events = POLLIN}, {.fd = lock_fd(lock), .events = POLLIN}, {0}};
        int timeout_ms = input_watch(&input, &fds[2]);
        (void)poll(fds, 3, timeout_ms);
        lock_hear(lock);
        if (lock->lost) {
            end_soon();
            return fail(STATUS_LOST, "lock '%s' was lost: %s", lock->lost_name, lock->why);
        }
        if (take_signals(signals) || input_drain(&input, &fds[2])) {
            (void)lock_release(lock);
            tell("released after %s",
                 span_text(left, (clock_now_ns() - lock->held_since_ns) / CLOCK_MS));
            return 0;
        }
    }
}

/*
 * A parent that died before we could look has left us to a stranger, whose death we would wait for
 * in vain. It shows by the session: whoever starts a process is in the same one, unless the
 * process was made the leader of a new one.
 */
static bool was_left_alone(void)
{
    pid_t parent = getppid();
    return parent > 0 && getsid(0) != getpid() && getsid(parent) != getsid(0);
}

static void watch_parent(struct signals *signals)
{
    signals_watch_parent(signals, (int)syscall(SYS_pidfd_open, getppid(), 0));
    if (was_left_alone()) {
        signals->parent_fd = -1;
        kill(getpid(), SIGNAL_ORPHANED);
    }
}

static int hold_locked(struct lock *lock, const struct signals *signals)
{
    int status = lock_confirm(lock);
    if (status == 0) {
        status = print_tokens(lock);
    }
    if (status == 0) {
        status = hold(lock, signals);
    }
    (void)lock_release(lock);
    return status;
}

static int hold_acquired(struct lock *lock, const struct signals *signals)
{
    int status = environment_check_nested(lock);
    if (status == 0 && lock_acquire(lock, signals, &status)) {
        status = hold_locked(lock, signals);
    }
    return status;
}

int command_hold(int argc, char *argv[])
{
    struct options options;
    struct signals signals;
    struct lock lock;
    char label[LABEL_SIZE];
    int status = options_read(&options, argc, argv, OPTIONS_HOLD);
    if (status != 0 || !options.names) {
        return status;
    }
    status = signals_take(&signals);
    if (status != 0) {
        options_free(&options);
        return status;
    }
    watch_parent(&signals);
    options.lock.label = options.lock.label ? options.lock.label : label_make_of_parent(label);
    status = lock_open(&lock, &options);
    if (status == 0 && options.json) {
        status = converse(&lock, &signals);
    } else if (status == 0) {
        status = hold_acquired(&lock, &signals);
    }
    lock_close(&lock);
    options_free(&options);
    return status;
}

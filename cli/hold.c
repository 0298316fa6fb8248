/* SPDX-License-Identifier: Apache-2.0 */
/*
 * snib hold: a lock for as long as somebody keeps our stdin open.
 *
 * What flock(1) does with a descriptor number, on every engine: a script starts it with a pipe as
 * its stdin, reads the token from its stdout (which is then closed, so that a reader sees the
 * end), and closes the pipe when it is done. The death of our parent ends it too: a script that
 * was killed does not leave its lock behind because some child of its still has the pipe.
 *
 * There is no job to stop, so when the lock is lost all we can do is to end at once, with 79.
 */
#include "clock.h"
#include "command.h"
#include "environment.h"
#include "say.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

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

/* True when it has ended. What it says is of no interest. */
static bool stdin_ended(void)
{
    char ignored[4096];
    ssize_t n = read(STDIN_FILENO, ignored, sizeof ignored);
    return n == 0 || (n < 0 && errno != EINTR && errno != EAGAIN);
}

static bool told_to_end(const struct signals *signals)
{
    bool ends = false;
    for (int number; (number = signals_next(signals)) != 0;) {
        if (number == SIGTSTP) {
            say("not stopped: it would hold the lock unseen");
        }
        ends |= signals_ends(number);
    }
    return ends;
}

static int hold(struct lock *lock, const struct signals *signals, int parent_fd)
{
    char left[SPAN_SIZE];
    lock_listen(lock);
    for (;;) {
        struct pollfd fds[] = {{.fd = STDIN_FILENO, .events = POLLIN},
                               {.fd = parent_fd, .events = POLLIN},
                               {.fd = signals->fd, .events = POLLIN},
                               {.fd = lock_fd(lock), .events = POLLIN}};
        (void)poll(fds, 4, -1);
        lock_hear(lock);
        if (lock->lost) {
            return fail(STATUS_LOST, "lock '%s' was lost: %s", lock->lost_name, lock->why);
        }
        if (fds[1].revents || told_to_end(signals) || (fds[0].revents && stdin_ended())) {
            (void)lock_release(lock);
            tell("released after %s",
                 span_text(left, (clock_now_ns() - lock->held_since_ns) / CLOCK_MS));
            return 0;
        }
    }
}

int command_hold(int argc, char *argv[])
{
    struct options options;
    struct signals signals;
    struct lock lock;
    int status = options_read(&options, argc, argv, OPTIONS_HOLD);
    if (status != 0 || !options.names) {
        return status;
    }
    int parent_fd = (int)syscall(SYS_pidfd_open, getppid(), 0);
    status = signals_take(&signals);
    if (status != 0) {
        options_free(&options);
        return status;
    }
    status = lock_open(&lock, &options);
    if (status == 0) {
        status = environment_check_nested(&lock);
    }
    if (status == 0 && lock_acquire(&lock, &signals, &status)) {
        status = lock_confirm(&lock);
        if (status == 0) {
            status = print_tokens(&lock);
        }
        if (status == 0) {
            status = hold(&lock, &signals, parent_fd);
        }
        (void)lock_release(&lock);
    }
    lock_close(&lock);
    options_free(&options);
    return status;
}

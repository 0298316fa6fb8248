/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The terminal, and who may read it.
 *
 * The job is a process group of its own, so that all of it can be signalled at once. On a
 * terminal only one group is in the foreground: the one that may read, and that Ctrl-C reaches.
 * So if we are in the foreground we lend our place to the job, and take it back at the end:
 *
 * - at once, if both stdin and stdout are terminals: an editor, a shell, a dialogue;
 * - else when the job first asks for it, which shows as a stop by SIGTTIN or SIGTTOU. In a
 *   pipeline (`snib run x make | less`) our neighbours are in our group and want the terminal
 *   too. Until then we hear Ctrl-C and pass it on.
 *
 * Ctrl-Z does not stop snib: a job that sleeps in the background and holds a lock is a trap for
 * others. The shell therefore thinks that we run, and says nothing when it brings us to the
 * foreground: a job that waits for the terminal is looked after from time to time.
 */
#include "terminal.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

void terminal_find(struct terminal *t)
{
    *t = (struct terminal){.fd = open("/dev/tty", O_RDWR | O_CLOEXEC | O_NOCTTY),
                           .front = getpgrp()};
    t->whole = t->fd >= 0 && isatty(STDIN_FILENO) && isatty(STDOUT_FILENO);
    t->at_start = t->whole && terminal_is_ours(t);
    if (t->at_start) {
        t->remembered = tcgetattr(t->fd, &t->modes) == 0;
    }
}

bool terminal_is_ours(const struct terminal *t)
{
    return t->fd >= 0 && tcgetpgrp(t->fd) == t->front;
}

void terminal_take_in_child(const struct terminal *t)
{
    if (t->at_start) {
        tcsetpgrp(t->fd, getpid()); /* SIGTTOU is blocked */
    }
}

void terminal_lend_noted(struct terminal *t, pid_t pgid)
{
    if (t->at_start) {
        t->lent_to = pgid;
    }
}

bool terminal_lend(struct terminal *t, pid_t pgid)
{
    if (!terminal_is_ours(t)) {
        return false;
    }
    if (!t->remembered) {
        t->remembered = tcgetattr(t->fd, &t->modes) == 0;
    }
    if (tcsetpgrp(t->fd, pgid) < 0) {
        return false;
    }
    t->lent_to = pgid;
    return true;
}

bool terminal_lend_again(struct terminal *t, pid_t pgid)
{
    return t->whole && terminal_lend(t, pgid);
}

/* Not from somebody who lives: a shell that was the job may have lent it on. */
void terminal_take_back(struct terminal *t, bool broken)
{
    pid_t front = t->lent_to ? tcgetpgrp(t->fd) : 0;
    if (front > 0 && (front == t->lent_to || (kill(-front, 0) < 0 && errno == ESRCH))) {
        tcsetpgrp(t->fd, t->front);
        if (broken && t->remembered) {
            tcsetattr(t->fd, TCSADRAIN, &t->modes);
        }
    }
}

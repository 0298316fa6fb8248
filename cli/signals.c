/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Signals are blocked and read like input: no handlers, so nothing runs in the middle of
 * something else, and none is lost between "look" and "sleep".
 *
 * What we were started to ignore (nohup's SIGHUP, the SIGINT of a script's background job) stays
 * ignored, by us and by the job: the kernel queues blocked signals even if they are ignored, so
 * they are left out of what is read. Faults are not blocked: a crash must be one. SIGCHLD is the
 * exception to it all: ignored, it would take the job's status away.
 *
 * The descriptor may be used by a forked child too: each process reads its own signals from it.
 */
#include "signals.h"

#include "command.h"
#include "say.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <unistd.h>

#define PATIENCE_MS 100

static const int faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP, SIGSYS};

int signals_take(struct signals *s)
{
    sigset_t all, heard;
    struct sigaction now;
    sigfillset(&all);
    for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++) {
        sigdelset(&all, faults[i]);
    }
    sigprocmask(SIG_SETMASK, &all, &s->before);
    heard = all;
    sigemptyset(&s->ignored);
    for (int number = 1; number < SIGRTMIN; number++) {
        if (sigismember(&all, number) == 1 && sigaction(number, NULL, &now) == 0 &&
            now.sa_handler == SIG_IGN) {
            sigaddset(&s->ignored, number);
            sigdelset(&heard, number);
        }
    }
    if (sigismember(&s->ignored, SIGCHLD)) {
        (void)signal(SIGCHLD, SIG_DFL);
        sigaddset(&heard, SIGCHLD);
    }
    s->parent_fd = -1;
    s->fd = signalfd(-1, &heard, SFD_CLOEXEC | SFD_NONBLOCK);
    if (s->fd < 0) {
        return fail(STATUS_INTERNAL, "cannot listen for signals: %s", strerror(errno));
    }
    return 0;
}

/* Another parent is the proof. In a process namespace that begins with us the parent's number is 0
 * before and after; there the pidfd tells, which for a moment may know less than the signal. */
static bool parent_is_dead(const struct signals *s, int patience_ms)
{
    struct pollfd parent = {.fd = s->parent_fd, .events = POLLIN};
    return s->parent_fd < 0 || getppid() != s->parent || poll(&parent, 1, patience_ms) == 1;
}

/* The kernel sends the signal also when the thread that has started us ends and its process goes
 * on, and so may anybody: what has become of the parent decides. */
void signals_watch_parent(struct signals *s, int parent_fd)
{
    s->parent_fd = parent_fd;
    s->parent = getppid();
    prctl(PR_SET_PDEATHSIG, SIGNAL_ORPHANED);
    if (parent_fd >= 0 && parent_is_dead(s, 0)) {
        kill(getpid(), SIGNAL_ORPHANED);
    }
}

bool signals_orphaned(const struct signals *s)
{
    return s->parent_fd >= 0 && parent_is_dead(s, 0);
}

int signals_next(const struct signals *s, bool *by_key)
{
    struct signalfd_siginfo info;
    int number;
    do {
        if (read(s->fd, &info, sizeof info) != (ssize_t)sizeof info) {
            return 0;
        }
        number = (int)info.ssi_signo;
    } while (number == SIGNAL_ORPHANED && !parent_is_dead(s, PATIENCE_MS));
    if (by_key) {
        *by_key = info.ssi_code == SI_KERNEL;
    }
    return number;
}

bool signals_ends(int number)
{
    return number == SIGHUP || number == SIGINT || number == SIGQUIT || number == SIGTERM ||
           number == SIGNAL_ORPHANED;
}

void signals_give_back(const struct signals *s)
{
    if (sigismember(&s->ignored, SIGCHLD)) {
        (void)signal(SIGCHLD, SIG_IGN);
    }
    sigprocmask(SIG_SETMASK, &s->before, NULL);
}

void signals_die(int number, bool group)
{
    sigset_t one;
    struct rlimit none = {0};
    (void)setrlimit(RLIMIT_CORE, &none);
    (void)signal(number, SIG_DFL);
    kill(group ? 0 : getpid(), number);
    sigemptyset(&one);
    sigaddset(&one, number);
    sigprocmask(SIG_UNBLOCK, &one, NULL);
}

const char *signals_name(int number)
{
    static char text[32];
    const char *name = sigabbrev_np(number);
    if (name) {
        (void)snprintf(text, sizeof text, "SIG%s", name);
    } else {
        (void)snprintf(text, sizeof text, "signal %d", number);
    }
    return text;
}

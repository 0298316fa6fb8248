/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Signals are blocked and read like input: no handlers, so nothing runs in the middle of
 * something else, and none is lost between "look" and "sleep".
 *
 * What we were started to ignore (nohup's SIGHUP, the SIGINT of a script's background job) stays
 * ignored, by us and by the job: the kernel queues blocked signals even if they are ignored, so
 * they are left out of what is read. Faults are not blocked: a crash must be one. SIGCHLD is the
 * exception to it all: ignored, it would take the job's status away.
 */
#include "signals.h"

#include "command.h"
#include "say.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <unistd.h>

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
    s->fd = signalfd(-1, &heard, SFD_CLOEXEC | SFD_NONBLOCK);
    if (s->fd < 0) {
        return fail(STATUS_INTERNAL, "cannot listen for signals: %s", strerror(errno));
    }
    return 0;
}

int signals_next(const struct signals *s)
{
    struct signalfd_siginfo info;
    return read(s->fd, &info, sizeof info) == (ssize_t)sizeof info ? (int)info.ssi_signo : 0;
}

bool signals_ends(int number)
{
    return number == SIGHUP || number == SIGINT || number == SIGQUIT || number == SIGTERM;
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

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A process in the foreground with the command, which tells what was typed there.
 *
 * While the command has the terminal, Ctrl-C and Ctrl-Z are signals of the kernel to the process
 * group of the command, and nobody else hears of them. Two things depend on it:
 *
 * - A command that died of SIGINT: by Ctrl-C, which is meant for the script around us too, or
 *   because somebody has sent it a signal, which is not?
 * - Ctrl-Z stops everybody in the group who does not handle it. We are told only if the leader
 *   stops. If it is a shell that goes on and waits for its stopped child, the terminal is dead.
 *
 * So there is one process in that group that blocks all signals, does nothing, and knows by the
 * sender whether a signal was typed. All members of a group get a signal at once, so what killed
 * the command is already waiting to be read here when the supervisor learns of its death; by
 * SIGUSR1, which is read after SIGINT and SIGQUIT, it asks for the answer.
 *
 * It is forked from a program with threads: plain system calls only.
 */
#include "witness.h"

#include "clock.h"
#include "descendants.h"

#include <poll.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define ANSWER_NS (1000 * CLOCK_MS)
#define PAUSE_NS 100000

/* The lock is not for it to keep, nor is anybody's pipe. */
static void close_all_but(int fd)
{
    (void)syscall(SYS_close_range, 0U, (unsigned)fd - 1, 0U);
    (void)syscall(SYS_close_range, (unsigned)fd + 1, ~0U, 0U);
}

static void rest(void)
{
    struct timespec pause = {.tv_nsec = PAUSE_NS};
    nanosleep(&pause, NULL);
}

/* The two come together in a moment: the command is being started. */
static void join(struct witness_page *page, pid_t supervisor)
{
    while (atomic_load(&page->group) == 0 && getppid() == supervisor) {
        rest();
    }
    setpgid(0, atomic_load(&page->group));
    atomic_store(&page->ready, true);
}

void witness_await(const struct witness_page *page)
{
    int64_t until_ns = clock_now_ns() + ANSWER_NS;
    while (!atomic_load(&page->ready) && clock_now_ns() < until_ns) {
        rest();
    }
}

static _Noreturn void bear_witness(struct witness_page *page, const struct signals *signals,
                                   pid_t supervisor)
{
    int typed = 0;
    prctl(PR_SET_NAME, WITNESS_NAME);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    close_all_but(signals->fd);
    join(page, supervisor);
    while (getppid() == supervisor) {
        struct pollfd one = {.fd = signals->fd, .events = POLLIN};
        bool by_key = false;
        (void)poll(&one, 1, -1);
        for (int number; (number = signals_next(signals, &by_key)) != 0;) {
            if (number == SIGUSR1) {
                _exit(typed);
            }
            if (by_key && number == SIGTSTP) {
                kill(supervisor, SIGTSTP);
            } else if (by_key && (number == SIGINT || number == SIGQUIT)) {
                typed = number;
            }
        }
    }
    _exit(0);
}

pid_t witness_start(struct witness_page *page, const struct signals *signals)
{
    pid_t supervisor = getpid(), pid = fork();
    if (pid == 0) {
        bear_witness(page, signals, supervisor);
    }
    return pid > 0 ? pid : 0;
}

int witness_end(pid_t witness)
{
    int64_t until_ns = clock_now_ns() + ANSWER_NS;
    int status = 0;
    pid_t ended = 0;
    kill(witness, SIGUSR1);
    while ((ended = waitpid(witness, &status, WNOHANG)) == 0 && clock_now_ns() < until_ns) {
        (void)poll(NULL, 0, 1);
    }
    if (ended == 0) {
        kill(witness, SIGKILL);
        (void)waitpid(witness, NULL, 0);
    }
    return ended > 0 && WIFEXITED(status) ? WEXITSTATUS(status) : 0;
}

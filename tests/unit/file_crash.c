/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A process that is killed between any two system calls: whoever is left goes on at once.
 *
 * The victim waits for a lock, gets it and gives it back, one system call at a time under ptrace,
 * and is killed after the first, the second and so on, until it comes through. Another one waits
 * behind it.
 */
#include "check_page.h"
#include "file_test.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/wait.h>

enum { CALLS_MOST = 300, STOPS_A_CALL = 2 };

static void be_traced(struct helper *h)
{
    (void)h;
    if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0) {
        exit(77);
    }
    raise(SIGSTOP);
}

/* One stop further; false: it has ended, or it sleeps in a system call. */
static bool go_on(pid_t pid, bool *ended)
{
    int status = 0;
    int64_t start = check_now_ns();
    CHECK(ptrace(PTRACE_SYSCALL, pid, NULL, NULL) == 0);
    for (;;) {
        pid_t got = waitpid(pid, &status, __WALL | WNOHANG);
        CHECK(got >= 0);
        if (got == pid) {
            *ended = !WIFSTOPPED(status);
            return !*ended;
        }
        struct check_process one;
        if (check_process_read(pid, &one) && one.state == 'S' && elapsed_ms(start) > 20) {
            return false;
        }
        check_sleep_ms(0);
    }
}

static void await_stop(pid_t pid)
{
    int status;
    CHECK(waitpid(pid, &status, __WALL) == pid);
    CHECK_INT(WIFSTOPPED(status) ? WSTOPSIG(status) : -1, ==, SIGSTOP);
}

static void await_next_stop(pid_t pid, bool *ended)
{
    int status;
    CHECK(waitpid(pid, &status, __WALL) == pid);
    *ended = !WIFSTOPPED(status);
}

/* Killed after so many stops; true: it came through before. */
static bool kill_after(int stops, uint64_t *last)
{
    snib *client = client_here();
    snib_lease *lease = take(client, "x");
    struct helper *victim = helper_make("x", waiting(SNIB_EXCLUSIVE, PATIENCE_MS));
    struct helper *next = helper_make("x", waiting(SNIB_EXCLUSIVE, PATIENCE_MS));
    bool ended = false;
    bool started = false;
    victim->before = be_traced;
    check_flag_set(&victim->let_go);
    CHECK(snib_token(lease) > *last);
    *last = snib_token(lease);
    helper_start(victim);
    await_stop(victim->pid);
    for (int i = 0; i < stops && !ended; i++) {
        if (!go_on(victim->pid, &ended) && !ended) { /* it waits */
            if (!started) {
                started = true;
                helper_start(next);
                await_waiters(client, "x", 2);
                give(&lease);
            }
            await_next_stop(victim->pid, &ended);
        }
    }
    if (!ended) {
        kill(victim->pid, SIGKILL);
        CHECK(waitpid(victim->pid, NULL, __WALL) == victim->pid);
    }
    if (!started) {
        helper_start(next);
        await_waiters(client, "x", 1);
        give(&lease);
    }
    must_come_at_once(next);
    CHECK(next->token > *last);
    *last = next->token;
    CHECK_INT(inspect(client, "x").holders, ==, 1);
    let_go(next);
    CHECK_INT(try_it(client, "x"), ==, 0);
    CHECK_INT(inspect(client, "x").waiters, ==, 0);
    snib_close(client);
    return ended;
}

TEST_LIMIT(killed_between_any_two_system_calls_nobody_is_in_the_way, 120)
{
    uint64_t last = 0;
    int calls = 0;
    while (calls < CALLS_MOST && !kill_after(STOPS_A_CALL * calls, &last)) {
        calls++;
    }
    CHECK_INT(calls, >, 15);
    CHECK_INT(calls, <, CALLS_MOST);
}

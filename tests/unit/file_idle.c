/* SPDX-License-Identifier: Apache-2.0 */
/* A waiter that has nothing to do does nothing: what it costs is counted from outside. */
#include "file_test.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#ifdef __SANITIZE_THREAD__
#define ALL_THREADS "" /* the sanitizer has one of its own, which is not idle */
#else
#define ALL_THREADS "-f"
#endif

/* Poll and timer included. */
TEST_LIMIT(an_idle_waiter_makes_few_system_calls, 40)
{
    char command[400];
    char trace[300];
    snprintf(trace, sizeof trace, "%s/trace", check_tmpdir());
    if (system("strace -V > /dev/null 2>&1") != 0) {
        SKIP("strace is not installed");
    }
    snib *client = client_here();
    snib_lease *lease = take(client, "x");
    struct helper *w = waiter(client, "x", SNIB_EXCLUSIVE);
    check_sleep_ms(200);
    snprintf(command, sizeof command, "timeout -s INT 5 strace %s -q -o %s -p %d > /dev/null 2>&1",
             ALL_THREADS, trace, w->pid);
    int status = system(command);
    (void)status;
    FILE *file = fopen(trace, "r");
    if (!file) {
        SKIP("strace may not attach here");
    }
    int lines = 0;
    for (int c; (c = fgetc(file)) != EOF;) {
        lines += c == '\n';
    }
    fclose(file);
    CHECK_INT(lines, >=, 5); /* it did look */
    CHECK_INT(lines, <, 20);
    give(&lease);
    check_flag_wait(&w->held, PATIENCE_MS);
    let_go(w);
    snib_close(client);
}

static int64_t processor_ms(pid_t pid)
{
    clockid_t clock;
    struct timespec t;
    CHECK_INT(clock_getcpuclockid(pid, &clock), ==, 0);
    CHECK_INT(clock_gettime(clock, &t), ==, 0);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* The reader is called and cannot come; nobody passes it for a second. Those behind it are called
 * as well, and must not call each other all that time. */
TEST_LIMIT(waiters_behind_one_that_cannot_come_do_not_ring_each_other, 60)
{
    snib *client = client_here();
    snib_lease *lease = take(client, "x");
    struct helper *reader = waiter(client, "x", SNIB_SHARED);
    struct helper *one = waiter(client, "x", SNIB_EXCLUSIVE);
    struct helper *two = waiter(client, "x", SNIB_EXCLUSIVE);
    check_stop(reader->pid);
    int64_t before_ms = processor_ms(one->pid) + processor_ms(two->pid);
    give(&lease);
    check_flag_wait(&one->held, PATIENCE_MS);
    int64_t spent_ms = processor_ms(one->pid) + processor_ms(two->pid) - before_ms;
    CHECK_INT(spent_ms, <, check_ms(50));
    let_go(one);
    check_flag_wait(&two->held, PATIENCE_MS);
    let_go(two);
    check_cont(reader->pid);
    check_flag_wait(&reader->held, PATIENCE_MS);
    let_go(reader);
    snib_close(client);
}

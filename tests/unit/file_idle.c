/* SPDX-License-Identifier: Apache-2.0 */
/* A waiter that has nothing to do does nothing: its system calls are counted from outside. */
#include "file_test.h"

#include <stdio.h>
#include <stdlib.h>

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

/* SPDX-License-Identifier: Apache-2.0 */
/* The gate: what goes on while somebody is stopped inside it, and clocks that cannot be compared.
 */
#include "file_test.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/wait.h>

TEST(behind_a_closed_gate_a_free_lock_is_still_taken_and_released)
{
    snib *client = client_here();
    CHECK_INT(try_it(client, "x"), ==, 0);
    struct keeper *k = close_gate("x");
    for (int i = 0; i < 3; i++) {
        snib_lease *lease = take(client, "x");
        CHECK_INT(inspect(client, "x").holders, ==, 1);
        give(&lease);
    }
    check_kill(k->pid);
    snib_close(client);
}

TEST(behind_a_closed_gate_calls_end_at_their_deadline)
{
    snib *client = client_here();
    snib *other = client_here();
    snib_lease *lease = take(client, "x");
    struct keeper *k = close_gate("x");
    snib_options options = waiting(SNIB_EXCLUSIVE, 300);
    snib_error error;
    snib_lease *none;
    int64_t start = check_now_ns();
    CHECK_INT(snib_acquire(&none, other, "x", &options, &error), ==, SNIB_EBUSY);
    CHECK_INT(elapsed_ms(start), >=, 300);
    CHECK_INT(elapsed_ms(start), <, check_ms(1000));
    options.mode = SNIB_SHARED;
    CHECK_INT(snib_acquire(&none, other, "x", &options, &error), ==, SNIB_EBUSY);
    start = check_now_ns();
    CHECK_INT(try_it(other, "x"), ==, SNIB_EBUSY);
    CHECK_INT(try_with(other, "x", waiting(SNIB_SHARED, 0), &error), ==, SNIB_EBUSY);
    CHECK_INT(try_with(other, "x", counting(2, 0), &error), ==, SNIB_EBUSY);
    CHECK_INT(elapsed_ms(start), <, check_ms(1000));
    give(&lease);
    CHECK_INT(try_it(other, "x"), ==, 0); /* nobody waits: no gate needed */
    check_kill(k->pid);
    CHECK_INT(inspect(client, "x").waiters, ==, 0);
    snib_close(other);
    snib_close(client);
}

TEST(a_waiting_reader_behind_a_closed_gate_comes_when_it_opens)
{
    snib *client = client_here();
    snib_lease *lease = take(client, "x");
    struct helper *early = waiter(client, "x", SNIB_SHARED);
    struct keeper *k = close_gate("x");
    struct helper *late = helper_make("x", waiting(SNIB_EXCLUSIVE, PATIENCE_MS));
    helper_start(late);
    check_flag_wait(&late->ready, PATIENCE_MS);
    give(&lease);
    check_sleep_ms(200);
    CHECK(!check_flag_is_set(&early->held));
    check_kill(k->pid);
    must_come_at_once(early);
    let_go(early);
    must_come_at_once(late);
    let_go(late);
    snib_close(client);
}

TEST(a_waiter_that_is_called_needs_no_gate)
{
    snib *client = client_here();
    snib_lease *lease = take(client, "x");
    struct helper *w = waiter(client, "x", SNIB_EXCLUSIVE);
    struct keeper *k = close_gate("x");
    give(&lease);
    must_come_at_once(w);
    CHECK_INT(inspect(client, "x").holders, ==, 1);
    CHECK_INT(inspect(client, "x").waiters, ==, 0);
    let_go(w);
    for (int i = 0; i < 3; i++) { /* and nobody is thought to wait who has come */
        CHECK_INT(try_it(client, "x"), ==, 0);
    }
    check_kill(k->pid);
    snib_close(client);
}

TEST(cancelling_behind_a_closed_gate_leaves_nothing)
{
    snib *client = client_here();
    snib_lease *lease = take(client, "x");
    struct helper *w = helper_make("x", waiting(SNIB_EXCLUSIVE, 500));
    helper_start(w);
    await_waiters(client, "x", 1);
    struct keeper *k = close_gate("x");
    check_flag_wait(&w->held, PATIENCE_MS);
    CHECK_INT(w->code, ==, SNIB_EBUSY);
    check_join(w->pid, PATIENCE_MS);
    CHECK_INT(inspect(client, "x").waiters, ==, 0);
    check_kill(k->pid);
    give(&lease);
    CHECK_INT(try_it(client, "x"), ==, 0);
    snib_close(client);
}

/* ---- Around it -------------------------------------------------------------------------- */

/* A little more than the second after which a closed gate is gone around. */
static void must_come_around_the_gate(struct helper *h)
{
    int64_t start = check_now_ns();
    check_flag_wait(&h->held, PATIENCE_MS);
    CHECK_INT(h->code, ==, 0);
    CHECK_INT(elapsed_ms(start), <, check_ms(5000));
}

TEST_LIMIT(safety_56_waiters_pass_a_process_stopped_inside_the_gate, 60)
{
    snib *client = client_here();
    struct helper *h = holder("x", SNIB_EXCLUSIVE);
    struct helper *w[3];
    for (int i = 0; i < 3; i++) {
        w[i] = waiter(client, "x", SNIB_EXCLUSIVE);
    }
    struct keeper *k = close_gate("x");
    let_go(h);
    for (int done = 0; done < 3; done++) { /* in any order */
        int64_t start = check_now_ns();
        int next = -1;
        while (next < 0) {
            for (int i = 0; i < 3; i++) {
                next = w[i] && check_flag_is_set(&w[i]->held) ? i : next;
            }
            CHECK_INT(elapsed_ms(start), <, check_ms(6000));
            check_sleep_ms(5);
        }
        CHECK_INT(inspect(client, "x").holders, ==, 1);
        CHECK_INT(inspect(client, "x").waiters, ==, 2 - done);
        let_go(w[next]);
        w[next] = NULL;
    }
    CHECK_INT(inspect(client, "x").holders, ==, 0);
    check_kill(k->pid);
    CHECK_INT(try_it(client, "x"), ==, 0);
    snib_close(client);
}

TEST_LIMIT(safety_56_readers_and_newcomers_pass_it_too, 60)
{
    snib *client = client_here();
    struct helper *h = holder("x", SNIB_EXCLUSIVE);
    struct helper *reader = waiter(client, "x", SNIB_SHARED);
    struct keeper *k = close_gate("x");
    struct helper *newcomer = helper_make("x", waiting(SNIB_SHARED, PATIENCE_MS));
    helper_start(newcomer);
    check_flag_wait(&newcomer->ready, PATIENCE_MS);
    let_go(h);
    must_come_around_the_gate(reader);
    must_come_around_the_gate(newcomer);
    CHECK_INT(inspect(client, "x").holders, ==, 2);
    CHECK_INT(try_it(client, "x"), ==, SNIB_EBUSY);
    struct helper *writer = helper_make("x", waiting(SNIB_EXCLUSIVE, PATIENCE_MS));
    helper_start(writer);
    check_sleep_ms(1500);
    CHECK(!check_flag_is_set(&writer->held));
    let_go(reader);
    let_go(newcomer);
    must_come_around_the_gate(writer);
    CHECK_INT(inspect(client, "x").holders, ==, 1);
    check_kill(k->pid);
    let_go(writer);
    CHECK_INT(try_it(client, "x"), ==, 0);
    snib_close(client);
}

/* A counted lock is not passed: its tokens are drawn inside. It must not be taken as anything else
 * either. */
TEST_LIMIT(safety_56_a_counted_lock_is_not_taken_around_the_gate, 60)
{
    snib *client = client_here();
    snib_error error;
    snib_lease *none;
    CHECK_INT(try_with(client, "x", counting(2, 0), &error), ==, 0);
    struct keeper *k = close_gate("x");
    snib_options options = waiting(SNIB_EXCLUSIVE, 1500);
    CHECK_INT(snib_acquire(&none, client, "x", &options, &error), ==, SNIB_EBUSY);
    options.mode = SNIB_SHARED;
    CHECK_INT(snib_acquire(&none, client, "x", &options, &error), ==, SNIB_EBUSY);
    options = counting(2, 1500);
    CHECK_INT(snib_acquire(&none, client, "x", &options, &error), ==, SNIB_EBUSY);
    check_kill(k->pid);
    CHECK_INT(try_with(client, "x", counting(2, 0), &error), ==, 0);
    snib_close(client);
}

/* ---- Clocks ----------------------------------------------------------------------------- */

struct elsewhere {
    struct helper *helper;
    char boottime[32]; /* seconds that this clock is ahead */
};

static void run_with_another_clock(void *arg)
{
    struct elsewhere *e = arg;
    CHECK(unshare(CLONE_NEWTIME) == 0);
    FILE *file = fopen("/proc/self/timens_offsets", "w");
    CHECK(file != NULL);
    CHECK(fprintf(file, "boottime %s 0\n", e->boottime) > 0);
    CHECK(fclose(file) == 0);
    pid_t inner = fork(); /* only children live in it */
    CHECK(inner >= 0);
    if (inner == 0) {
        helper_main(e->helper);
        _exit(0);
    }
    CHECK(waitpid(inner, NULL, 0) == inner);
}

static void a_stopped_waiter_is_called_by_a_clock_that_is_ahead(const char *seconds)
{
    if (geteuid() != 0 || access("/proc/self/timens_offsets", W_OK) != 0) {
        SKIP("needs root and time namespaces");
    }
    struct elsewhere *e = check_shared(sizeof *e);
    snib *client = client_here();
    snprintf(e->boottime, sizeof e->boottime, "%s", seconds);
    e->helper = helper_make("x", waiting(SNIB_EXCLUSIVE, PATIENCE_MS));
    pid_t outer = check_spawn(run_with_another_clock, e);
    check_flag_wait(&e->helper->held, PATIENCE_MS);
    CHECK_INT(e->helper->code, ==, 0);
    struct helper *stopped = waiter(client, "x", SNIB_EXCLUSIVE);
    struct helper *next = waiter(client, "x", SNIB_EXCLUSIVE);
    check_stop(stopped->pid);
    int64_t start = check_now_ns();
    check_flag_set(&e->helper->let_go);
    check_flag_wait(&e->helper->released, PATIENCE_MS);
    CHECK_INT(try_it(client, "x"), ==, SNIB_EBUSY); /* who goes by would ring the next */
    check_flag_wait(&next->held, PATIENCE_MS);
    CHECK_INT(elapsed_ms(start), >=, 900);
    CHECK_INT(elapsed_ms(start), <, check_ms(6000));
    check_cont(stopped->pid);
    let_go(next);
    must_come_at_once(stopped);
    let_go(stopped);
    check_join(outer, PATIENCE_MS);
    snib_close(client);
}

TEST_LIMIT(safety_59_a_call_by_a_clock_far_ahead_does_not_block_the_queue, 60)
{
    a_stopped_waiter_is_called_by_a_clock_that_is_ahead("1000000");
}

TEST_LIMIT(safety_59_a_call_by_a_clock_behind_does_not_break_the_order, 60)
{
    a_stopped_waiter_is_called_by_a_clock_that_is_ahead("-60");
}

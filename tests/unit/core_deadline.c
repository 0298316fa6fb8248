/* SPDX-License-Identifier: Apache-2.0 */
/* Deadlines of those who wait in line here, while the engine drives for another. */
#include "scripted_engine.h"

struct wait {
    int64_t begun_ns, took_ms;
    int code;
    atomic_int over;
};

static void note_end(snib_lease *lease, const snib_error *err, void *arg)
{
    struct wait *w = arg;
    w->code = err ? err->code : SNIB_OK;
    w->took_ms = script_ms_since(w->begun_ns);
    (void)snib_release(&lease, NULL);
    atomic_store(&w->over, 1);
}

static void begin(snib *client, struct wait *w, int64_t wait_ms)
{
    snib_options options = SNIB_OPTIONS;
    options.wait_ms = wait_ms;
    w->begun_ns = check_now_ns();
    CHECK_INT(snib_acquire_async(NULL, client, "a", &options, note_end, w, NULL), ==, SNIB_OK);
}

/* The engine sleeps in steps of a few milliseconds, within a drive that may last for ever. */
TEST(a_deadline_in_line_is_kept_whatever_steps_the_engine_sleeps_in)
{
    static struct wait first, second;
    script.attempt = script_queue;
    snib *client = script_client("script:");
    begin(client, &first, -1);
    check_sleep_ms(50); /* now it is driven */
    begin(client, &second, 200);
    script_await(&second.over, 1);
    CHECK_INT(second.code, ==, SNIB_EBUSY);
    CHECK_INT(second.took_ms, <, 200 + check_ms(2000));
    CHECK_INT(atomic_load(&first.over), ==, 0);
    snib_close(client);
    CHECK_INT(atomic_load(&first.over), ==, 1);
}

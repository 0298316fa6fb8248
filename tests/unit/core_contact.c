/* SPDX-License-Identifier: Apache-2.0 */
/* First contact: each request has its own time for it, from its own beginning. */
#include "scripted_engine.h"

enum { CONNECT_MS = 400 };

struct request {
    const char *name;
    unsigned flags;
    int64_t wait_ms, begun_ns;
    atomic_int over;
    int code;
    int64_t took_ms;
};

static void note_end(snib_lease *lease, const snib_error *err, void *arg)
{
    struct request *r = arg;
    r->code = err ? err->code : SNIB_OK;
    r->took_ms = script_ms_since(r->begun_ns);
    (void)snib_release(&lease, NULL);
    atomic_store(&r->over, 1);
}

static void begin(snib *client, struct request *r)
{
    snib_options options = SNIB_OPTIONS;
    options.flags = r->flags;
    options.wait_ms = r->wait_ms;
    r->begun_ns = check_now_ns();
    CHECK_INT(snib_acquire_async(NULL, client, r->name, &options, note_end, r, NULL), ==, SNIB_OK);
}

/* Not before its time, and not long after. */
static void must_give_up_in_its_time(struct request *r)
{
    script_await(&r->over, 1);
    CHECK_INT(r->code, ==, SNIB_EUNREACH);
    CHECK_INT(r->took_ms, >=, CONNECT_MS - 1);
    CHECK_INT(r->took_ms, <, CONNECT_MS + check_ms(2000));
}

TEST(two_requests_have_each_their_own_time_for_first_contact)
{
    static struct request first = {.name = "a", .wait_ms = -1};
    static struct request second = {.name = "b", .wait_ms = -1};
    script.attempt = script_mute;
    snib *client = script_client("script:?connect=400ms&timeout=60s");
    begin(client, &first);
    check_sleep_ms(CONNECT_MS / 2);
    begin(client, &second);
    must_give_up_in_its_time(&first);
    must_give_up_in_its_time(&second);
    snib_close(client);
}

static struct snib__claim *second_claim;

static void keep_the_second(struct snib__claim *claim)
{
    second_claim = atomic_load(&script.attempts) == 2 ? claim : second_claim;
}

TEST(the_time_of_a_request_that_is_gone_ends_no_other)
{
    static struct request late = {.name = "b", .wait_ms = -1};
    script.attempt = keep_the_second;
    snib *client = script_client("script:?connect=400ms&timeout=60s");
    int64_t start = check_now_ns();
    CHECK_INT(script_try(client, 50), <, 0);
    while (script_ms_since(start) < CONNECT_MS - 20) {
        check_sleep_ms(1);
    }
    begin(client, &late);
    check_sleep_ms(CONNECT_MS / 2); /* over the end of the first one's time */
    CHECK_INT(atomic_load(&late.over), ==, 0);
    snib__enter(client);
    script_grant(second_claim);
    snib__settle(client);
    snib__leave(client);
    script_await(&late.over, 1);
    CHECK_INT(late.code, ==, SNIB_OK);
    snib_close(client);
}

TEST(one_that_retries_takes_no_time_from_others_and_gives_none)
{
    static struct request patient = {.name = "a", .flags = SNIB_RETRY, .wait_ms = 3 * CONNECT_MS};
    static struct request early = {.name = "b", .wait_ms = -1};
    static struct request behind = {.name = "b", .wait_ms = -1};
    static struct request late = {.name = "c", .wait_ms = -1};
    script.attempt = script_mute;
    snib *client = script_client("script:?connect=400ms&timeout=60s");
    begin(client, &patient);
    check_sleep_ms(CONNECT_MS * 7 / 8);
    begin(client, &early);
    check_sleep_ms(CONNECT_MS / 4);
    begin(client, &behind); /* in line here, and never asked for */
    must_give_up_in_its_time(&early);
    must_give_up_in_its_time(&behind);
    begin(client, &late); /* when nobody was waited for any more but the patient one */
    must_give_up_in_its_time(&late);
    script_await(&patient.over, 1);
    CHECK_INT(patient.took_ms, >=, 3 * CONNECT_MS - 1);
    snib_close(client);
}

TEST(one_in_line_behind_one_that_retries_has_its_time_too)
{
    static struct request patient = {.name = "a", .flags = SNIB_RETRY, .wait_ms = 10 * CONNECT_MS};
    static struct request behind = {.name = "a", .wait_ms = -1};
    script.attempt = script_mute;
    snib *client = script_client("script:?connect=400ms&timeout=60s");
    begin(client, &patient);
    check_sleep_ms(CONNECT_MS + CONNECT_MS / 4);
    begin(client, &behind);
    must_give_up_in_its_time(&behind);
    CHECK_INT(atomic_load(&patient.over), ==, 0);
    snib_close(client);
}

TEST(a_wait_that_ends_before_first_contact_names_the_server)
{
    snib_options options = SNIB_OPTIONS;
    snib_lease *lease;
    snib_error error;
    script.attempt = script_mute;
    snib *client = script_client("script:?connect=10s&timeout=100ms");
    options.wait_ms = 50;
    CHECK_INT(snib_acquire(&lease, client, "a", &options, &error), ==, SNIB_EUNKNOWN);
    if (!strstr(error.message, "lock 'a': no answer yet from script:")) {
        FAIL("'%s'", error.message);
    }
    snib_close(client);
}

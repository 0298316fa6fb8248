/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What many ask for at about the same time leaves together, if the engine can send later than it is
 * asked; and nothing that was kept back is forgotten.
 */
#include "core/client.h"

#include "check.h"

#include <poll.h>
#include <stdio.h>

enum { IN_FLIGHT = 16, ROUNDS = 100 };

/* Grants when it is told to, and never what is called "never". */
static struct {
    atomic_bool answers, unsent;
    atomic_int asked, kept, flushed;
    struct snib__claim *owed[IN_FLIGHT + 1];
    size_t owed_count;
} service;

static int service_open(struct snib__session *s, snib_error *err)
{
    (void)s, (void)err;
    return SNIB_OK;
}

static void service_close(struct snib__session *s)
{
    (void)s;
}

static void service_attempt(struct snib__claim *claim)
{
    struct snib__session *s = claim->session;
    atomic_fetch_add(&service.asked, 1);
    atomic_store(&service.unsent, s->more);
    s->quiet = s->more;
    atomic_fetch_add(&service.kept, s->more);
    if (strcmp(claim->name, "never") != 0) {
        CHECK(service.owed_count <= IN_FLIGHT);
        service.owed[service.owed_count++] = claim;
    }
}

static void service_renew(struct snib__claim *const claims[], size_t n)
{
    (void)claims, (void)n;
}

/* All releases here are of the kind that nobody waits for: the process may end when the call is
 * over, so that they leave at once. */
static void service_release(struct snib__claim *claim)
{
    static const struct snib__result freed = {.status = SNIB__FREED};
    CHECK(!claim->session->more);
    snib__answer(claim, SNIB__RELEASE, &freed);
}

static void service_flush(struct snib__session *s)
{
    (void)s;
    atomic_fetch_add(&service.flushed, 1);
    atomic_store(&service.unsent, false);
}

static void service_drive(struct snib__session *s, int64_t until_ns)
{
    do {
        atomic_store(&service.unsent, false);
        if (atomic_exchange(&service.answers, false)) {
            while (service.owed_count > 0) {
                struct snib__result held = {.status = SNIB__HELD, .token = 1, .since = snib__now()};
                snib__answer(service.owed[--service.owed_count], SNIB__ATTEMPT, &held);
            }
        }
    } while (snib__now().boot_ns < until_ns && !snib__sleep(s, NULL, 0, until_ns));
}

static void service_query(struct snib__query *query)
{
    snib__finish(query, SNIB_ENOTSUP, 0, NULL);
}

static const struct snib__param no_params[] = {{.name = NULL}};

static const struct snib__engine engine = {
    .abi = SNIB__ENGINE_ABI,
    .scheme = "fake",
    .aliases = "",
    .summary = "sends later than it is asked",
    .promise = "none",
    .params = no_params,
    .open = service_open,
    .close = service_close,
    .attempt = service_attempt,
    .renew = service_renew,
    .release = service_release,
    .drive = service_drive,
    .inspect = service_query,
    .evict = service_query,
    .examine = service_query,
    .flush = service_flush,
};

/* ---- Those who ask ---------------------------------------------------------------------- */

static snib *client;
static int told;           /* in this round */
static bool second_blocks; /* until nothing is unsent */

static void on_held(snib_lease *lease, const snib_error *err, void *name);

static void ask(const char *name)
{
    snib_options options = SNIB_OPTIONS;
    snib_error error;
    options.flags = SNIB_ASYNC_RELEASE;
    CHECK_OK(snib_acquire_async(NULL, client, name, &options, on_held, (void *)name, &error),
             error.message);
}

static bool all_sent(void *arg)
{
    (void)arg;
    return !atomic_load(&service.unsent);
}

static void on_held(snib_lease *lease, const snib_error *err, void *name)
{
    if (!lease) {
        CHECK_INT(err->code, ==, SNIB_ECANCELED);
        return;
    }
    if (++told == 2 && second_blocks) {
        CHECK(check_until(all_sent, NULL, 5000));
    }
    CHECK_INT(snib_release(&lease, NULL), ==, SNIB_OK);
    ask(name);
}

static void play(void)
{
    static char names[IN_FLIGHT][24];
    struct pollfd due = {.events = POLLIN};
    snib_error error;
    CHECK_OK(snib__open_engine(&client, &engine, "fake://here", false, &error), error.message);
    CHECK_OK(snib_events(client, &due.fd, &error), error.message);
    ask("never"); /* so that the keeper drives all the time */
    for (int i = 0; i < IN_FLIGHT; i++) {
        snprintf(names[i], sizeof names[i], "name %d", i);
        ask(names[i]);
    }
    for (int round = 0; round < ROUNDS; round++) {
        atomic_store(&service.answers, true);
        snib__rouse(&client->session);
        for (told = 0; told < IN_FLIGHT;) {
            CHECK_INT(poll(&due, 1, (int)check_ms(10000)), ==, 1);
            snib_dispatch(client, 0);
        }
        CHECK(all_sent(NULL)); /* nothing is due any more: what was kept has left */
    }
    snib_close(client);
    CHECK_INT(atomic_load(&service.asked), ==, 1 + IN_FLIGHT * (1 + ROUNDS));
}

TEST(what_callbacks_ask_for_leaves_together)
{
    play();
    CHECK_INT(atomic_load(&service.kept), >, 0);
    CHECK_INT(atomic_load(&service.kept), <=, (IN_FLIGHT - 1) * ROUNDS);
}

TEST(what_was_kept_leaves_although_the_next_callback_blocks)
{
    second_blocks = true;
    play();
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wait=: what must not be taken for a proof, although it looks like one; and servers that have, or
 * say, something unexpected.
 */
#include "redis_witness.h"

/* ---- What was given back ---------------------------------------------------------------- */

enum { HAND_OVER_MS = 2500 }; /* the lease of what is told by message */

/* The connection for commands of whoever comes by `door` goes through `slow`, all others do not. */
struct detour {
    struct proxy door, slow;
};

static void detour_start(struct detour *d, int port)
{
    proxy_start(&d->slow, port);
    proxy_start(&d->door, d->slow.port);
}

struct said {
    struct proxy *proxy;
    uint64_t bytes; /* that its clients have sent */
};

static bool has_said(void *arg)
{
    const struct said *said = arg;
    return proxy_counts(said->proxy).from_client >= said->bytes;
}

static void patient_at(char url[512], int port)
{
    snprintf(url, 512,
             "redis://127.0.0.1:%d?ttl=%dms&max-lease=%dms&timeout=20s&wait=majority"
             "&wait-timeout=100ms",
             port, lease_ms, lease_ms);
}

static bool is_granted(void *lease)
{
    return atomic_load((_Atomic(snib_lease *) *)lease) != NULL;
}

/* It asks whether it is its turn, is told so by message, gives that back because too few replicas
 * have it, and asks again: then the first question is answered "yours". */
TEST_LIMIT(an_answer_from_before_a_grant_was_given_back_does_not_count, 90)
{
    struct detour detour;
    char url[512];
    snib_options options = SNIB_OPTIONS;
    _Atomic(snib_lease *) granted = NULL;
    lease_ms = HAND_OVER_MS; /* less is left of longer ones than is believed without asking */
    start();
    int port = group.nodes[0].port;
    detour_start(&detour, port);
    struct helper *second = rival_at(port);
    patient_at(url, detour.door.port);
    snib *client = client_at(port, "wait=majority"), *first = client_of(url);
    snib_lease *lease = take(client, "report", NULL);
    redisContext *raw = raw_open(port);
    CHECK_INT(try_it(first, "report", NULL), ==, SNIB_EBUSY); /* on a connection for commands */
    proxy_target(&detour.door, port);
    options.flags = SNIB_RETRY;
    options.label = "whoever asks says more than whoever gives back";
    CHECK_INT(snib_acquire_async(NULL, first, "report", &options, note_grant, &granted, NULL), ==,
              SNIB_OK);
    await_line(raw, "report", 1);
    check_flag_set(&second->go);
    await_line(raw, "report", 2);
    proxy_set(&detour.slow, PROXY_TO_SERVER, PROXY_DRIBBLE, 600000); /* read, and kept */
    uint64_t before = proxy_counts(&detour.slow).from_client;
    struct said said = {&detour.slow, before + 1};
    CHECK(check_until(has_said, &said, PATIENCE_MS));
    uint64_t question = proxy_counts(&detour.slow).from_client - before;
    replicas(server_pause);
    (void)snib_release(&lease, NULL);
    said.bytes = before + 2 * question + 1; /* it, giving back, and it once more */
    CHECK(check_until(has_said, &said, PATIENCE_MS));
    replicas(server_resume);
    proxy_heal(&detour.slow);
    helper_must_hold(second);
    for (int64_t until_ns = check_now_ns() + LEASE_MS * 1000000LL; check_now_ns() < until_ns;) {
        CHECK(!is_granted(&granted));
        check_sleep_ms(5);
    }
    helper_end(second);
    CHECK(check_until(is_granted, &granted, PATIENCE_MS));
    lease = atomic_load(&granted);
    give(&lease);
    redisFree(raw);
    snib_close(first);
    snib_close(client);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the tests of wait= share: a master and two replicas that are promoted by hand, clients that
 * wait for replicas, and others that want the same lock.
 */
#ifndef SNIB_TESTS_REDIS_WITNESS_H
#define SNIB_TESTS_REDIS_WITNESS_H

#include "redis_group.h"
#include "redis_world.h"

enum { LEASE_MS = 2000, LONG_LEASE_MS = 8000 };

static struct redis_group group;
static int lease_ms = LEASE_MS; /* and the longest that there is */

MAY_BE_UNUSED static int quarantine_ms(void)
{
    return lease_ms * 11 / 10 + 2000;
}

/* At the port of a node, or of a proxy. */
MAY_BE_UNUSED static void at(char url[512], int port, const char *parameters)
{
    snprintf(url, 512, "redis://127.0.0.1:%d?ttl=%dms&max-lease=%dms&timeout=2s&%s", port, lease_ms,
             lease_ms, parameters);
}

MAY_BE_UNUSED static void start(void)
{
    group_start(&group, &(struct group_wish){.nodes = 3});
    group_open_epoch(group.nodes[0].port, "snib", 3, lease_ms);
}

/* Where a holder must believe for longer than servers take to start and to copy. */
MAY_BE_UNUSED static void start_with_long_leases(void)
{
    lease_ms = LONG_LEASE_MS + check_ms(1000);
    start();
}

MAY_BE_UNUSED static snib *client_at(int port, const char *parameters)
{
    char url[512];
    at(url, port, parameters);
    return client_of(url);
}

/* Somebody who will want "report" there. Before any client is opened: they have threads. */
MAY_BE_UNUSED static struct helper *rival_at(int port)
{
    char url[512];
    at(url, port, "wait=majority");
    struct helper *rival = helpers_new(1, url, "report");
    rival->options.flags = SNIB_RETRY;
    helpers_spawn(rival, 1);
    return rival;
}

/* Until the rival has it; it must not have it while this lease is believed in. */
MAY_BE_UNUSED static void must_follow(struct helper *rival, snib_lease *lease)
{
    int64_t until_ns = check_now_ns() + (4LL * PATIENCE_MS + 2 * quarantine_ms()) * 1000000;
    while (!check_flag_is_set(&rival->held)) {
        CHECK_INT(check_now_ns(), <, until_ns);
        check_sleep_ms(2);
    }
    CHECK_INT(snib_left_ms(lease), <=, 0);
    helper_must_hold(rival);
}

/* Nobody is let in there for so long, and the holder goes on if it should. */
MAY_BE_UNUSED static void nobody_for(struct helper *rival, snib_lease *lease, int ms)
{
    int64_t until_ns = check_now_ns() + ms * 1000000LL;
    while (check_now_ns() < until_ns) {
        CHECK(!check_flag_is_set(&rival->held));
        CHECK(lease == NULL || snib_left_ms(lease) > 0);
        check_sleep_ms(5);
    }
}

MAY_BE_UNUSED static void must_say(const snib_error *error, const char *word)
{
    if (!strstr(error->message, word)) {
        FAIL("\"%s\" does not say \"%s\"", error->message, word);
    }
}

/* What it is refused with. Its own grant, which was undone, may be in the way for a moment. */
MAY_BE_UNUSED static int refusal_of(snib *client, snib_error *error)
{
    int code;
    while ((code = try_it(client, "report", error)) == SNIB_EBUSY) {
        check_sleep_ms(1);
    }
    return code;
}

MAY_BE_UNUSED static void replicas(void (*what)(struct server *))
{
    what(&group.nodes[1]);
    what(&group.nodes[2]);
}

MAY_BE_UNUSED static bool is_free(void *raw)
{
    return raw_state(raw, "report", STATE_HOLDERS) == 0;
}

/* WAITs that were answered. */
struct counted {
    redisContext *raw;
    long long waits;
};

MAY_BE_UNUSED static bool has_waited(void *arg)
{
    const struct counted *c = arg;
    return raw_calls(c->raw, "wait") >= c->waits;
}

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The Redis engine by itself: this program is its core. What the engine answers is written down,
 * and looked at.
 */
#include "check.h"
#include "engines/redis/session.h"
#include "redis_group.h"
#include "server.h"

#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>

extern const struct snib__engine snib__engine_redis;

enum { PATIENCE_MS = 10000 };

/* ---- A core ----------------------------------------------------------------------------- */

/* A claim, and the last that was said about it. */
struct case_claim {
    struct snib__claim claim;
    struct snib__bid bid; /* the engine's part of it */
    int answers;
    enum snib__verb verb;
    struct snib__result result;
    char reason[600];
};

static struct server server;
static struct snib__session session;
static union snib__value values[SNIB__REDIS_PARAMS];
static struct snib__url url;

void snib__answer(struct snib__claim *claim, enum snib__verb verb,
                  const struct snib__result *result)
{
    struct case_claim *c = SNIB__OF(claim, struct case_claim, claim);
    c->answers++;
    c->verb = verb;
    c->result = *result;
    snprintf(c->reason, sizeof c->reason, "%s", result->reason ? result->reason : "");
}

void snib__report_session(struct snib__session *s, enum snib_state state, const char *why)
{
    (void)s;
    (void)state;
    (void)why;
}

void snib__seen(struct snib__query *query, const snib_seen *seen)
{
    (void)query;
    (void)seen;
}

void snib__found(struct snib__query *query, const snib_finding *finding)
{
    (void)query;
    (void)finding;
}

void snib__finish(struct snib__query *query, int code, int sys, const char *reason)
{
    (void)query;
    (void)code;
    (void)sys;
    (void)reason;
}

bool snib__forked(const struct snib__session *s)
{
    (void)s;
    return false;
}

bool snib__sleep(struct snib__session *s, struct pollfd fds[], size_t n, int64_t until_ns)
{
    int64_t left_ns = until_ns - snib__now().boot_ns;
    (void)s;
    CHECK(poll(fds, n, left_ns > 0 ? (int)(left_ns / SNIB__MS) + 1 : 0) >= 0);
    return false;
}

static void begin(const char *state)
{
    const struct snib__engine *engine = &snib__engine_redis;
    snib_error error = {0};
    url = (struct snib__url){
        .scheme = "redis",
        .user = "",
        .password = "",
        .hosts = {{.name = "127.0.0.1", .port = server.port}},
        .host_count = 1,
        .path = "",
    };
    values[SNIB__REDIS_DB].number = -1;
    values[SNIB__REDIS_PREFIX].text = "snib";
    values[SNIB__REDIS_NAME].text = "snib";
    values[SNIB__REDIS_RETENTION].number = 3600000;
    values[SNIB__REDIS_PASSING].number = 1;
    values[SNIB__REDIS_QUARANTINE].number = state != NULL;
    values[SNIB__REDIS_STATE].text = state;
    session = (struct snib__session){
        .engine = engine,
        .url = &url,
        .values = values,
        .who = "host:1",
        .ttl_ms = 30000,
        .max_lease_ms = 60000,
        .timeout_ms = 2000,
        .traits = engine->traits,
        .state = calloc(1, engine->session_size),
    };
    CHECK_OK(engine->open(&session, &error), error.message);
}

static void end(void)
{
    snib__engine_redis.close(&session);
    free(session.state);
}

static void claim_init(struct case_claim *c, unsigned char owner)
{
    *c = (struct case_claim){.answers = 0};
    c->claim = (struct snib__claim){
        .session = &session,
        .name = "report",
        .label = "",
        .permits = 1,
        .ttl_ms = 30000,
        .state = &c->bid,
    };
    CHECK_UINT(snib__engine_redis.claim_size, ==, sizeof c->bid);
    memset(c->claim.owner, owner, sizeof c->claim.owner);
}

static void await_answer(struct case_claim *c)
{
    int64_t start = check_now_ns();
    while (c->answers == 0) {
        CHECK_INT((check_now_ns() - start) / 1000000, <, PATIENCE_MS);
        snib__engine_redis.drive(&session, snib__now().boot_ns + 10 * SNIB__MS);
    }
}

static enum snib__status attempt(struct case_claim *c)
{
    c->answers = 0;
    snib__engine_redis.attempt(&c->claim);
    await_answer(c);
    CHECK(c->verb == SNIB__ATTEMPT && c->answers == 1);
    return c->result.status;
}

static enum snib__status release(struct case_claim *c)
{
    c->answers = 0;
    snib__engine_redis.release(&c->claim);
    await_answer(c);
    CHECK(c->verb == SNIB__RELEASE && c->answers == 1);
    return c->result.status;
}

/* ---- Adopted claims --------------------------------------------------------------------- */

/* Its process is dead; somebody else knows the owner id and gives it back. */
TEST(a_claim_of_a_dead_process_is_released_by_its_owner_id)
{
    struct case_claim dead, adopted, next;
    server_redis(&server, NULL);
    begin(NULL);
    claim_init(&dead, 0xd1);
    CHECK_INT(attempt(&dead), ==, SNIB__HELD);
    end();

    begin(NULL);
    claim_init(&next, 0x02);
    CHECK_INT(attempt(&next), ==, SNIB__BUSY);
    claim_init(&adopted, 0xd1);
    adopted.claim.adopted = true;
    CHECK_INT(release(&adopted), ==, SNIB__FREED);
    CHECK_INT(attempt(&next), ==, SNIB__HELD);
    CHECK_INT(release(&next), ==, SNIB__FREED);

    claim_init(&adopted, 0xd2); /* nobody's */
    adopted.claim.adopted = true;
    CHECK_INT(release(&adopted), ==, SNIB__LOST);
    end();
}

TEST(a_claim_that_was_never_attempted_needs_no_server_to_be_released)
{
    struct case_claim claim;
    server_redis(&server, NULL);
    begin(NULL);
    server_kill(&server);
    claim_init(&claim, 0x01);
    CHECK_INT(release(&claim), ==, SNIB__FREED);
    end();
}

/* ---- What a busy answer says ------------------------------------------------------------ */

TEST(during_a_quarantine_the_answer_says_where_and_why_and_for_how_long)
{
    struct case_claim claim;
    char state[256], where[32];
    snprintf(state, sizeof state, "%s/state", check_tmpdir());
    server_redis(&server, NULL);
    begin(state);
    claim_init(&claim, 0x01);
    CHECK_INT(attempt(&claim), ==, SNIB__HELD);
    CHECK_INT(release(&claim), ==, SNIB__FREED);
    end();
    server_kill(&server);
    server_start(&server);

    begin(state);
    claim_init(&claim, 0x02);
    CHECK_INT(attempt(&claim), ==, SNIB__BUSY);
    snprintf(where, sizeof where, "127.0.0.1:%d", server.port);
    CHECK(strstr(claim.reason, where) != NULL);
    CHECK(strstr(claim.reason, "restarted") != NULL);
    CHECK(strstr(claim.reason, "another 6") != NULL); /* 1.1 times a minute, and two seconds */
    CHECK(strstr(claim.reason, "quarantine=no") != NULL);
    end();
}

/* ---- Undoing ---------------------------------------------------------------------------- */

TEST(what_was_granted_in_a_quarantine_is_counted_until_it_is_undone)
{
    struct case_claim claim;
    char state[256];
    snprintf(state, sizeof state, "%s/state", check_tmpdir());
    server_redis(&server, NULL);
    begin(state);
    claim_init(&claim, 0x01);
    CHECK_INT(attempt(&claim), ==, SNIB__HELD);
    CHECK_INT(release(&claim), ==, SNIB__FREED);
    end();
    server_kill(&server);
    server_start(&server);

    begin(state);
    claim_init(&claim, 0x02);
    CHECK_INT(attempt(&claim), ==, SNIB__BUSY);
    int64_t start = check_now_ns();
    while (session.undoing > 0) {
        CHECK_INT((check_now_ns() - start) / 1000000, <, PATIENCE_MS);
        snib__engine_redis.drive(&session, snib__now().boot_ns + 10 * SNIB__MS);
    }
    redisContext *raw = redisConnect("127.0.0.1", server.port);
    CHECK(raw != NULL && raw->err == 0);
    redisReply *reply = redisCommand(raw, "HGET snib:{report} s");
    CHECK(reply->type == REDIS_REPLY_STRING && reply->len >= 62);
    CHECK_INT(reply->str[1] & 1, ==, 0);
    freeReplyObject(reply);
    redisFree(raw);
    end();
}

/* ---- Replicas --------------------------------------------------------------------------- */

/* Until it is known. */
static enum snib__status renew(struct case_claim *c)
{
    struct snib__claim *one[1] = {&c->claim};
    int64_t start = check_now_ns();
    do {
        CHECK_INT((check_now_ns() - start) / 1000000, <, 3 * PATIENCE_MS);
        c->answers = 0;
        snib__engine_redis.renew(one, 1);
        await_answer(c);
    } while (c->result.status == SNIB__UNKNOWN);
    return c->result.status;
}

/* The new master's copy has it still, and nobody else. At the old master somebody may have had it
 * since it ended. */
TEST_LIMIT(what_has_ended_is_renewed_at_the_same_master_only, 90)
{
    static struct redis_group group;
    struct proxy door;
    struct case_claim claim;
    group_start(&group, &(struct group_wish){.nodes = 3});
    group_open_epoch(group.nodes[0].port, "snib", 3, 60000);
    proxy_start(&door, group.nodes[0].port);
    server.port = door.port;
    values[SNIB__REDIS_WAIT].text = "majority";
    values[SNIB__REDIS_REPLICAS].number = 2;
    begin(NULL);
    claim_init(&claim, 0x01);
    claim.claim.ttl_ms = 1000;
    CHECK_INT(attempt(&claim), ==, SNIB__HELD);
    check_sleep_ms(1000); /* its end */
    CHECK_INT(renew(&claim), ==, SNIB__HELD);

    group_await_copies(&group);
    group_promote(&group, 1);
    group_follow(&group, 0, 1);
    group_follow(&group, 2, 1);
    group_await_replicas(group.nodes[1].port, 2);
    proxy_target(&door, group.nodes[1].port);
    proxy_cut(&door, PROXY_RESET);
    check_sleep_ms(1000);
    CHECK_INT(renew(&claim), ==, SNIB__LOST);
    CHECK(strstr(claim.reason, "it ended before") != NULL);
    (void)release(&claim);
    end();
    values[SNIB__REDIS_WAIT].text = NULL;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An attempt has halves, too: a lease that is not young any more is kept alive beside the
 * transaction. That answer alone grants nothing.
 */
#include "engines/etcd/attempts.h"
#include "etcd_by_hand.h"

enum { OURS = 10, EARLIER = 8, STATUS_NOT_FOUND = 5 };

/* It asks, with a lease that was granted half its time ago. */
static void ask(void)
{
    hold(60000);
    CHECK(grant(60));
    state.phase = ETCD_IDLE;
    state.mine = 0;
    state.token = 0;
    state.was_held = state.noted = state.sent = false;
    state.lease->since = ago(30000);
    etcd_attempt_ask(&etcd, &state);
    CHECK(waiting("LeaseKeepAlive") != NULL && waiting("Txn") != NULL);
}

/* A transaction is answered, with a list of one key or none. */
static void find(struct etcd_call *k, bool succeeded, const char *key, int64_t created)
{
    Pb__TxnResponse txn = PB__TXN_RESPONSE__INIT;
    Pb__Header header = PB__HEADER__INIT;
    Pb__ResponseOp response = PB__RESPONSE_OP__INIT, *responses = &response;
    Pb__RangeResponse range = PB__RANGE_RESPONSE__INIT;
    Pb__KeyValue kv = PB__KEY_VALUE__INIT, *kvs = &kv;
    kv.key = (ProtobufCBinaryData){.len = strlen(key), .data = (uint8_t *)(uintptr_t)key};
    kv.create_revision = created;
    range.kvs = &kvs;
    range.n_kvs = created ? 1 : 0;
    response.response_case = PB__RESPONSE_OP__RESPONSE_RANGE;
    response.range = &range;
    header.raft_term = TERM;
    header.revision = OURS + 2;
    txn.header = &header;
    txn.succeeded = succeeded;
    txn.responses = &responses;
    txn.n_responses = 1;
    finish(k, 0, &txn.base);
}

/* Its answer was lost, and the repeated one finds the key of the first: who is ahead is asked next,
 * and the keep-alive is answered before that. */
static void find_our_own_key(void)
{
    struct etcd_call *k = waiting("Txn");
    k->repeated = true;
    find(k, false, state.key, OURS);
    CHECK(waiting("Txn") != NULL);
    keep(0, 60);
    CHECK_INT(answers[SNIB__ATTEMPT], ==, 0);
}

TEST(a_lease_that_is_kept_alive_is_no_lock_while_it_is_not_known_who_is_ahead)
{
    char base[ETCD_BASE_MAX], other[ETCD_KEY_MAX];
    ask();
    find_our_own_key();
    etcd_key_base(base, etcd.prefix, claim.name);
    etcd_key(other, base, SNIB_EXCLUSIVE, 1, 1234567);
    find(waiting("Txn"), true, other, EARLIER);
    CHECK_INT(answers[SNIB__ATTEMPT], ==, 1);
    CHECK_INT(last.status, ==, SNIB__BUSY);
    let_go();
}

TEST(nobody_is_ahead_and_the_token_is_that_of_the_key)
{
    ask();
    find_our_own_key();
    find(waiting("Txn"), true, "", 0);
    CHECK_INT(answers[SNIB__ATTEMPT], ==, 1);
    CHECK_INT(last.status, ==, SNIB__HELD);
    CHECK_UINT(last.token, ==, OURS);
    let_go();
}

/* The lease that last tokens are kept under is missing, and is made first. */
TEST(a_lease_that_is_kept_alive_is_no_lock_while_there_is_no_key)
{
    static union snib__value values[ETCD_RETENTION + 1];
    session.values = values;
    ask();
    CHECK(reply("Txn", STATUS_NOT_FOUND, NULL));
    CHECK(waiting("LeaseGrant") != NULL);
    keep(0, 60);
    CHECK_INT(answers[SNIB__ATTEMPT], ==, 0);
    let_go();
}

TEST(the_lock_waits_for_the_keep_alive)
{
    ask();
    struct etcd_call *k = waiting("Txn");
    k->repeated = true;
    find(k, false, state.key, OURS);
    find(waiting("Txn"), true, "", 0);
    CHECK_INT(answers[SNIB__ATTEMPT], ==, 0);
    keep(10000, 60);
    CHECK_INT(answers[SNIB__ATTEMPT], ==, 1);
    CHECK_INT(last.status, ==, SNIB__HELD);
    CHECK_INT(snib__elapsed_ns(last.since, snib__now()), <, 25000 * SNIB__MS);
    let_go();
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A renewal has two halves, in any order: a keep-alive, and a look at the key that proves whose it
 * is, and that the keep-alive counts. From when the lease is counted.
 */
#include "etcd_by_hand.h"

#include <stdio.h>

static void begin(void)
{
    struct snib__claim *claims[] = {&claim};
    hold(60000);
    CHECK(grant(60));
    etcd_claims_renew(claims, 1);
    CHECK(waiting("LeaseKeepAlive") != NULL && waiting("Txn") != NULL);
}

/* The look shows a key that was made at that revision, and what stands in it; 0: no key. */
static void prove(uint64_t term, int64_t created, const char *broken)
{
    struct etcd_call *k = waiting("Txn");
    Pb__TxnResponse txn = PB__TXN_RESPONSE__INIT;
    Pb__Header header = PB__HEADER__INIT;
    Pb__ResponseOp response = PB__RESPONSE_OP__INIT, *responses = &response;
    Pb__RangeResponse range = PB__RANGE_RESPONSE__INIT;
    Pb__KeyValue kv = PB__KEY_VALUE__INIT, *kvs = &kv;
    struct etcd_value value = {.who = "host:1"};
    char text[ETCD_VALUE_MAX];
    snprintf(value.broken, sizeof value.broken, "%s", broken);
    etcd_value_write(text, &value);
    header.raft_term = term;
    kv.create_revision = created;
    kv.value = (ProtobufCBinaryData){.len = strlen(text), .data = (uint8_t *)text};
    range.kvs = &kvs;
    range.n_kvs = created ? 1 : 0;
    response.response_case = PB__RESPONSE_OP__RESPONSE_RANGE;
    response.range = &range;
    txn.header = &header;
    txn.succeeded = true;
    txn.responses = &responses;
    txn.n_responses = 1;
    finish(k, 0, &txn.base);
}

static void end(enum snib__status status)
{
    CHECK_INT(answers[SNIB__RENEW], ==, 1);
    CHECK_INT(last.status, ==, status);
    let_go();
}

TEST(a_renewal_counts_from_when_its_keep_alive_was_sent)
{
    begin();
    keep(3000, 60);
    CHECK_INT(answers[SNIB__RENEW], ==, 0); /* an answer alone proves nothing */
    prove(TERM, 10, "");
    CHECK_UINT(last.token, ==, 10);
    CHECK_INT(last.lease_ms, ==, 60000);
    CHECK_INT(last.since.boot_ns, <=, ago(3000).boot_ns);
    end(SNIB__HELD);
}

/* However late the answers are: what is left is for the core to judge. */
TEST(a_renewal_that_is_answered_late_counts_all_the_same)
{
    begin();
    state.renew_ns = ago(30000).boot_ns;
    keep(25000, 60);
    prove(TERM, 10, "");
    CHECK_INT(last.since.boot_ns, <=, ago(25000).boot_ns);
    end(SNIB__HELD);
}

TEST(a_renewal_whose_keep_alive_was_not_answered_is_not_known)
{
    begin();
    state.lease->since = ago(25000);
    prove(TERM, 10, "");
    CHECK(reply("LeaseKeepAlive", 0, NULL));
    end(SNIB__UNKNOWN);
}

TEST(a_renewal_that_is_proven_first_counts_as_well)
{
    begin();
    struct etcd_call *k = waiting("LeaseKeepAlive");
    prove(TERM, 10, "");
    CHECK_INT(answers[SNIB__RENEW], ==, 0);
    CHECK(k == waiting("LeaseKeepAlive"));
    keep(1000, 60);
    end(SNIB__HELD);
}

TEST(a_keep_alive_by_a_leader_of_another_term_renews_nothing)
{
    begin();
    struct snib__instant before = state.lease->since;
    keep(10, 60);
    prove(TERM + 1, 10, "");
    CHECK_INT(state.lease->since.boot_ns, ==, before.boot_ns);
    CHECK_INT(answers[SNIB__RENEW], ==, 0);
    keep_in(TERM + 1, 0, 60); /* once more; and the leader changes again */
    prove(TERM + 2, 10, "");
    CHECK_INT(state.lease->since.boot_ns, ==, before.boot_ns);
    end(SNIB__UNKNOWN);
}

TEST(after_an_election_the_new_leader_is_asked_at_once)
{
    begin();
    keep(10, 60);
    prove(TERM + 1, 10, "");
    CHECK_INT(answers[SNIB__RENEW], ==, 0);
    keep_in(TERM + 1, 0, 60);
    prove(TERM + 1, 10, "");
    CHECK_INT(last.since.boot_ns, <=, ago(0).boot_ns);
    end(SNIB__HELD);
}

TEST(a_key_of_another_at_the_same_place_is_a_loss)
{
    begin();
    keep(10, 60);
    prove(TERM, 11, "");
    end(SNIB__LOST);
}

TEST(a_key_that_is_gone_is_a_loss_though_its_lease_lives)
{
    begin();
    keep(10, 60);
    prove(TERM, 0, "");
    end(SNIB__LOST);
}

TEST(a_key_in_which_a_break_stands_is_a_loss)
{
    begin();
    keep(10, 60);
    prove(TERM, 10, "host:2");
    end(SNIB__LOST);
}

TEST(a_lease_that_is_over_is_a_loss)
{
    begin();
    keep(10, 0);
    prove(TERM, 10, "");
    end(SNIB__LOST);
}

/* The cluster counts from the first of them, if it heard that. */
TEST(a_lease_that_was_asked_for_twice_counts_from_the_first_time)
{
    Pb__LeaseGrantResponse granted = PB__LEASE_GRANT_RESPONSE__INIT;
    granted.ttl = 60;
    hold(60000);
    struct etcd_call *k = waiting("LeaseGrant");
    k->first_sent = ago(4000);
    k->sent = ago(1000);
    k->repeated = true;
    struct snib__instant first = k->first_sent;
    finish(k, 0, &granted.base);
    CHECK_INT(state.lease->since.boot_ns, ==, first.boot_ns);
    let_go();
}

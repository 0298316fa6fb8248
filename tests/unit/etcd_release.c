/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A release while the key is being put under another lease. Which of the two has the key may not be
 * known: it is free when both are revoked, and the release is answered then, whatever comes first.
 * There is no connection: calls wait, and are answered by hand.
 */
#include "check.h"
#include "engines/etcd/claims.h"
#include "engines/etcd/leases.h"

enum { PERMISSION_DENIED = 7 };

static int answers;
static enum snib__status last;

/* NOLINTBEGIN(bugprone-reserved-identifier): the linker's name */
void __wrap_snib__answer(struct snib__claim *claim, enum snib__verb verb,
                         const struct snib__result *result);
/* NOLINTEND(bugprone-reserved-identifier) */

void __wrap_snib__answer(struct snib__claim *claim, enum snib__verb verb,
                         const struct snib__result *result)
{
    (void)claim;
    if (verb == SNIB__RELEASE) {
        answers++;
        last = result->status;
    }
}

static void on_moved(void *owner)
{
    (void)owner;
}

static const struct etcd_cluster_upcalls upcalls = {.moved = on_moved};

static struct etcd etcd;
static struct snib__session session;
static struct snib__claim claim;
static struct etcd_claim state;

/* Answers the oldest call of this method that waits; false: there is none. */
static bool reply(const char *method, int status, const ProtobufCMessage *message)
{
    struct snib__list *all = &etcd.cluster.waiting;
    for (struct snib__list *l = all->after; l != all; l = l->after) {
        struct etcd_call *k = SNIB__OF(l, struct etcd_call, place);
        if (strstr(k->method->path, method) != NULL) {
            k->outcome = ETCD_ANSWERED;
            k->status = status;
            k->first_sent = k->sent = snib__now();
            k->reply = (ProtobufCMessage *)(uintptr_t)message;
            snib__list_remove(&k->place);
            k->end(k);
            k->reply = NULL;
            etcd_call_free(k);
            return true;
        }
    }
    return false;
}

static bool grant(int64_t ttl_s)
{
    Pb__LeaseGrantResponse granted = PB__LEASE_GRANT_RESPONSE__INIT;
    granted.ttl = ttl_s;
    return reply("LeaseGrant", 0, &granted.base);
}

static bool revoke(int status)
{
    Pb__LeaseRevokeResponse revoked = PB__LEASE_REVOKE_RESPONSE__INIT;
    return reply("LeaseRevoke", status, &revoked.base);
}

static bool put(void)
{
    Pb__TxnResponse txn = PB__TXN_RESPONSE__INIT;
    txn.succeeded = true;
    return reply("Txn", 0, &txn.base);
}

/* It is held, another ttl is wanted, and the key is being put under its lease. */
static void begin(void)
{
    struct snib__claim *claims[] = {&claim};
    session.state = &etcd;
    session.who = "host:1";
    etcd.session = &session;
    etcd.releases = 1;
    snib__list_init(&etcd.stock);
    snib__list_init(&etcd.doomed);
    etcd_cluster_init(&etcd.cluster, &upcalls, &etcd);
    etcd.cluster.count = 1;
    etcd.cluster.timeout_ms = 1000;
    etcd.cluster.dial_ns = INT64_MAX;
    claim = (struct snib__claim){.session = &session,
                                 .name = "name",
                                 .label = "",
                                 .mode = SNIB_EXCLUSIVE,
                                 .permits = 1,
                                 .ttl_ms = 60000,
                                 .state = &state};
    state = (struct etcd_claim){.claim = &claim,
                                .phase = ETCD_HELD_NOW,
                                .mine = 10,
                                .sent = true,
                                .was_held = true,
                                .noted = true};
    state.lease = etcd_lease_new(&etcd, &state, claim.ttl_ms);
    CHECK(state.lease != NULL && grant(60));
    claim.ttl_ms = 30000;
    etcd_claims_renew(claims, 1);
    CHECK(grant(30));
    CHECK(state.swapping);
}

static void end(enum snib__status status)
{
    CHECK_INT(answers, ==, 1);
    CHECK_INT(last, ==, status);
    etcd_cluster_close(&etcd.cluster);
    etcd_leases_close(&etcd);
}

TEST(a_release_is_answered_when_both_leases_are_revoked)
{
    begin();
    etcd_claims_release(&claim);
    CHECK(put()); /* it was put, behind the back of the release */
    CHECK(revoke(0));
    CHECK_INT(answers, ==, 0); /* the key may be under the other one */
    CHECK(revoke(0));
    end(SNIB__FREED);
}

TEST(a_release_that_is_revoked_first_is_answered_as_well)
{
    begin();
    etcd_claims_release(&claim);
    CHECK(revoke(0));
    CHECK(put());
    CHECK(revoke(0));
    end(SNIB__FREED);
}

TEST(what_cannot_be_revoked_is_not_said_to_be_free)
{
    begin();
    etcd_claims_release(&claim);
    CHECK(revoke(0));
    CHECK(revoke(PERMISSION_DENIED));
    end(SNIB__UNKNOWN);
    CHECK_INT(session.undoing, ==, 1); /* and is gone on with */
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A release while the key is being put under another lease. Which of the two has the key may not be
 * known: it is free when both are revoked, and the release is answered then, whatever comes first.
 * And which leases may be used again after a release.
 */
#include "etcd_by_hand.h"

enum { PERMISSION_DENIED = 7 };

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
    hold(60000);
    CHECK(grant(60));
    claim.ttl_ms = 30000;
    etcd_claims_renew(claims, 1);
    CHECK(grant(30));
    CHECK(state.swapping);
}

static void end(enum snib__status status)
{
    CHECK_INT(answers[SNIB__RELEASE], ==, 1);
    CHECK_INT(last.status, ==, status);
    let_go();
}

TEST(a_release_is_answered_when_both_leases_are_revoked)
{
    begin();
    etcd_claims_release(&claim);
    CHECK(put()); /* it was put, behind the back of the release */
    CHECK(revoke(0));
    CHECK_INT(answers[SNIB__RELEASE], ==, 0); /* the key may be under the other one */
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

/* ---- The lease after it ----------------------------------------------------------------- */

/* A release by deleting the key, answered; `repeated`: it may be executed once more, later. */
static void give_back(bool repeated)
{
    Pb__DeleteRangeResponse deleted = PB__DELETE_RANGE_RESPONSE__INIT;
    deleted.deleted = 1;
    hold(60000);
    CHECK(grant(60));
    etcd_claims_release(&claim);
    struct etcd_call *k = waiting("DeleteRange");
    CHECK(k != NULL);
    k->repeated = repeated;
    finish(k, 0, &deleted.base);
    CHECK_INT(answers[SNIB__RELEASE], ==, 1);
    CHECK_INT(last.status, ==, SNIB__FREED);
}

TEST(a_lease_of_which_everything_was_answered_once_is_used_again)
{
    give_back(false);
    CHECK_UINT(etcd.stock_count, ==, 1);
    CHECK(waiting("LeaseRevoke") == NULL);
    let_go();
}

/* What was sent twice may come late, and would delete the key of whoever has the lease then. */
TEST(a_lease_under_which_something_may_still_come_is_revoked_and_not_used_again)
{
    give_back(true);
    CHECK_UINT(etcd.stock_count, ==, 0);
    CHECK_INT(session.undoing, ==, 1);
    CHECK(revoke(0));
    CHECK_INT(session.undoing, ==, 0);
    let_go();
}

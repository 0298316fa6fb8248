/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls that nobody answers: who hears of it, and who waits for what may be left.
 */
#include "engines/etcd/attempts.h"
#include "etcd_by_hand.h"

static void go_unanswered(const char *method, enum etcd_outcome outcome)
{
    struct etcd_call *k = waiting(method);
    CHECK(k != NULL);
    k->outcome = outcome;
    snib__list_remove(&k->place);
    k->end(k);
    etcd_call_free(k);
}

TEST(who_stands_in_line_hears_that_nobody_answers)
{
    static const enum etcd_outcome outcomes[] = {ETCD_UNSENT, ETCD_LOST};
    hold(60000);
    CHECK(grant(60));
    state.phase = ETCD_QUEUED;
    for (int i = 0; i < 2; i++) {
        etcd_attempt_list(&etcd, &state);
        go_unanswered("Txn", outcomes[i]);
        CHECK_INT(answers[SNIB__ATTEMPT], ==, i + 1);
        CHECK_INT(last.status, ==, SNIB__QUEUED);
        CHECK_INT(last.code, ==, SNIB_EUNREACH);
        CHECK_INT(state.phase, ==, ETCD_QUEUED); /* and has its place */
    }
    let_go();
}

/* Nothing is put under a lease before it is granted. */
TEST(nobody_waits_for_the_end_of_a_lease_at_a_cluster_that_never_answered)
{
    hold(60000);
    go_unanswered("LeaseGrant", ETCD_LOST);
    CHECK_INT(session.undoing, ==, 0);
    CHECK(waiting("LeaseRevoke") != NULL); /* all the same */
    let_go();
}

TEST(a_lease_that_may_be_there_is_revoked_before_a_client_closes)
{
    hold(60000);
    etcd.proof = snib__now();
    go_unanswered("LeaseGrant", ETCD_LOST);
    CHECK_INT(session.undoing, ==, 1);
    CHECK(revoke(0));
    CHECK_INT(session.undoing, ==, 0);
    let_go();
}

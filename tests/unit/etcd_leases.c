/* SPDX-License-Identifier: Apache-2.0 */
/*
 * When a keep-alive counts.
 */
#include "check.h"
#include "engines/etcd/leases.h"

static struct snib__instant at_ms(int64_t ms)
{
    return (struct snib__instant){.boot_ns = ms * SNIB__MS, .raw_ns = ms * SNIB__MS};
}

static struct etcd_lease kept(int64_t ms, uint64_t term)
{
    return (struct etcd_lease){.granted_ms = 8000,
                               .since = at_ms(1),
                               .kept = at_ms(ms),
                               .kept_ms = 8000,
                               .kept_term = term};
}

static void prove(struct etcd *e, int64_t sent_ms, uint64_t term)
{
    struct etcd_call call = {.sent = at_ms(sent_ms)};
    Pb__Header header = PB__HEADER__INIT;
    header.raft_term = term;
    etcd_lease_proof(e, &call, &header);
}

TEST(a_keep_alive_counts_when_a_later_request_met_the_same_term)
{
    struct etcd e = {0};
    struct etcd_lease lease = kept(1000, 5);
    CHECK(!etcd_lease_settle(&e, &lease)); /* an answer alone proves nothing */
    prove(&e, 1000, 5);
    CHECK(etcd_lease_settle(&e, &lease));
    CHECK_INT(lease.since.boot_ns, ==, 1000 * SNIB__MS);
    CHECK(!etcd_lease_settle(&e, &lease)); /* once */
}

TEST(the_ttl_of_the_keep_alive_counts_and_not_the_one_of_the_grant)
{
    struct etcd e = {0};
    struct etcd_lease lease = kept(1000, 5);
    lease.kept_ms = 3000;
    prove(&e, 1000, 5);
    CHECK(etcd_lease_settle(&e, &lease));
    CHECK_INT(lease.granted_ms, ==, 3000);
}

TEST(a_keep_alive_of_a_leader_that_was_replaced_does_not_count)
{
    struct etcd e = {0};
    struct etcd_lease lease = kept(1000, 5);
    prove(&e, 1001, 6);
    CHECK(!etcd_lease_settle(&e, &lease));
    CHECK_INT(lease.since.boot_ns, ==, 1 * SNIB__MS);
}

TEST(what_was_proven_before_the_keep_alive_was_sent_does_not_count)
{
    struct etcd e = {0};
    struct etcd_lease lease = kept(1000, 5);
    prove(&e, 999, 5);
    CHECK(!etcd_lease_settle(&e, &lease));
    CHECK_INT(lease.since.boot_ns, ==, 1 * SNIB__MS);
}

TEST(an_older_answer_that_comes_late_does_not_replace_a_newer_one)
{
    struct etcd e = {0};
    struct etcd_lease lease = kept(1000, 5);
    prove(&e, 2000, 6);
    prove(&e, 1500, 5);
    CHECK(!etcd_lease_settle(&e, &lease));
}

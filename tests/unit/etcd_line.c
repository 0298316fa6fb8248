/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who stands in line believes only what it was told: a grant out of turn would go to the core, of
 * which there is none here.
 */
#include "check.h"
#include "engines/etcd/attempts.h"
#include "engines/etcd/cluster.h"
#include "engines/etcd/watch.h"

static void on_unreachable(void *owner)
{
    (void)owner;
}

static const struct etcd_cluster_upcalls upcalls = {.unreachable = on_unreachable};

/* In line behind two, whose deletions are seen from revision 10 on. */
struct line {
    struct etcd etcd;
    struct snib__session session;
    struct snib__claim claim;
    struct etcd_claim mine;
    struct etcd_lease lease;
    struct etcd_name name;
};

static void stand_in_line(struct line *line)
{
    line->claim = (struct snib__claim){.session = &line->session,
                                       .name = "name",
                                       .label = "",
                                       .mode = SNIB_EXCLUSIVE,
                                       .permits = 1};
    line->lease = (struct etcd_lease){.id = 7, .granted_ms = 8000, .claim = &line->mine};
    line->name = (struct etcd_name){.watch_id = 1, .created = 5};
    line->mine = (struct etcd_claim){.claim = &line->claim,
                                     .phase = ETCD_QUEUED,
                                     .lease = &line->lease,
                                     .mine = 10,
                                     .seen = 10,
                                     .ahead = 2,
                                     .name = &line->name};
    line->etcd.session = &line->session;
    etcd_cluster_init(&line->etcd.cluster, &upcalls, &line->etcd);
    line->etcd.cluster.count = 1;
    line->etcd.cluster.timeout_ms = 1000;
}

static void see(struct line *line, int64_t at, int64_t created)
{
    struct etcd_gone gone = {.at = at, .created = created, .class = ETCD_EXCLUSIVE};
    line->name.gone[line->name.gone_count++] = gone;
    etcd_attempt_ahead(&line->etcd, &line->mine, &gone);
}

static void leave(struct line *line)
{
    CHECK_INT(line->mine.phase, ==, ETCD_QUEUED);
    etcd_cluster_close(&line->etcd.cluster);
}

TEST(one_less_is_ahead_for_each_that_goes)
{
    static struct line line;
    stand_in_line(&line);
    see(&line, 11, 8);
    CHECK_INT(line.mine.ahead, ==, 1);
    CHECK(!line.mine.listing);
    leave(&line);
}

TEST(those_who_stood_behind_do_not_count)
{
    static struct line line;
    stand_in_line(&line);
    see(&line, 12, 11);
    see(&line, 14, 13);
    CHECK_INT(line.mine.ahead, ==, 2);
    leave(&line);
}

/* The revision before the deletion was compacted away: nobody says who it was. */
TEST(one_that_may_have_stood_behind_does_not_count)
{
    static struct line line;
    stand_in_line(&line);
    see(&line, 11, 8);
    see(&line, 12, 0);
    CHECK_INT(line.mine.ahead, ==, 1);
    CHECK(line.mine.listing); /* it asks instead */
    leave(&line);
}

TEST(what_was_deleted_before_the_listing_does_not_count)
{
    static struct line line;
    stand_in_line(&line);
    line.mine.seen = 20;
    see(&line, 11, 8);
    CHECK_INT(line.mine.ahead, ==, 2);
    leave(&line);
}

/* A lease is used again, and gives its next key the name of the one before. */
TEST(a_late_word_of_an_earlier_key_of_the_same_lease_is_no_loss)
{
    static struct line line;
    static char key[] = "name/694d8f31ab402c07";
    Pb__WatchResponse response = PB__WATCH_RESPONSE__INIT;
    Pb__Event event = PB__EVENT__INIT, *events = &event;
    Pb__KeyValue kv = PB__KEY_VALUE__INIT, before = PB__KEY_VALUE__INIT;
    stand_in_line(&line);
    strcpy(line.mine.key, key);
    line.mine.name = NULL;
    CHECK(etcd_watch_join(&line.etcd, &line.mine));
    etcd_watch_want(&line.etcd, &line.mine);
    kv.key = (ProtobufCBinaryData){.len = strlen(key), .data = (uint8_t *)key};
    kv.mod_revision = 9;
    before.create_revision = 6;
    event.type = PB__EVENT__TYPE__DELETE;
    event.kv = &kv;
    event.prev_kv = &before;
    response.watch_id = line.mine.name->watch_id;
    response.n_events = 1;
    response.events = &events;
    line.etcd.watch->message(line.etcd.watch, &response.base);
    CHECK_UINT(line.mine.name->gone_count, ==, 1); /* heard, */
    CHECK_INT(line.mine.mine, ==, 10);             /* and not taken for ours */
    leave(&line);
    etcd_watch_close(&line.etcd);
}

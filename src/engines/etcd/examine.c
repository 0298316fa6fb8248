/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For `snib doctor`: everything that decides what is promised here.
 *
 * First the member that we talk to: does it answer, how fast, which version, does it know a leader?
 * Then, at the same time: who are the members, is there an alarm, may we do what a lock does, and
 * is there a lease to be had, of one second, that nobody uses: the ttl it gets is the smallest.
 */
#include "engines/etcd/examine.h"

#include "engines/etcd/errors.h"
#include "engines/etcd/requests.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STATUS_DENIED = 7 };

static void found(struct etcd_examination *x, int verdict, const char *about, const char *text,
                  const char *remedy)
{
    snib_finding finding = {
        .size = sizeof finding, .verdict = verdict, .about = about, .text = text, .remedy = remedy};
    snib__found(x->query, &finding);
}

static void done(struct etcd_examination *x)
{
    if (--x->under_way == 0) {
        snib__finish(x->query, SNIB_OK, 0, NULL);
    }
}

static bool good(const struct etcd_call *k)
{
    return k->outcome == ETCD_ANSWERED && k->status == 0 && k->reply;
}

static void ask(struct etcd *e, struct etcd_examination *x, struct etcd_call *k,
                void (*end)(struct etcd_call *))
{
    x->under_way++;
    if (!k) {
        found(x, SNIB_BAD, "memory", "out of memory", NULL);
        done(x);
        return;
    }
    k->subject = x;
    k->end = end;
    etcd_cluster_submit(&e->cluster, k);
}

/* ---- What each answer says -------------------------------------------------------------- */

static void on_revoked(struct etcd_call *k)
{
    struct etcd *e = k->owner;
    char text[ETCD_TEXT_MAX];
    if (!good(k)) {
        found(k->subject, SNIB_WARNING, "rights", etcd_error_fact(e, k, text),
              "allow this user to revoke leases");
    }
    done(k->subject);
}

static void on_lease(struct etcd_call *k)
{
    struct etcd *e = k->owner;
    struct etcd_examination *x = k->subject;
    const Pb__LeaseGrantResponse *reply = (const Pb__LeaseGrantResponse *)k->reply;
    char text[ETCD_TEXT_MAX];
    if (!good(k)) {
        found(x, SNIB_BAD, "lease", etcd_error_fact(e, k, text),
              "without a lease there is no lock: mend that first");
    } else {
        int64_t asked_s = (e->session->ttl_ms + 999) / 1000;
        snprintf(text, sizeof text,
                 "a ttl of %" PRId64 " s at least; this URL asks for %" PRId64 " s", reply->ttl,
                 asked_s);
        found(x, asked_s < reply->ttl ? SNIB_WARNING : SNIB_GOOD, "ttl", text,
              asked_s < reply->ttl ? "ask for more, or lower the cluster's --election-timeout"
                                   : NULL);
        ask(e, x, etcd_request_revoke(e, k->number), on_revoked);
    }
    done(x);
}

static void on_rights(struct etcd_call *k)
{
    struct etcd *e = k->owner;
    struct etcd_examination *x = k->subject;
    char text[ETCD_TEXT_MAX], remedy[ETCD_TEXT_MAX];
    if (good(k)) {
        snprintf(
            text, sizeof text, "%s%.60s may read and write %s%s%s",
            e->cluster.user ? "user " : "who has no user", e->cluster.user ? e->cluster.user : "",
            e->prefix[0] ? "what begins with '" : "everything", e->prefix, e->prefix[0] ? "'" : "");
        found(x, SNIB_GOOD, "rights", text, NULL);
    } else {
        etcd_error_fact(e, k, text);
        etcd_error_remedy(e, k, remedy);
        found(x, SNIB_BAD, "rights", text, remedy[0] ? remedy : NULL);
    }
    done(x);
}

/* A deletion on a condition that nothing fulfils: it is done as far as asking whether we may. */
static void ask_rights(struct etcd *e, struct etcd_examination *x)
{
    char base[ETCD_BASE_MAX];
    etcd_key_base(base, e->prefix, "@doctor");
    ProtobufCBinaryData key = {.len = strlen(base), .data = (uint8_t *)base};
    ask(e, x, etcd_request_remove(e, &key, -1), on_rights);
}

static void on_alarms(struct etcd_call *k)
{
    struct etcd *e = k->owner;
    struct etcd_examination *x = k->subject;
    const Pb__AlarmResponse *reply = (const Pb__AlarmResponse *)k->reply;
    char text[ETCD_TEXT_MAX];
    if (k->outcome == ETCD_ANSWERED && k->status == STATUS_DENIED) {
        found(x, SNIB_WARNING, "alarm", "this user is not told",
              "not seen: only root may ask for alarms");
    } else if (!good(k)) {
        found(x, SNIB_WARNING, "alarm", etcd_error_fact(e, k, text), NULL);
    } else if (reply->n_alarms == 0) {
        found(x, SNIB_GOOD, "alarm", "no alarm", NULL);
    } else {
        bool space = reply->alarms[0]->alarm == 1;
        found(x, SNIB_BAD, "alarm",
              space ? "the database is full: nothing new can be locked"
                    : "a member's data is corrupt",
              space ? "compact, defragment, then etcdctl alarm disarm" : "replace that member");
    }
    done(x);
}

static void on_members(struct etcd_call *k)
{
    struct etcd *e = k->owner;
    struct etcd_examination *x = k->subject;
    const Pb__MemberListResponse *reply = (const Pb__MemberListResponse *)k->reply;
    char text[ETCD_TEXT_MAX];
    if (!good(k)) {
        found(x, SNIB_WARNING, "members", etcd_error_fact(e, k, text), NULL);
    } else {
        snprintf(text, sizeof text, "%zu in the cluster, %zu in the URL", reply->n_members,
                 e->cluster.count);
        bool alone = reply->n_members < 3;
        bool few = reply->n_members > 1 && e->cluster.count < 2;
        found(x, alone || few ? SNIB_WARNING : SNIB_GOOD, "members", text,
              alone ? "with fewer than three members the loss of one stops all locks"
              : few ? "name more of them in the URL: etcd://a,b,c"
                    : NULL);
    }
    done(x);
}

/* Versions with bugs that locks feel. */
static const char *known_bug(const char *version)
{
    unsigned major = 0, minor = 0, patch = 0;
    if (sscanf(version, "%u.%u.%u", &major, &minor, &patch) < 2) {
        return NULL;
    }
    unsigned number = major * 10000 + minor * 100 + patch;
    if (number < 30400) {
        return "older than 3.4, which snib has never been tried with: update";
    }
    if ((number < 30431) || (number >= 30500 && number < 30513)) {
        return "a leader that was replaced unnoticed goes on renewing and revoking leases: snib "
               "checks the raft term, other clients do not; update to 3.4.31, 3.5.13 or later";
    }
    return NULL;
}

static void judge_reach(struct etcd_examination *x, const struct etcd *e, const struct etcd_call *k)
{
    char text[300];
    snprintf(text, sizeof text, "%s: answers in %" PRId64 " us", e->where,
             snib__elapsed_ns(k->sent, snib__now()) / 1000);
    found(x, SNIB_GOOD, "reach", text, NULL);
}

static void judge(struct etcd_examination *x, struct etcd *e, const Pb__StatusResponse *status)
{
    char text[300];
    const struct etcd_connection *link = etcd_cluster_joined(&e->cluster);
    const char *bug = known_bug(status->version ? status->version : "");
    snprintf(text, sizeof text, "etcd %.60s", status->version ? status->version : "of no version");
    found(x, bug ? SNIB_WARNING : SNIB_GOOD, "version", text, bug);
    snprintf(text, sizeof text, "raft term %" PRIu64, status->raft_term);
    found(x, status->leader ? SNIB_GOOD : SNIB_BAD, "leader",
          status->leader ? text : "this member knows no leader",
          status->leader ? NULL : "start the missing members, or mend the network between them");
    if (status->is_learner) {
        found(x, SNIB_BAD, "learner", "this member is a learner and serves no locks",
              "name another member in the URL");
    }
    uint32_t streams = link ? etcd_connection_streams(link) : 0;
    if (streams > 0 && streams < 8) {
        snprintf(text, sizeof text, "%u at a time", streams);
        found(x, SNIB_WARNING, "streams", text, "raise --max-concurrent-streams");
    }
}

/* Who could stand on the way. */
static void judge_way(struct etcd_examination *x, const struct etcd *e)
{
    if (e->tls) {
        bool verified = e->session->values[ETCD_TLS].number == 0;
        found(x, verified ? SNIB_GOOD : SNIB_WARNING, "tls",
              verified ? "its certificate is good, and for this name"
                       : "the certificate is not verified (tls=insecure): anybody in between can "
                         "grant locks and read the password",
              verified ? NULL : "ca=FILE with the authority of its certificate");
    }
}

static void ask_the_rest(struct etcd *e, struct etcd_examination *x)
{
    int64_t id;
    snib__random(&id, sizeof id);
    id = (id & INT64_MAX) | 1;
    ask_rights(e, x);
    ask(e, x, etcd_request_members(e), on_members);
    ask(e, x, etcd_request_alarms(e), on_alarms);
    ask(e, x, etcd_request_grant(e, id, 1), on_lease);
}

static void on_status(struct etcd_call *k)
{
    struct etcd *e = k->owner;
    struct etcd_examination *x = k->subject;
    bool unseen = k->outcome == ETCD_ANSWERED && k->status == STATUS_DENIED; /* 3.6 asks for root */
    char text[ETCD_TEXT_MAX], remedy[ETCD_TEXT_MAX];
    if (good(k) || unseen) {
        judge_reach(x, e, k);
        judge_way(x, e);
        if (unseen) {
            found(x, SNIB_WARNING, "version", "this user is not told",
                  "not seen: only root may ask for the status of a member");
        } else {
            judge(x, e, (const Pb__StatusResponse *)k->reply);
        }
        ask_the_rest(e, x);
    } else {
        bool denied = etcd_error_code(k) == SNIB_EDENIED;
        etcd_error_fact(e, k, text);
        etcd_error_remedy(e, k, remedy);
        found(x, SNIB_BAD, denied ? "rights" : "reach", text,
              denied ? remedy : "start the cluster, or mend the URL");
    }
    done(x);
}

void etcd_examine(struct snib__query *query)
{
    struct etcd *e = etcd_of(query->session);
    struct etcd_examination *x = query->state;
    x->query = query;
    ask(e, x, etcd_request_status(e), on_status);
    etcd_cluster_flush(&e->cluster);
}

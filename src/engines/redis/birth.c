/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is at the other end: looked at whenever a connection begins.
 *
 * The greeting travels in front of the first request, in the same write, so it costs no round
 * trip: replies come in order, and what the first request was granted counts only if the greeting
 * was answered well. A server that restarts breaks its connections, so a look per connection
 * cannot miss a restart.
 *
 *   AUTH or SELECT refused                its error: whatever else was asked has been done as
 *                                         another user or in another database, and counts as not
 *   a replica                             EUNSAFE
 *   evicts keys when memory is short      EUNSAFE, unless eviction=allow
 *   another run than last time, and it    quarantine: until every lease that may have been lost
 *   has been up for less than a lease     has run out, everybody is told "busy"
 *   INFO refused                          goes on; what was not seen is in `unchecked`
 *
 * The server's clock: each answer brings it along. As an interval against our own, it gives the
 * not-after times of requests, and shows when it jumped.
 */
#include "engines/redis/redis.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define JUMP_MS 1000

/* ---- Greeting --------------------------------------------------------------------------- */

/* On the command link as requests; on one that listens they are only said. */
static void ask(struct snib__redis *r, struct snib__redis_link *link, enum snib__redis_kind kind,
                int argc, const char **argv)
{
    size_t sizes[4];
    if (!link->listens) {
        snib__redis_command(r, kind, NULL, argc, argv);
        return;
    }
    for (int i = 0; i < argc; i++) {
        sizes[i] = strlen(argv[i]);
    }
    snib__link_say(link, argc, argv, sizes);
}

void snib__birth_greet(struct snib__redis *r, struct snib__redis_link *link)
{
    static const char *const sections[] = {"server", "memory", "persistence", "replication"};
    const char *user = r->session->url->user;
    if (r->password[0]) {
        const char *named[] = {"AUTH", user, r->password};
        const char *plain[] = {"AUTH", r->password};
        bool has_user = user && user[0];
        ask(r, link, SNIB__ASK_AUTH, has_user ? 3 : 2, has_user ? named : plain);
    }
    const char *name[] = {"CLIENT", "SETNAME", r->session->values[SNIB__REDIS_NAME].text};
    ask(r, link, SNIB__ASK_SETNAME, 3, name);
    if (link->listens) {
        return;
    }
    if (strcmp(r->db, "0") != 0) {
        const char *select[] = {"SELECT", r->db};
        ask(r, link, SNIB__ASK_SELECT, 2, select);
    }
    r->birth.denied = r->birth.unfit = r->birth.trusts = false;
    r->birth.replica = r->birth.evicts = r->birth.narrow = false;
    r->birth.unchecked = 0;
    r->birth.uptime_s = -1;
    r->birth.run_id[0] = '\0';
    for (size_t i = 0; i < sizeof sections / sizeof sections[0]; i++) {
        const char *info[] = {"INFO", sections[i]};
        ask(r, link, SNIB__ASK_INFO, 2, info);
    }
    const char *time[] = {"TIME"};
    ask(r, link, SNIB__ASK_TIME, 1, time);
}

/* ---- What INFO says --------------------------------------------------------------------- */

/* The value of "field:value"; false if it is not there. */
static bool field(const char *info, const char *name, char *out, size_t size)
{
    size_t length = strlen(name);
    for (const char *line = info; line && *line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, name, length) == 0 && line[length] == ':') {
            const char *value = line + length + 1;
            size_t found = strcspn(value, "\r\n");
            snprintf(out, size, "%.*s", (int)(found < 200 ? found : 200), value);
            return true;
        }
    }
    return false;
}

static void read_info(struct snib__redis *r, const char *info)
{
    char value[64];
    struct snib__birth *b = &r->birth;
    if (field(info, "run_id", value, sizeof value)) {
        snprintf(b->run_id, sizeof b->run_id, "%.47s", value);
    }
    if (field(info, "uptime_in_seconds", value, sizeof value)) {
        b->uptime_s = strtoll(value, NULL, 10);
    }
    if (field(info, "arch_bits", value, sizeof value)) {
        b->narrow = strcmp(value, "32") == 0;
    }
    if (field(info, "role", value, sizeof value)) {
        b->replica = strcmp(value, "slave") == 0;
    }
    if (field(info, "maxmemory_policy", b->policy, sizeof b->policy) &&
        field(info, "maxmemory", value, sizeof value)) {
        b->evicts = strcmp(value, "0") != 0 && strcmp(b->policy, "noeviction") != 0;
    }
}

static void unfit(struct snib__redis *r, const char *why)
{
    r->birth.unfit = true;
    snprintf(r->birth.why, sizeof r->birth.why, "%s", why);
    snprintf(r->link.why, sizeof r->link.why, "%.100s", why);
    r->link.retires = true; /* the next one looks again */
}

static void trust(struct snib__redis *r)
{
    if (!r->birth.run_id[0]) {
        return; /* not looked at yet: the next greeting decides */
    }
    r->birth.quarantine_ns = 0;
    r->birth.trusts = true;
    strcpy(r->birth.trusted, r->birth.run_id);
    snib__runid_note(r, r->birth.run_id);
}

/* For how long this run has been up, at least. The server counts by its wall clock, which may have
 * been set since; it cannot be longer than since another run answered us. */
static int64_t up_for_ms(const struct snib__birth *b, int64_t now_ns)
{
    int64_t up_ms = b->uptime_s > 0 ? b->uptime_s * 1000 : 0;
    int64_t most_ms = b->trusted_ns ? (now_ns - b->trusted_ns) / SNIB__MS : up_ms;
    return up_ms < most_ms ? up_ms : most_ms;
}

/* Another run than the one whose data we know: young ones may have lost leases that still run. */
static void judge_run(struct snib__redis *r)
{
    struct snib__birth *b = &r->birth;
    b->quarantine_ns = 0;
    if (!r->session->values[SNIB__REDIS_QUARANTINE].number || !b->run_id[0]) {
        return;
    }
    if (!b->trusted[0]) {
        snib__runid_recall(r, b->trusted);
    }
    if (strcmp(b->trusted, b->run_id) == 0) {
        b->trusts = true;
        return;
    }
    int64_t now_ns = snib__now().boot_ns;
    int64_t up_ms = up_for_ms(b, now_ns);
    if (up_ms >= r->quarantine_ms) {
        trust(r);
    } else if (b->trusted[0]) {
        b->quarantine_ns = now_ns + (r->quarantine_ms - up_ms) * SNIB__MS;
    } else {
        snprintf(b->note, sizeof b->note,
                 "this server was started %lld s ago and not seen before: if it lost locks then, "
                 "they may still be held",
                 (long long)(up_ms / 1000));
        trust(r);
    }
}

static void judge(struct snib__redis *r)
{
    struct snib__birth *b = &r->birth;
    char why[200];
    if (b->denied) {
        return;
    }
    if (b->replica) {
        unfit(r, "this server is a replica: use its master");
    } else if (b->narrow) {
        unfit(r, "this is a 32-bit server: its scripts cannot print a token");
    } else if (b->evicts && r->session->values[SNIB__REDIS_EVICTION].number == 0) {
        snprintf(why, sizeof why,
                 "this server evicts keys when memory is short (%s): "
                 "set maxmemory-policy noeviction, or say eviction=allow",
                 b->policy);
        unfit(r, why);
    } else {
        if (b->unchecked) {
            strcpy(b->note, "INFO is denied: whether this server is a replica, evicts keys or was "
                            "restarted was not checked");
        }
        judge_run(r);
    }
}

void snib__birth_reply(struct snib__redis *r, const struct snib__redis_request *request,
                       const struct snib__reply *reply)
{
    bool refused = reply->type == REDIS_REPLY_ERROR;
    switch (request->kind) {
    case SNIB__ASK_AUTH:
    case SNIB__ASK_SELECT:
        if (refused && !r->birth.denied) {
            /* A server that does not know AUTH repeats what it does not know. */
            bool repeats = r->password[0] && strstr(reply->text, r->password);
            const char *why = repeats ? "ERR unknown command 'AUTH'" : reply->text;
            r->birth.denied = true;
            snprintf(r->birth.why, sizeof r->birth.why, "%s", why);
            snprintf(r->link.why, sizeof r->link.why, "%.100s", why);
            r->link.retires = true;
        }
        break;
    case SNIB__ASK_INFO:
        if (refused) {
            r->birth.unchecked++;
        } else {
            read_info(r, reply->text);
        }
        break;
    case SNIB__ASK_TIME:
        if (reply->type == REDIS_REPLY_ARRAY) {
            snib__clock_learn(r, request->sent,
                              snib__reply_number(reply, 0) * 1000 +
                                  snib__reply_number(reply, 1) / 1000);
        }
        judge(r);
        break;
    default:
        break;
    }
}

int64_t snib__quarantine_left_ms(struct snib__redis *r)
{
    struct snib__birth *b = &r->birth;
    if (b->quarantine_ns == 0) {
        return 0;
    }
    int64_t left_ns = b->quarantine_ns - snib__now().boot_ns;
    if (left_ns > 0) {
        return left_ns / SNIB__MS + 1;
    }
    trust(r);
    return 0;
}

/* ---- The server's clock ----------------------------------------------------------------- */

void snib__clock_learn(struct snib__redis *r, struct snib__instant sent, int64_t server_ms)
{
    struct snib__server_clock *c = &r->clock;
    int64_t low_ms = server_ms - r->link.heard_ns / SNIB__MS - 1;
    int64_t high_ms = server_ms - sent.boot_ns / SNIB__MS + 1;
    if (c->known && low_ms > c->high_ms + JUMP_MS) {
        c->jump_ms = low_ms - c->high_ms;
    } else if (c->known && high_ms < c->low_ms - JUMP_MS) {
        c->jump_ms = high_ms - c->low_ms;
    }
    c->known = true;
    c->low_ms = low_ms;
    c->high_ms = high_ms;
}

int64_t snib__clock_not_after(const struct snib__redis *r, struct snib__instant sent)
{
    if (!r->clock.known) {
        return 0;
    }
    return sent.boot_ns / SNIB__MS + r->clock.high_ms + r->session->timeout_ms;
}

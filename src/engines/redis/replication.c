/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Doctor for replicated servers: who there is, how far behind, and what a failover at this moment
 * could lose.
 */
#include "engines/redis/replication.h"

#include <stdio.h>
#include <string.h>

/* ---- Asking ----------------------------------------------------------------------------- */

enum place { REPLICAS, MIN_REPLICAS, BACKLOG, WAIT, EPOCH };

bool snib__replication_ask(struct snib__command *c, const struct snib__redis *r, size_t place)
{
    if (!r->witness && (!r->finder || place >= WAIT)) {
        return false;
    }
    switch (place) {
    case REPLICAS:
        snib__command_words(c, "INFO", "replication", (char *)NULL);
        return true;
    case MIN_REPLICAS:
        snib__command_words(c, "CONFIG", "GET", "min-replicas-to-write", (char *)NULL);
        return true;
    case BACKLOG:
        snib__command_words(c, "CONFIG", "GET", "repl-backlog-ttl", (char *)NULL);
        return true;
    case WAIT: /* for nobody: may we? */
        snib__command_words(c, "WAIT", "0", "1", (char *)NULL);
        return true;
    case EPOCH:
        snib__command_words(c, "HMGET", r->witness->rule.epoch, "rid", "ok", "at", "n", "max",
                            (char *)NULL);
        return true;
    default:
        return false;
    }
}

static void note_epoch(struct snib__topology *t, const struct snib__reply *reply)
{
    t->epoch.known = true;
    snprintf(t->epoch.rid, sizeof t->epoch.rid, "%.47s", snib__reply_text(reply, 0));
    t->epoch.ok = strcmp(snib__reply_text(reply, 1), "1") == 0;
    t->epoch.at_ms = snib__reply_number(reply, 2);
    t->epoch.servers = snib__reply_number(reply, 3);
    t->epoch.max_lease_ms = snib__reply_number(reply, 4);
}

void snib__replication_reply(struct snib__examination *e, size_t place,
                             const struct snib__reply *reply)
{
    struct snib__topology *t = &e->topology;
    if (reply->type == REDIS_REPLY_ERROR) {
        if (place == WAIT) {
            snprintf(e->wait_denied, sizeof e->wait_denied, "%.150s", reply->text);
        }
    } else if (place == REPLICAS) {
        snib__topology_info(t, reply->text);
    } else if (place == EPOCH) {
        note_epoch(t, reply);
    } else if (place != WAIT) {
        snib__topology_setting(t, snib__reply_text(reply, 0), snib__reply_text(reply, 1));
    }
}

/* ---- Telling ---------------------------------------------------------------------------- */

static void tell_sentinels(const struct snib__redis *r, const struct snib__examination *e)
{
    const struct snib__finder *f = r->finder;
    const struct snib__sentinel *silent = NULL;
    size_t answered = 0;
    for (size_t i = 0; i < f->count; i++) {
        const struct snib__sentinel *s = &f->sentinels[i];
        answered += s->state == SNIB__SENTINEL_ANSWERED;
        silent = s->state == SNIB__SENTINEL_FAILED ? s : silent;
    }
    if (silent) {
        snib__finding_tell(e, SNIB_WARNING, "sentinels",
                           "start it, or take it out of the URL; a failover needs most of them",
                           "%zu of %zu answer; %s:%d: %s", answered, f->count, silent->address.host,
                           silent->address.port, silent->why);
    } else if (f->count < 3) {
        snib__finding_tell(e, SNIB_WARNING, "sentinels", "name three of them, on three hosts",
                           "%zu named: what if that one is away?", f->count);
    } else {
        snib__finding_tell(e, SNIB_GOOD, "sentinels", NULL, "they name %s as %s", r->settings.where,
                           f->settings.master);
    }
    for (size_t i = 0; i < f->count; i++) {
        int64_t down_ms = f->sentinels[i].down_after_ms;
        if (down_ms > 0 && down_ms < 1000) {
            snib__finding_tell(e, SNIB_WARNING, "sentinel", "down-after-milliseconds 1000 or more",
                               "it takes a master for dead after %lld ms: a busy one is replaced, "
                               "and twice in a row",
                               (long long)down_ms);
            return;
        }
    }
}

static void tell_replicas(const struct snib__redis *r, const struct snib__examination *e)
{
    const struct snib__topology *t = &e->topology;
    size_t online = snib__topology_online(t);
    size_t wanted = r->witness ? (size_t)r->witness->rule.servers - 1 : 1;
    char text[400] = "";
    size_t used = 0;
    for (size_t i = 0; i < t->count && used + 120 < sizeof text; i++) {
        const struct snib__replica *one = &t->each[i];
        used += (size_t)snprintf(text + used, sizeof text - used,
                                 "%s%s %s, %lld bytes behind, silent for %lld s", i ? "; " : "",
                                 one->where, one->online ? "follows" : "is being copied to",
                                 (long long)one->behind, (long long)one->lag_s);
    }
    if (online < wanted) {
        snib__finding_tell(e, SNIB_WARNING, "replicas",
                           r->witness ? "start them, or correct replicas= everywhere"
                                      : "start one: without it nothing can take over",
                           "%zu of %zu follow%s%s", online, wanted, text[0] ? ": " : "", text);
    } else if (r->witness && t->count > wanted) {
        snib__finding_tell(e, r->witness->rule.guards ? SNIB_BAD : SNIB_WARNING, "replicas",
                           "correct replicas=, for all clients at the same time",
                           "%zu, and replicas=%zu is what clients count on: %s", t->count, wanted,
                           text);
    } else {
        snib__finding_tell(e, SNIB_GOOD, "replicas", NULL, "%s", text);
    }
}

/* What if it happened now? */
static void tell_failover(const struct snib__redis *r, const struct snib__examination *e)
{
    const struct snib__topology *t = &e->topology;
    const struct snib__witness_rule *rule = r->witness ? &r->witness->rule : NULL;
    int64_t behind = snib__topology_behind(t);
    if (rule && rule->guards) {
        snib__finding_tell(e, SNIB_GOOD, "failover", NULL,
                           "no lock is given twice; nothing new is granted for %.1f s (1.1 x "
                           "max-lease + 2 s) after replicas follow the new master, %d at least",
                           (double)rule->quarantine_ms / 1000, rule->needed);
        return;
    }
    const char *remedy = "wait=majority; or let the resource check the token";
    if (rule && rule->needed >= rule->servers - 1) {
        snib__finding_tell(e, SNIB_GOOD, "failover", NULL,
                           "whichever replica is promoted has all that counts");
    } else if (rule) {
        snib__finding_tell(e, SNIB_WARNING, "failover", remedy,
                           "one to a replica that has not acknowledged gives locks twice; the last "
                           "one is %lld bytes behind at the moment",
                           (long long)behind);
    } else {
        snib__finding_tell(e, SNIB_WARNING, "failover", remedy,
                           "at this moment it could lose %lld bytes, and the locks in them are "
                           "given twice then",
                           (long long)behind);
    }
    if (t->min_known && t->min_replicas == 0 && !rule) {
        snib__finding_tell(e, SNIB_WARNING, "min-replicas",
                           "CONFIG SET min-replicas-to-write 1, which makes it shorter",
                           "min-replicas-to-write is 0: a master that is cut off goes on granting "
                           "to those on its side");
    } else if (t->min_known) {
        snib__finding_tell(e, SNIB_GOOD, "min-replicas", NULL, "min-replicas-to-write is %lld%s",
                           (long long)t->min_replicas, rule ? ", and not relied on" : "");
    }
}

static void tell_epoch(const struct snib__redis *r, const struct snib__examination *e)
{
    const struct snib__topology *t = &e->topology;
    const struct snib__witness_rule *rule = &r->witness->rule;
    int64_t now_ms = snib__server_clock_about_ms(&r->node.clock);
    int64_t left_ms = t->epoch.at_ms + rule->quarantine_ms - now_ms;
    if (!t->epoch.known || !t->rid[0]) {
        snib__finding_tell(e, SNIB_BAD, "epoch", "allow this user INFO and HMGET",
                           "not known: nothing can be granted with wait=majority");
    } else if (t->epoch.rid[0] &&
               (t->epoch.servers != rule->servers || t->epoch.max_lease_ms != rule->max_lease_ms)) {
        snib__finding_tell(e, SNIB_BAD, "epoch", "the same replicas= and max-lease= for all",
                           "others have replicas=%lld and max-lease=%lldms: this URL is refused",
                           (long long)t->epoch.servers - 1, (long long)t->epoch.max_lease_ms);
    } else if (strcmp(t->epoch.rid, t->rid) != 0) {
        snib__finding_tell(e, SNIB_WARNING, "epoch", "wait: the first attempt begins it",
                           "this master is new here: nothing is granted for %.1f s after the first "
                           "attempt",
                           (double)rule->quarantine_ms / 1000);
    } else if (!t->epoch.ok) {
        snib__finding_tell(e, SNIB_WARNING, "epoch", "let its replicas follow this master",
                           "too few replicas have followed this master so far: nothing is granted");
    } else if (left_ms > 0) {
        snib__finding_tell(e, SNIB_WARNING, "epoch", "wait; a smaller max-lease= makes it shorter",
                           "in quarantine after a promotion, for another %.1f s",
                           (double)left_ms / 1000);
    } else {
        snib__finding_tell(e, SNIB_GOOD, "epoch", NULL, "confirmed, no quarantine");
    }
    if (t->ttl_known && t->backlog_ttl_s > 0 && t->backlog_ttl_s * 1000 < rule->quarantine_ms) {
        snib__finding_tell(e, SNIB_WARNING, "backlog", "CONFIG SET repl-backlog-ttl 3600",
                           "repl-backlog-ttl is %lld s: a master without replicas for so long is "
                           "quarantined when they are back",
                           (long long)t->backlog_ttl_s);
    }
}

void snib__replication_tell(const struct snib__redis *r, const struct snib__examination *e)
{
    if (r->finder) {
        tell_sentinels(r, e);
    }
    if (e->topology.known) {
        tell_replicas(r, e);
        tell_failover(r, e);
    }
    if (e->wait_denied[0]) {
        snib__finding_tell(e, SNIB_BAD, "wait", "the line that `snib doctor --acl URL` prints",
                           "%s", e->wait_denied);
    }
    if (r->witness && r->witness->rule.guards) {
        tell_epoch(r, e);
    }
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What an examination found, in words: one finding per thing, each with a remedy if there is
 * something to be done.
 */
#include "engines/redis/examine.h"
#include "engines/redis/replication.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct report {
    struct snib__redis *r;
    const struct snib__examination *e;
};

#define tell(p, ...) snib__finding_tell((p)->e, __VA_ARGS__)

/* ---- The way to it ---------------------------------------------------------------------- */

static const char *remedy_of_denial(const struct report *p)
{
    if (strstr(p->e->why, "DB index") || strstr(p->e->why, "SELECT")) {
        return strstr(p->e->why, "NOPERM") ? "the line that `snib doctor --acl URL` prints"
                                           : "correct db= in the URL";
    }
    return p->r->settings.credentials.password[0]
               ? "correct USER:PASSWORD@ in the URL, or the file of passfile="
               : ":PASSWORD@ before the host, in snib.conf (chmod 600), or passfile=FILE in the "
                 "URL";
}

/* What is known of TLS says more than the way in which the connection was lost. */
static const char *remedy_of_loss(const struct report *p, const char *else_this)
{
    static const char *const known[][2] = {
        {"expired", "a new certificate for the server"},
        {"client certificate", "cert=FILE, with its key or key=FILE"},
        {"cert=", "cert=FILE, with its key or key=FILE"},
        {"certificate", "ca=FILE with its authority, or the name it is for"},
        {"rediss:", "rediss: instead of redis:, or the port without TLS"},
        {"TLS", "redis: instead of rediss:, or the port with TLS"},
    };
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        if (strstr(p->e->why, known[i][0])) {
            return known[i][1];
        }
    }
    return else_this;
}

/* Lost: what comes after the address was not found out. */
static void tell_loss(const struct report *p)
{
    const struct snib__examination *e = p->e;
    const char *where = p->r->settings.where;
    switch (e->lost ? e->how : SNIB__LOSS_CUT) {
    case SNIB__LOSS_DENIED:
        tell(p, SNIB_GOOD, "address", NULL, "%s answers", where);
        tell(p, SNIB_BAD, "password", remedy_of_denial(p), "%s", e->why);
        break;
    case SNIB__LOSS_ALIEN:
        tell(p, SNIB_BAD, "address", remedy_of_loss(p, "correct host and port in the URL"),
             "%s: %s", where, e->why);
        break;
    case SNIB__LOSS_UNREACHED:
        tell(p, SNIB_BAD, "address",
             remedy_of_loss(p, "start the server, or correct host and port in the URL"), "%s: %s",
             where, e->why);
        break;
    default:
        tell(p, SNIB_BAD, "address",
             remedy_of_loss(p, "look at the server's log, and at what is between here and it"),
             "%s is there, but: %s", where, e->why);
        break;
    }
}

static void tell_way(const struct report *p)
{
    const struct snib__examination *e = p->e;
    const struct snib__session *s = p->r->session;
    double ms = (double)e->round_trip_ns / (double)SNIB__MS;
    tell(p, SNIB_GOOD, "address", NULL, "%s answers", p->r->settings.where);
    if (ms > (double)s->ttl_ms / 30) {
        tell(p, SNIB_WARNING, "round trip", "a longer ttl=, or a server that is nearer",
             "%.2f ms: with a ttl of %.1f s little time is left to renew", ms,
             (double)s->ttl_ms / 1000);
    } else {
        tell(p, SNIB_GOOD, "round trip", NULL, "%.2f ms", ms);
    }
}

static void tell_tls(const struct report *p)
{
    const struct snib__node_settings *s = &p->r->settings;
    if (s->unverified) {
        tell(p, SNIB_WARNING, "tls", "ca=FILE with the authority of its certificate",
             "the certificate is not verified (tls=insecure): anybody in between can grant locks "
             "and read the password");
    } else if (s->address.tls) {
        tell(p, SNIB_GOOD, "tls", NULL, "its certificate is good, and for this name");
    } else if (s->address.host && s->credentials.password[0] &&
               strncmp(s->address.host, "127.", 4) != 0 &&
               strcmp(s->address.host, "localhost") != 0 && strcmp(s->address.host, "::1") != 0) {
        tell(p, SNIB_WARNING, "tls", "rediss:, if the server has a port for it",
             "none: whoever sees the network reads the password");
    }
}

static void tell_password(const struct report *p)
{
    const struct snib__credentials *c = &p->r->settings.credentials;
    if (c->password[0]) {
        tell(p, SNIB_GOOD, "password", NULL, "user %s is let in", c->user[0] ? c->user : "default");
    } else {
        tell(p, SNIB_GOOD, "password", NULL, "none given, none wanted");
    }
}

/* ---- What it is ------------------------------------------------------------------------- */

static void tell_version(const struct report *p)
{
    const struct snib__fitness *f = &p->e->fitness;
    int version = snib__fitness_version(f);
    if (!f->version[0]) {
        tell(p, SNIB_WARNING, "version", "allow this user INFO", "not known: INFO is denied");
    } else if (strcmp(f->product, "keydb") == 0) {
        tell(p, SNIB_WARNING, "version", "Redis or Valkey, 6.2 or later",
             "KeyDB %s: snib is not tested with it", f->version);
    } else if (version < 602) {
        tell(p, SNIB_WARNING, "version", "6.2 or later", "%s %s: snib is tested with 6.2 and later",
             f->product, f->version);
    } else {
        tell(p, SNIB_GOOD, "version", NULL, "%s %s", f->product, f->version);
    }
    if (f->narrow) {
        tell(p, SNIB_BAD, "width", "a 64-bit server",
             "32 bits: its scripts cannot print a token, and it is refused");
    } else if (f->version[0]) {
        tell(p, SNIB_GOOD, "width", NULL, "64 bits");
    }
}

static void tell_role(const struct report *p)
{
    const struct snib__fitness *f = &p->e->fitness;
    if (p->e->unchecked) {
        tell(p, SNIB_WARNING, "role", "allow this user INFO",
             "not known: INFO is denied, so replicas and evicting servers are not refused");
        return;
    }
    if (f->replica) {
        tell(p, SNIB_BAD, "role", "the address of its master", "a replica: it is refused");
    } else if (f->cluster && !p->r->router) {
        tell(p, SNIB_BAD, "role",
             "redis+cluster: instead of redis:, or a server outside the cluster",
             "a node of a cluster: names that live on other nodes are refused");
    } else {
        tell(p, SNIB_GOOD, "role", NULL, "master");
    }
    if (p->r->witness || p->r->finder) {
        return; /* see replication.c */
    }
    if (f->replicas > 0) {
        tell(p, SNIB_WARNING, "replicas",
             "wait=majority; or let the resource check the token, so that an old holder is refused",
             "%lld: after a failover, locks that were not copied yet can be given twice",
             (long long)f->replicas);
    } else {
        tell(p, SNIB_GOOD, "replicas", NULL, "none, so nothing fails over to an old copy");
    }
}

static void tell_eviction(const struct report *p)
{
    const struct snib__fitness *f = &p->e->fitness;
    if (p->e->unchecked) {
        return; /* the role says why */
    }
    if (!snib__fitness_evicts(f)) {
        tell(p, SNIB_GOOD, "eviction", NULL, "keys are not evicted (%s)",
             f->limited ? f->policy : "no maxmemory");
    } else if (p->r->settings.may_evict) {
        tell(p, SNIB_WARNING, "eviction", "CONFIG SET maxmemory-policy noeviction",
             "when memory is short, locks can be forgotten (%s): eviction=allow permits it",
             f->policy);
    } else {
        tell(p, SNIB_BAD, "eviction", "CONFIG SET maxmemory-policy noeviction, or eviction=allow",
             "when memory is short, locks would be forgotten (%s): it is refused", f->policy);
    }
}

/* ---- What a restart means --------------------------------------------------------------- */

static void describe_persistence(const struct snib__fitness *f, char *out, size_t size)
{
    if (snib__fitness_durable(f)) {
        snprintf(out, size, "AOF with fsync always, a restart loses nothing");
    } else if (f->aof) {
        snprintf(out, size, "AOF with fsync %s, a restart can lose the last moments",
                 f->fsync[0] ? f->fsync : "unknown");
    } else if (f->save[0]) {
        snprintf(out, size, "snapshots (save %s), a restart loses what is younger", f->save);
    } else if (f->saves_known) {
        snprintf(out, size, "none, a restart loses all locks");
    } else {
        snprintf(out, size, "no AOF, a restart loses what no snapshot has");
    }
}

static void tell_persistence(const struct report *p)
{
    const struct snib__quarantine_rule *rule = &p->r->settings.quarantine;
    const struct snib__fitness *f = &p->e->fitness;
    char text[240];
    if (p->e->unchecked) {
        tell(p, SNIB_WARNING, "persistence", "allow this user INFO",
             "not known: INFO is denied, so a restart is not noticed");
        return;
    }
    describe_persistence(f, text, sizeof text);
    if (snib__fitness_durable(f)) {
        tell(p, SNIB_GOOD, "persistence", NULL, "%s", text);
    } else if (p->r->witness && p->r->witness->rule.guards) {
        tell(p, SNIB_GOOD, "persistence", NULL,
             "not relied on (%s): after a restart nothing is granted for as long as a lease", text);
    } else if (rule->off) {
        tell(p, SNIB_BAD, "persistence",
             "leave quarantine=no out, or CONFIG SET appendonly yes and appendfsync always",
             "%s; with quarantine=no, locks that are still held are then given to others", text);
    } else {
        tell(p, SNIB_GOOD, "persistence", NULL,
             "not relied on (%s): after a restart nothing is granted for %.0f s to those who have "
             "seen this server before, so no lock is given twice",
             text, (double)rule->span_ms / 1000);
    }
}

/* Where tokens are counted in a key, those after a loss are small again: who guards a resource by
 * them would refuse every new holder, or, if the mark was lost too, none. */
static void tell_tokens(const struct report *p)
{
    const struct snib__fitness *f = &p->e->fitness;
    static const char remedy[] =
        "CONFIG SET appendonly yes and appendfsync always; or, after a loss, SET the counter above "
        "the last token that was given";
    if (!p->r->layout->counts || p->e->unchecked) {
        return;
    }
    if (snib__fitness_durable(f)) {
        tell(p, SNIB_GOOD, "tokens", NULL, "counted in a key that a restart keeps");
    } else if (f->aof || f->save[0]) {
        tell(p, SNIB_WARNING, "tokens", remedy,
             "counted in a key (RFencedLock's): a restart can set it back, and give tokens twice");
    } else {
        tell(p, SNIB_WARNING, "tokens", remedy,
             "counted in a key (RFencedLock's) that is not saved: after a restart they begin at 1 "
             "again, and a resource that has seen larger ones refuses them");
    }
}

static void tell_age(const struct report *p)
{
    struct snib__node *node = &p->r->node;
    int64_t left_ms = snib__node_quarantine_left_ms(node);
    int64_t up_s = p->e->fitness.uptime_s;
    if (up_s < 0) {
        return;
    }
    if (left_ms > 0) {
        tell(p, SNIB_WARNING, "age", "wait; or quarantine=no, if this server kept its data",
             "restarted %lld s ago: in quarantine, nothing is granted for another %.0f s",
             (long long)up_s, (double)left_ms / 1000);
    } else if (node->quarantine.young) {
        tell(p, SNIB_WARNING, "age", "if it was restarted, wait until all leases are over",
             "started %lld s ago and not seen before: locks it may have lost may still be held",
             (long long)up_s);
    } else {
        tell(p, SNIB_GOOD, "age", NULL, "up for %lld s, no quarantine", (long long)up_s);
    }
}

static void tell_clock(const struct report *p)
{
    const struct snib__server_clock *clock = &p->r->node.clock;
    if (!clock->known) {
        return;
    }
    int64_t ahead_ms = snib__server_clock_about_ms(clock) - snib__wall_us() / 1000;
    double ahead = (double)ahead_ms / 1000;
    if (ahead < -1 || ahead > 1) {
        tell(p, SNIB_WARNING, "clock", "synchronise both by NTP",
             "the server is %.1f s %s: leases do not mind, but tokens and times shown are its",
             ahead < 0 ? -ahead : ahead, ahead < 0 ? "behind us" : "ahead of us");
    } else {
        tell(p, SNIB_GOOD, "clock", NULL, "within a second of ours (%+.3f s)", ahead);
    }
}

/* ---- What we may do --------------------------------------------------------------------- */

static void tell_rights(const struct report *p)
{
    const struct snib__examination *e = p->e;
    int64_t left_ms = snib__node_quarantine_left_ms(&p->r->node);
    static const char remedy[] = "the line that `snib doctor --acl URL` prints";
    if (e->denied[0]) {
        tell(p, SNIB_BAD, "rights", remedy, "denied, and needed: %s", e->denied);
    } else if (e->missing[0]) {
        tell(p, SNIB_WARNING, "rights", remedy,
             "denied: %s (SCAN: no list; INFO, CONFIG: less is checked)", e->missing);
    } else {
        tell(p, SNIB_GOOD, "rights", NULL, "every command that is used may be used");
    }
    if (e->broken[0]) {
        tell(p, SNIB_BAD, "lock", "see the other findings", "a lock of its own failed: %s",
             e->broken);
    } else if (left_ms > 0) {
        tell(p, SNIB_WARNING, "lock", "wait; or quarantine=no, if this server kept its data",
             "locks are not granted for another %.0f s: the server was restarted, and those it may "
             "have forgotten may still be held",
             (double)left_ms / 1000);
    } else if (e->no_scripts) {
        tell(p, SNIB_WARNING, "lock", e->without_scripts ? NULL : remedy,
             "without scripts: by WATCH and MULTI, in twice the time; not tried");
    } else {
        tell(p, SNIB_GOOD, "lock", NULL, "taken, renewed and given back");
    }
    if (e->inbox_broken[0]) {
        tell(p, SNIB_WARNING, "inbox", "allow this user SUBSCRIBE, and the channels of the prefix",
             "no subscription (%s): waiters try now and then, in no order", e->inbox_broken);
    } else {
        tell(p, SNIB_GOOD, "inbox", NULL, "subscribed: waiters are %s by message",
             p->r->lineless ? "told" : "served in order,");
    }
}

void snib__findings_tell(struct snib__redis *r, const struct snib__examination *e)
{
    const struct report p = {r, e};
    if (e->lost || e->why[0]) {
        tell_loss(&p);
        return;
    }
    tell_way(&p);
    tell_tls(&p);
    tell_password(&p);
    tell_version(&p);
    tell_role(&p);
    snib__replication_tell(r, e);
    tell_eviction(&p);
    tell_persistence(&p);
    tell_tokens(&p);
    tell_age(&p);
    tell_clock(&p);
    tell_rights(&p);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether a server may vote.
 *
 *   it is a replica, evicts keys, could not be asked     no, until a connection finds otherwise
 *   restarted, and may have lost leases that still run   not for max-lease × 1.1 + 2 s
 *   its clock jumped: leases may have ended early        the same, from when it was seen
 *   the same server by another name                      never: everything is refused
 *
 * All of it is about new grants. A lease that a server renews is there, whatever happened to it.
 */
#include "engines/redlock/servers.h"

#include <stdio.h>
#include <string.h>

int64_t snib__server_waits_ms(struct snib__server *s)
{
    int64_t left_ms = snib__node_quarantine_left_ms(&s->node);
    int64_t jumped_ns = s->jumped_until_ns ? s->jumped_until_ns - snib__now().boot_ns : 0;
    if (jumped_ns <= 0) {
        s->jumped_until_ns = 0;
        return left_ms;
    }
    int64_t jumped_ms = jumped_ns / SNIB__MS + 1;
    return jumped_ms > left_ms ? jumped_ms : left_ms;
}

static void explain_wait(struct snib__server *s)
{
    int64_t left_ms = snib__node_quarantine_left_ms(&s->node);
    if (left_ms > 0) {
        snprintf(s->trouble, sizeof s->trouble,
                 "restarted, may have lost locks: no vote for another %.1f s; quarantine=no if it "
                 "keeps its data",
                 (double)left_ms / 1000);
    } else {
        snprintf(s->trouble, sizeof s->trouble,
                 "its clock jumped by %+.1f s: no vote for another %.1f s; clock-guard=no to trust "
                 "clocks",
                 (double)s->jumped_ms / 1000, (double)snib__server_waits_ms(s) / 1000);
    }
}

bool snib__server_votes(struct snib__server *s)
{
    enum snib__node_standing standing = s->node.standing;
    if (s->node.greeting.done &&
        (standing == SNIB__NODE_UNFIT || standing == SNIB__NODE_UNCHECKED)) {
        snprintf(s->trouble, sizeof s->trouble, "%s", s->node.why);
        return false;
    }
    if (snib__server_waits_ms(s) > 0) {
        explain_wait(s);
        return false;
    }
    return true;
}

struct snib__server *snib__server_twin(struct snib__server *s)
{
    struct snib__redlock *r = s->session;
    const char *run = s->node.greeting.fitness.run_id;
    for (unsigned i = 0; i < r->count && s->node.greeting.done && run[0]; i++) {
        struct snib__server *other = &r->servers[i];
        if (other != s && other->node.greeting.done &&
            strcmp(other->node.greeting.fitness.run_id, run) == 0) {
            return other;
        }
    }
    return NULL;
}

void snib__server_twin_text(char *out, size_t size, const struct snib__server *s,
                            const struct snib__server *twin)
{
    snprintf(out, size,
             "%.120s and %.120s are one and the same server, which would vote twice: name each "
             "server once",
             s->settings.where, twin->settings.where);
}

bool snib__server_learn_time(struct snib__server *s, const struct snib__redis_call *call,
                             int64_t server_ms)
{
    struct snib__session *session = s->session->session;
    int64_t heard_ns = s->node.connection.heard_ns;
    snib__node_learn_time(&s->node, call, server_ms);
    int64_t jump_ms =
        snib__clock_guard_learn(&s->clock, call->sent, heard_ns, server_ms, session->ttl_ms / 10);
    if (jump_ms == 0 || !session->values[SNIB__REDLOCK_CLOCK_GUARD].number) {
        return false;
    }
    s->jumped_ms = jump_ms;
    s->jumped_until_ns =
        snib__later(snib__now().boot_ns, s->settings.quarantine.span_ms * SNIB__MS);
    return true;
}

void snib__server_unheard(struct snib__server *s, const char *why)
{
    s->silent_ns = s->silent ? s->silent_ns : snib__now().boot_ns;
    s->silent = true;
    snprintf(s->trouble, sizeof s->trouble, "%s", why);
}

void snib__server_heard(struct snib__server *s)
{
    s->silent = false;
}

bool snib__server_is_gone(const struct snib__server *s, int64_t after_ns)
{
    return s->silent && snib__now().boot_ns - s->silent_ns >= after_ns;
}

bool snib__servers_scarce(const struct snib__redlock *r)
{
    unsigned heard = 0;
    for (unsigned i = 0; i < r->count; i++) {
        heard += !r->servers[i].silent;
    }
    return heard < snib__redlock_quorum(r);
}

void snib__servers_explain(char *out, size_t size, const struct snib__redlock *r,
                           const bool missing[SNIB__SERVERS_MOST])
{
    unsigned count = 0, shown = 0;
    size_t used = 0;
    for (unsigned i = 0; i < r->count; i++) {
        count += missing[i];
    }
    out[0] = '\0';
    /* All the addresses, and of the reasons what there is room for. */
    for (unsigned i = 0; i < r->count && used < size && shown < count; i++) {
        const struct snib__server *s = &r->servers[i];
        if (!missing[i]) {
            continue;
        }
        int room = (int)((size - used) / (count - shown)) - (int)strlen(s->settings.where) - 6;
        bool told = s->trouble[0] && room > 20;
        int n = snprintf(out + used, size - used, "%s%.200s%s%.*s%s", shown++ ? ", " : "",
                         s->settings.where, told ? " (" : "", told ? room : 0, s->trouble,
                         told ? ")" : "");
        used += n > 0 ? (size_t)n : 0;
    }
}

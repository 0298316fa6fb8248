/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Another run than the one whose data we know may have lost leases that still run: until all of
 * them are over, everybody is told "busy".
 *
 *   the run we know                             at once
 *   up for longer than any lease                at once: what it lost is over
 *   both runs keep whatever they answered       at once: nothing was lost (AOF, fsync always)
 *   another run than the one we know            quarantine, for the rest of the longest lease
 *   never seen any                              at once, and the first holder is told
 *
 * A server that restarts breaks its connections, so a look per connection cannot miss a restart.
 * A run is remembered on disk when somebody holds a lock of it, not when somebody only looks:
 * whoever looks must not use up the word that is meant for the first holder.
 */
#include "engines/redis/quarantine.h"

#include "base/clock.h"

#include <stdio.h>
#include <string.h>

void snib__quarantine_begin(struct snib__quarantine *q)
{
    q->present = (struct snib__run){.durable = false};
    q->trusts = false;
}

static void trust(struct snib__quarantine *q)
{
    q->until_ns = 0;
    if (q->present.id[0]) { /* else the next greeting decides */
        q->trusted = q->present;
        q->trusts = true;
        q->noted = false;
    }
}

/* For how long this run has been up, at least. The server counts by its wall clock, which may have
 * been set since; it cannot be longer than since another run answered us. */
static int64_t up_for_ms(const struct snib__quarantine *q, int64_t uptime_s, int64_t now_ns)
{
    int64_t up_ms = uptime_s > 0 ? uptime_s * 1000 : 0;
    int64_t most_ms = q->trusted_ns ? (now_ns - q->trusted_ns) / SNIB__MS : up_ms;
    return up_ms < most_ms ? up_ms : most_ms;
}

void snib__quarantine_meet(struct snib__quarantine *q, const struct snib__quarantine_rule *rule,
                           const struct snib__fitness *f)
{
    int64_t now_ns = snib__now().boot_ns;
    q->until_ns = 0;
    q->young = false;
    if (rule->off || !f->run_id[0]) {
        return;
    }
    memcpy(q->present.id, f->run_id, sizeof q->present.id);
    q->present.durable = snib__fitness_durable(f);
    if (!q->trusted.id[0]) {
        q->trusted = snib__runid_recall(rule->folder, rule->where);
        q->noted = true;
    }
    q->up_ms = up_for_ms(q, f->uptime_s, now_ns);
    q->trusts = strcmp(q->present.id, q->trusted.id) == 0;
    if (q->trusts) {
        q->noted = q->noted && q->trusted.durable == q->present.durable;
        q->trusted.durable = q->present.durable;
    } else if (q->up_ms >= rule->span_ms || (q->trusted.durable && q->present.durable)) {
        trust(q);
    } else if (q->trusted.id[0]) {
        q->until_ns = now_ns + (rule->span_ms - q->up_ms) * SNIB__MS;
    } else {
        q->young = true;
        trust(q);
    }
}

void snib__quarantine_heard(struct snib__quarantine *q, int64_t now_ns)
{
    if (q->trusts) {
        q->trusted_ns = now_ns;
    }
}

int64_t snib__quarantine_left_ms(struct snib__quarantine *q)
{
    if (q->until_ns == 0) {
        return 0;
    }
    int64_t left_ns = q->until_ns - snib__now().boot_ns;
    if (left_ns > 0) {
        return left_ns / SNIB__MS + 1;
    }
    trust(q);
    return 0;
}

void snib__quarantine_note(struct snib__quarantine *q, const struct snib__quarantine_rule *rule)
{
    q->young = false;
    if (!q->noted && q->trusts) {
        q->noted = true;
        snib__runid_note(rule->folder, rule->where, &q->trusted);
    }
}

void snib__quarantine_text(char *out, size_t size, const char *where, int64_t left_ms)
{
    snprintf(out, size,
             "%s: quarantine for another %.1f s: it was restarted and may have lost locks; "
             "quarantine=no if it keeps its data",
             where, (double)left_ms / 1000);
}

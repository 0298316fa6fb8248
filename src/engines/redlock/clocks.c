/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether the clock of a server jumped: its keys then end earlier or later than their holders
 * believe.
 *
 * Each answer brings the server's time along, and bounds the difference of its clock and ours from
 * both sides. Two such intervals that do not meet are a jump, or clocks of different rates: these
 * are allowed a thousandth of the time between, and never more than the leases forgive. Without
 * that bound a client that was idle for hours would take any jump for drift.
 *
 * What this cannot see: a jump before the first answer; one that is smaller than the allowance; one
 * that was undone before anybody looked.
 */
#include "engines/redlock/clocks.h"

#define ALWAYS_MS 20 /* timers, rounding */
#define RATE 1000

int64_t snib__clock_guard_learn(struct snib__clock_guard *g, struct snib__instant sent,
                                int64_t heard_ns, int64_t server_ms, int64_t most_ms)
{
    int64_t low_ms = server_ms - heard_ns / SNIB__MS - 1;
    int64_t high_ms = server_ms - sent.boot_ns / SNIB__MS + 1;
    int64_t allowed_ms = ALWAYS_MS + (heard_ns - g->heard_ns) / SNIB__MS / RATE;
    int64_t jump_ms = 0;
    if (g->known && heard_ns < g->heard_ns) {
        return 0; /* an answer that was asked for earlier, on another connection */
    }
    allowed_ms = allowed_ms < most_ms ? allowed_ms : most_ms;
    if (g->known && low_ms > g->high_ms + allowed_ms) {
        jump_ms = low_ms - g->high_ms;
    } else if (g->known && high_ms < g->low_ms - allowed_ms) {
        jump_ms = high_ms - g->low_ms;
    }
    if (g->known && jump_ms == 0) { /* a slow answer tells less than the one before */
        low_ms = low_ms > g->low_ms - allowed_ms ? low_ms : g->low_ms - allowed_ms;
        high_ms = high_ms < g->high_ms + allowed_ms ? high_ms : g->high_ms + allowed_ms;
    }
    g->known = true;
    g->low_ms = low_ms;
    g->high_ms = high_ms;
    g->heard_ns = heard_ns;
    return jump_ms;
}

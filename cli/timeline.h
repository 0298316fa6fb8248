/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_CLI_TIMELINE_H
#define SNIB_CLI_TIMELINE_H

#include <stdint.h>

/* When a job is stopped; instants of CLOCK_BOOTTIME, NEVER where there is no deadline. */
struct timeline {
    int64_t grace_ns, margin_ns;
    int64_t deadline_ns;
    int64_t term_ns;  /* deadline - grace */
    int64_t kill_ns;  /* deadline - margin */
    int64_t guard_ns; /* a little later: for the guardian, if nobody else has done it */
};

/* `span_ms`: the ttl, or the maximum hold if that is shorter; INT64_MAX: neither. `grace_ms` -1:
 * not given. Answers 0 or, having said why, an exit status. */
int timeline_plan(struct timeline *timeline, int64_t span_ms, int64_t grace_ms);

/* The lock is ours until then. */
void timeline_move(struct timeline *timeline, int64_t deadline_ns);

/* A loss that is known leaves this long between TERM and KILL. */
int64_t timeline_short_grace_ns(const struct timeline *timeline);

#endif

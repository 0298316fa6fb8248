/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The instants at which a job is told to stop, and made to.
 *
 *     last renewal                    deadline - grace     deadline - margin  deadline      ttl
 *       |------------- ... ---------------|---------------------|---------------|-------------|
 *                                        TERM                  KILL        LOST here    others may
 * enter
 *
 * The deadline is the library's: the ttl less 10 % for clocks that differ. Grace is what the
 * command has to end by itself; it must leave time for a renewal to fail and be repeated, so it
 * is less than a third of the ttl. Margin is what the kernel has to make a KILL come true; a
 * quarter of it the guardian leaves to the supervisor to act first.
 *
 * When the loss is known (the engine says that the lock is gone), another may be in already and
 * every moment of politeness is one of two holders: TERM at once, KILL a second later at most.
 */
#include "timeline.h"

#include "clock.h"
#include "command.h"
#include "say.h"

#define GRACE_MS 5000
#define MARGIN_MS 500
#define SHORT_GRACE_MS 1000

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

int timeline_plan(struct timeline *t, int64_t span_ms, int64_t grace_ms)
{
    if (grace_ms >= 0 && grace_ms >= span_ms / 3) {
        char grace[SPAN_SIZE], span[SPAN_SIZE];
        return fail(STATUS_USAGE, "--grace %s is not below a third of the %s that are left to it",
                    span_text(grace, grace_ms), span_text(span, span_ms));
    }
    if (grace_ms < 0) {
        grace_ms = least(GRACE_MS, span_ms / 6);
    }
    *t = (struct timeline){
        .grace_ns = grace_ms * CLOCK_MS,
        .margin_ns = least(MARGIN_MS, span_ms / 20) * CLOCK_MS,
        .deadline_ns = CLOCK_NEVER,
        .term_ns = CLOCK_NEVER,
        .kill_ns = CLOCK_NEVER,
        .guard_ns = CLOCK_NEVER,
    };
    return 0;
}

void timeline_move(struct timeline *t, int64_t deadline_ns)
{
    t->deadline_ns = t->term_ns = t->kill_ns = t->guard_ns = deadline_ns;
    if (deadline_ns != CLOCK_NEVER) {
        t->kill_ns = deadline_ns - t->margin_ns;
        t->guard_ns = t->kill_ns + t->margin_ns / 4;
        t->term_ns = least(deadline_ns - t->grace_ns, t->kill_ns);
    }
}

int64_t timeline_short_grace_ns(const struct timeline *t)
{
    return least(t->grace_ns, SHORT_GRACE_MS * CLOCK_MS);
}

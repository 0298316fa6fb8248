/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Passing: an exclusive hold goes from one request of this process to the next without the engine.
 *
 * A thousand threads on one lock would send two requests for each of their turns. An engine that
 * gives several tokens with one grant (SNIB_TRAIT_TOKEN_SPAN) lets us use the same grant again and
 * again, each time with the next token:
 *
 *   granted  tokens 7 8 9 | released, somebody in line: 8 | released: 9 | released: to the engine
 *
 * Safety. At the engine it is one claim with one lease, renewed and lost as one; whoever has it
 * here, one at a time, believes in it for as long as the clock says. All its tokens are larger than
 * any that were given before it and smaller than any that will be given after it. It is passed only
 * while it is plainly held: not in doubt, not near its end, and never after a release was sent.
 *
 * Other processes wait meanwhile, so it is bounded: MOST passes, and TIME from the grant. While it
 * may be passed, nobody of this process asks the engine for the same lock; when it may not any
 * more, the next in line asks at once, and has a place in the engine's queue while it is held.
 *
 * What others see is the first of its tokens: looking at a lock must not cost those who use it.
 */
#include "core/passing.h"

#include "core/client.h"
#include "core/validity.h"

#include <string.h>

#define MOST 100U
#define TIME_NS (50 * SNIB__MS)

unsigned snib__passing_wanted(const struct snib__request *r)
{
    bool others = !snib__list_empty(&r->line->waiting);
    return others && r->options.mode == SNIB_EXCLUSIVE && r->options.wait_ms != 0 &&
                   snib__traits_now(r->client) & SNIB_TRAIT_TOKEN_SPAN
               ? MOST + 1
               : 1;
}

void snib__passing_begin(struct snib__hold *h, unsigned span)
{
    h->passes = span > 1 ? span - 1 : 0;
    if (h->passes) {
        h->pass_until_ns = snib__later(h->granted.boot_ns, TIME_NS);
    }
}

void snib__passing_end(struct snib__hold *h)
{
    h->passes = 0;
    if (h->line->passer == h) {
        h->line->passer = NULL;
    }
}

/* Would it do for this request, as far as the request is concerned? */
static bool suits(const struct snib__hold *h, const struct snib__request *r)
{
    const snib_options *o = &r->options;
    return o->mode == SNIB_EXCLUSIVE && o->ttl_ms == h->claim.ttl_ms &&
           !(o->flags & SNIB_NO_RENEW) && /* which wants a whole ttl */
           strcmp(o->label ? o->label : "", h->label) == 0;
}

bool snib__passing_awaited(const struct snib__line *line, const struct snib__request *r)
{
    return line->passer && suits(line->passer, r);
}

static int64_t most_ns(const struct snib__request *r)
{
    return r->options.max_hold_ms ? r->options.max_hold_ms * SNIB__MS : SNIB__NEVER;
}

/* Is enough of it left, for others and for this request? */
static bool lasts(const struct snib__hold *h, const struct snib__request *r,
                  struct snib__instant now)
{
    int64_t left_ns = h->span_ns - snib__elapsed_ns(h->since, now);
    int64_t for_it_ns = left_ns < most_ns(r) ? left_ns : most_ns(r);
    return now.boot_ns < h->pass_until_ns && left_ns >= h->span_ns / 2 &&
           for_it_ns > r->options.min_left_ms * SNIB__MS;
}

struct snib__request *snib__passing_next(const struct snib__hold *h, struct snib__instant now)
{
    /* Who is at the engine already, because it would not do for him, came earlier. */
    if (!h->passes || h->line->asking > 0 || snib__list_empty(&h->line->waiting) ||
        h->stage != SNIB__STAGE_HELD || h->client->closing) {
        return NULL;
    }
    struct snib__request *r = SNIB__OF(h->line->waiting.after, struct snib__request, in_line);
    return suits(h, r) && lasts(h, r, now) ? r : NULL;
}

void snib__passing_go(struct snib__hold *h, struct snib__request *r, struct snib__instant now)
{
    const snib_options *o = &r->options;
    snib__list_remove(&r->in_line);
    h->passes--;
    h->token++;
    h->granted = now;
    h->owner = o->owner;
    h->no_renew = false;
    h->max_hold_ns = h->own_max_hold_ns = most_ns(r);
    h->claim.listens = h->claim.listens && o->on_event != NULL; /* else the new lease says so */
    h->first_used = false;
    h->request = r;
    r->hold = h;
    if (!h->passes) {
        snib__passing_end(h);
    }
}

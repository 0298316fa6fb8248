/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How long a hold is valid by the clock. Nothing here changes anything but the numbers that say
 * what was granted, and for how long at most.
 *
 * The lease runs from `since`, the instant before the last answered request was sent, for what
 * the engine granted less 10 % for clocks that differ. Along it:
 *
 *     since       lease/3       2 lease/3      deadline = 0.9 lease        lease
 *       |------------|---------------|-------------|---------------------|
 *       granted    renew, and      DOUBTFUL      LOST, here           the engine gives
 *                  again every                                        it to another
 *                  lease/12
 *
 * The lease is what the engine granted, which may be less than the ttl that was asked for (handed
 * over for a moment; "yours already", said late) or more (a service that rounds up).
 *
 * A maximum hold runs beside it, from the grant; its end is announced a third of a ttl ahead.
 */
#include "core/validity.h"

#include "core/client.h"

#define LONGEST_MS (365LL * 24 * 3600 * 1000) /* whatever an engine says */
#define BATCH_NS (100 * SNIB__MS)             /* renewals this close together travel together */
#define LONG_NS (3000 * SNIB__MS)             /* leases that are long enough for that */

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

int64_t snib__drift_ns(int64_t span_ns)
{
    return span_ns / 10;
}

void snib__validity_set(struct snib__hold *h, struct snib__instant since, int64_t lease_ms)
{
    h->since = since;
    if (snib__leased(h->client)) {
        h->lease_ns = lease_ms <= 0           ? 0
                      : lease_ms < LONGEST_MS ? lease_ms * SNIB__MS
                                              : LONGEST_MS * SNIB__MS;
        h->span_ns = h->lease_ns - snib__drift_ns(h->lease_ns);
    }
}

void snib__max_hold_set(struct snib__hold *h)
{
    int64_t ttl_ns = h->no_renew ? h->claim.ttl_ms * SNIB__MS : SNIB__NEVER;
    h->max_hold_ns = least(h->own_max_hold_ns, ttl_ns);
}

void snib__validity_cap(struct snib__hold *h, struct snib__instant now, int64_t lease_ms)
{
    int64_t most_ns = lease_ms * SNIB__MS - snib__drift_ns(lease_ms * SNIB__MS);
    if (h->span_ns != SNIB__NEVER && h->span_ns - snib__elapsed_ns(h->since, now) > most_ns) {
        snib__validity_set(h, now, lease_ms); /* and its thirds are those of the shorter one */
    }
}

bool snib__validity_limited(const struct snib__hold *h)
{
    return h->span_ns != SNIB__NEVER || h->max_hold_ns != SNIB__NEVER;
}

int64_t snib__max_hold_left_ns(const struct snib__hold *h, struct snib__instant now)
{
    if (h->max_hold_ns == SNIB__NEVER) {
        return SNIB__NEVER;
    }
    return h->max_hold_ns - snib__elapsed_ns(h->granted, now);
}

int64_t snib__validity_left_ns(const struct snib__hold *h, struct snib__instant now)
{
    int64_t lease = SNIB__NEVER;
    if (h->span_ns != SNIB__NEVER) {
        lease = h->span_ns - snib__elapsed_ns(h->since, now);
    }
    return least(lease, snib__max_hold_left_ns(h, now));
}

/* ---- Along the lease -------------------------------------------------------------------- */

bool snib__renews(const struct snib__hold *h)
{
    return h->span_ns != SNIB__NEVER && !h->no_renew;
}

int64_t snib__silence_ns(const struct snib__hold *h, struct snib__instant now)
{
    return snib__elapsed_ns(h->since, now);
}

bool snib__silent_too_long(const struct snib__hold *h, struct snib__instant now)
{
    return snib__renews(h) && snib__silence_ns(h, now) >= h->lease_ns * 2 / 3;
}

/* When the end of the maximum hold is near enough to say so. */
static int64_t notice_ns(const struct snib__hold *h)
{
    return least(h->claim.ttl_ms * SNIB__MS, h->max_hold_ns) / 3;
}

bool snib__max_hold_near(const struct snib__hold *h, struct snib__instant now)
{
    return h->max_hold_ns != SNIB__NEVER && snib__validity_left_ns(h, now) <= notice_ns(h);
}

int64_t snib__until_renewal_ns(const struct snib__hold *h, struct snib__instant now)
{
    if (!snib__renews(h) || h->renewal != SNIB__RENEWAL_NONE) {
        return SNIB__NEVER;
    }
    int64_t regular = h->lease_ns / 3 - snib__elapsed_ns(h->since, now);
    int64_t repeated = h->lease_ns / 12 - snib__elapsed_ns(h->renew_tried, now);
    return regular > repeated ? regular : repeated;
}

int64_t snib__until_pressing_ns(const struct snib__hold *h, struct snib__instant now)
{
    return h->lease_ns / 2 - snib__silence_ns(h, now);
}

bool snib__renewal_due(const struct snib__hold *h, struct snib__instant now)
{
    return snib__until_renewal_ns(h, now) <= (h->lease_ns >= LONG_NS ? BATCH_NS : 0);
}

/* Far ends are approached in steps, because the timer runs on one clock and the lease on the
 * faster of two. */
int64_t snib__until_next_ns(const struct snib__hold *h, struct snib__instant now)
{
    int64_t left = snib__validity_left_ns(h, now);
    int64_t wait = left == SNIB__NEVER || left < 100 * SNIB__MS ? left : left - left / 8;
    int64_t renewal = snib__until_renewal_ns(h, now);
    if (h->lease_ns >= LONG_NS && renewal != SNIB__NEVER) {
        renewal -= (now.boot_ns + renewal) % BATCH_NS; /* to meet others */
    }
    wait = least(wait, renewal);
    if (h->renewal == SNIB__RENEWAL_IN_TURN && snib__until_pressing_ns(h, now) > 0) {
        wait = least(wait, snib__until_pressing_ns(h, now));
    }
    if (h->stage == SNIB__STAGE_HELD && snib__renews(h)) {
        wait = least(wait, h->lease_ns * 2 / 3 - snib__silence_ns(h, now));
    }
    if (h->stage == SNIB__STAGE_HELD && h->max_hold_ns != SNIB__NEVER) {
        wait = least(wait, left - notice_ns(h));
    }
    if (h->passes) {
        wait = least(wait, h->pass_until_ns - now.boot_ns);
    }
    return wait < 1000 ? 1000 : wait;
}

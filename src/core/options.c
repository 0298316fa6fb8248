/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A user's options: read once, checked once, completed.
 *
 * The struct grows at its end. A program that was built with an older header hands us a shorter
 * one: what it does not have is as in SNIB_OPTIONS. One of a newer header is longer: what we do not
 * know must be zero, because a wish that is not understood must not be ignored.
 */
#include "core/options.h"

#include "core/client.h"
#include "core/name.h"
#include "core/validity.h"

#include <string.h>

/* Up to where the first released header had it. */
#define FIRST_SIZE offsetof(snib_options, stop_fd)

#define LONGEST_MS (365LL * 24 * 3600 * 1000)

static int check_numbers(const snib_options *o, snib_error *err)
{
    if (o->mode != SNIB_EXCLUSIVE && o->mode != SNIB_SHARED && o->mode != SNIB_COUNTED) {
        return snib__fail(err, SNIB_EINVAL, 0, "mode %d is not one of enum snib_mode", o->mode);
    }
    if (o->flags & ~(unsigned)(SNIB_ASYNC_RELEASE | SNIB_NO_RENEW | SNIB_RETRY) || o->reserved) {
        return snib__fail(err, SNIB_EINVAL, 0, "unknown flags in the options");
    }
    if (o->permits < 1 || o->permits > 1000) {
        return snib__fail(err, SNIB_EINVAL, 0, "permits %u is not 1 to 1000", o->permits);
    }
    if (o->mode != SNIB_COUNTED && o->permits != 1) {
        return snib__fail(err, SNIB_EINVAL, 0, "permits %u without mode SNIB_COUNTED", o->permits);
    }
    if (o->wait_ms < -1 || o->wait_ms > LONGEST_MS) {
        return snib__fail(err, SNIB_EINVAL, 0, "wait_ms %lld is not -1, 0 or up to a year",
                          (long long)o->wait_ms);
    }
    if (o->max_hold_ms < 0 || o->max_hold_ms > LONGEST_MS || o->min_left_ms < 0 ||
        o->min_left_ms > LONGEST_MS) {
        return snib__fail(err, SNIB_EINVAL, 0, "max_hold_ms or min_left_ms out of range");
    }
    if (o->reserved_too) {
        return snib__fail(err, SNIB_EINVAL, 0, "reserved_too must be 0");
    }
    if (o->stop_fd < -1) {
        return snib__fail(err, SNIB_EINVAL, 0, "stop_fd %d is not a descriptor, nor -1",
                          o->stop_fd);
    }
    return SNIB_OK;
}

int snib__ttl_check(const snib *client, int64_t ttl_ms, snib_error *err)
{
    const struct snib__session *s = &client->session;
    if (ttl_ms < 100) {
        return snib__fail(
            err, SNIB_EINVAL, 0,
            "a ttl of %lld ms is too short to be renewed in time: 100 ms is the least",
            (long long)ttl_ms);
    }
    if (ttl_ms > s->max_lease_ms) {
        return snib__fail(err, SNIB_EINVAL, 0,
                          "a ttl of %lld ms is more than max-lease=, %lld ms: the URL sets that, "
                          "the same on all hosts",
                          (long long)ttl_ms, (long long)s->max_lease_ms);
    }
    if (snib__leased(client) && ttl_ms != s->ttl_ms &&
        !(snib__traits_now(client) & SNIB_TRAIT_TTL_PER_LOCK)) {
        return snib__fail(err, SNIB_ENOTSUP, 0, "%s: one ttl for all locks, set it in the URL",
                          s->engine->scheme);
    }
    return SNIB_OK;
}

static int check_times(snib_options *o, const snib *client, snib_error *err)
{
    if (o->ttl_ms == 0) {
        o->ttl_ms = client->session.ttl_ms;
    }
    int rc = snib__ttl_check(client, o->ttl_ms, err);
    if (rc < 0) {
        return rc;
    }
    int64_t whole_ms = (o->ttl_ms * SNIB__MS - snib__drift_ns(o->ttl_ms * SNIB__MS)) / SNIB__MS;
    if (snib__leased(client) && o->min_left_ms > whole_ms) {
        return snib__fail(err, SNIB_EINVAL, 0, "min_left_ms %lld is more than a ttl of %lld gives",
                          (long long)o->min_left_ms, (long long)o->ttl_ms);
    }
    int64_t most_ms = o->max_hold_ms;
    if (o->flags & SNIB_NO_RENEW && (!most_ms || most_ms > o->ttl_ms)) {
        most_ms = o->ttl_ms;
    }
    if (most_ms && o->min_left_ms > most_ms) {
        return snib__fail(err, SNIB_EINVAL, 0, "min_left_ms is more than max_hold_ms");
    }
    return SNIB_OK;
}

/* As much of it as there is, over what is normal. */
static int copy(snib_options *out, const snib_options *in, snib_error *err)
{
    static const snib_options normal = SNIB_OPTIONS;
    if (in->size < FIRST_SIZE) {
        return snib__fail(err, SNIB_EINVAL, 0, "options: start from SNIB_OPTIONS");
    }
    for (size_t i = sizeof *in; i < in->size; i++) {
        if (((const unsigned char *)in)[i]) {
            return snib__fail(err, SNIB_EINVAL, 0, "options of a newer snib, this is %s",
                              snib_version());
        }
    }
    *out = normal;
    memcpy(out, in, in->size < sizeof *in ? in->size : sizeof *in);
    out->size = sizeof *out;
    return SNIB_OK;
}

static int check_mode(const snib_options *o, const snib *client, snib_error *err)
{
    unsigned needs = o->mode == SNIB_SHARED    ? SNIB_TRAIT_SHARED
                     : o->mode == SNIB_COUNTED ? SNIB_TRAIT_COUNTED
                                               : 0;
    if ((snib__traits_now(client) & needs) != needs) {
        const char *why = client->session.why;
        return snib__fail(err, SNIB_ENOTSUP, 0, "%s: no %s locks%s%s",
                          client->session.engine->scheme,
                          o->mode == SNIB_SHARED ? "shared" : "counted", why && why[0] ? ": " : "",
                          why ? why : "");
    }
    return SNIB_OK;
}

int snib__options_read(snib_options *out, const snib *client, const snib_options *in,
                       snib_error *err)
{
    static const snib_options normal = SNIB_OPTIONS;
    if (!in && client->normal.size) { /* checked when it was opened */
        *out = client->normal;
        return SNIB_OK;
    }
    int rc = copy(out, in ? in : &normal, err);
    if (rc == 0) {
        rc = check_numbers(out, err);
    }
    if (rc == 0) {
        rc = check_times(out, client, err);
    }
    if (rc == 0 && out->label) {
        rc = snib__label_check(out->label, err);
    }
    return rc < 0 ? rc : check_mode(out, client, err);
}

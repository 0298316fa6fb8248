/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The layout `redisson` on the wire: the hash of Redisson's RLock, with a field uuid:number for its
 * holder and always a lease, the counter of its RFencedLock for tokens, and its channel, where
 * whoever releases says "0".
 *
 * Safety
 *
 * At most one holder, snib's or Redisson's, at any time by the server's clock: scripts are atomic,
 * theirs as ours; the hash is made only where there is none, by either, and goes when its time is
 * over, when its owner gives it back, or by force. The rest is as claims.c has it, with its
 * assumptions.
 *
 * - A request whose answer was lost is asked again under the same field: ours finds it and answers
 *   what is left, and counts nothing. (Redisson's counts twice there; such a lock of theirs is
 * never released before its lease ends, and may be taken away by force.)
 * - A reply of an earlier attempt belongs to its call by position, and counts from that call.
 * - An attempt that was held up on its way is refused after its not-after time; one that its
 * release has overtaken, by the id that the release left in a key of ours. Redisson has neither.
 * - Expiry is the server's own, for the whole hash. When its clock is set forward, it goes early
 * for everybody; when it is set back, late.
 * - A holder of Redisson's is waited for: its release is heard, also by name of the server
 *   (notify-keyspace-events), and it is asked about when its time is over and once a second: its
 * spin lock says nothing. Ours says "0", which wakes one waiter in each of their processes. Nothing
 * else is ever said there: they would fail at it.
 * - A key of another type (RSemaphore, RCountDownLatch, a plain lock) is another kind of lock, and
 * so is a hash with a mode (RReadWriteLock, see rwlock.c): readers have leases in keys of their
 * own, and the number of its fields counts. Ours has one more field, "snib", for people; an RLock
 * does not count its fields.
 * - An RFairLock that is waited for is refused: we would overtake those who wait there, and not
 * wake them. One that nobody waits for looks like an RLock, and excludes and is excluded.
 * - The token is the counter of RFencedLock, drawn with every grant of ours and every one of
 * theirs. An RLock draws none: a late write of its holder has no token to be refused by. The
 * counter has no lease, as theirs; whoever deletes it begins at 1 again.
 *
 * Not fair: the first who asks has it.
 */
#include "engines/redis/redisson.h"

#include "engines/redis/packed.h"
#include "engines/redis/plain.h"
#include "engines/redis/script.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef void namer(char out[SNIB__KEY_MAX], const char *prefix, const char *name);

static void add_name(struct snib__command *c, const struct snib__wish *wish, namer *of)
{
    char key[SNIB__KEY_MAX];
    of(key, wish->prefix, wish->name);
    snib__command_format(c, "%s", key);
}

static void begin(struct snib__command *c, const struct snib__script *script,
                  const struct snib__wish *wish, const char *keys)
{
    snib__command_begin(c);
    snib__command_text(c, wish->by_text ? "EVAL" : "EVALSHA");
    if (wish->by_text) {
        snib__command_bytes(c, script->text, script->size);
    } else {
        snib__command_bytes(c, script->sha1, sizeof script->sha1 - 1);
    }
    snib__command_text(c, keys);
    add_name(c, wish, snib__plain_key);
    add_name(c, wish, snib__redisson_fence);
}

static void add_id(struct snib__command *c, const struct snib__wish *wish)
{
    snib__plain_id(snib__command_room(c, SNIB__PLAIN_ID + 1), wish->id);
    snib__command_made(c, SNIB__PLAIN_ID);
}

static void add_field(struct snib__command *c, const struct snib__wish *wish)
{
    char field[SNIB__REDISSON_FIELD];
    snib__redisson_field(field, wish->id);
    snib__command_format(c, "%s", field);
}

static void add_channel(struct snib__command *c, const struct snib__wish *wish)
{
    char channels[SNIB__CHANNELS][SNIB__KEY_MAX];
    (void)snib__redisson_channels(channels, wish->prefix, "0", wish->name);
    snib__command_format(c, "%s", channels[0]);
}

void snib__redisson_attempt(struct snib__command *c, const struct snib__wish *wish)
{
    begin(c, &snib__redisson_attempt_script, wish, "4");
    add_name(c, wish, snib__redisson_counter);
    add_name(c, wish, snib__redisson_queue);
    char *to = snib__pack(snib__command_room(c, 12), (uint64_t)wish->ttl_ms, 4);
    (void)snib__pack(to, (uint64_t)wish->not_after_ms, 8);
    snib__command_made(c, 12);
    add_id(c, wish);
    add_field(c, wish);
    snib__command_format(c, "%.180s %s", wish->who, wish->label);
}

void snib__redisson_renew(struct snib__command *c, const struct snib__wish *wish)
{
    begin(c, &snib__redisson_renew_script, wish, "2");
    (void)snib__pack(snib__command_room(c, 4), (uint64_t)wish->ttl_ms, 4);
    snib__command_made(c, 4);
    add_id(c, wish);
    add_field(c, wish);
}

void snib__redisson_release(struct snib__command *c, const struct snib__wish *wish)
{
    begin(c, &snib__redisson_release_script, wish, "2");
    add_id(c, wish);
    add_channel(c, wish);
    add_field(c, wish);
    if (wish->loose_ms) {
        (void)snib__pack(snib__command_room(c, 8), (uint64_t)wish->loose_ms, 8);
        snib__command_made(c, 8);
    }
}

void snib__redisson_evict(struct snib__command *c, const struct snib__wish *wish)
{
    char root[SNIB__KEY_MAX];
    begin(c, &snib__redisson_evict_script, wish, "2");
    char *to = snib__pack(snib__command_room(c, 9), wish->token, 8);
    (void)snib__pack(to, wish->force, 1);
    snib__command_made(c, 9);
    snib__command_text(c, wish->who);
    snib__plain_root(root, wish->prefix);
    snib__command_format(c, "%s:broken", root);
    add_channel(c, wish);
}

/* ---- Looking ---------------------------------------------------------------------------- */

/* What is left of it, then the hash. */
void snib__redisson_inspect(struct snib__command *c, const struct snib__wish *wish, unsigned look)
{
    snib__command_begin(c);
    snib__command_text(c, look == 0 ? "PTTL" : "HGETALL");
    add_name(c, wish, snib__plain_key);
}

int snib__redisson_show(const struct snib__reply *reply, const int64_t numbers[SNIB__LOOKS],
                        const char *name, const struct snib__server_clock *clock,
                        snib__layout_show *show, void *arg)
{
    const char *field = NULL, *note = NULL;
    char who[128], *rest = NULL;
    (void)clock;
    for (size_t i = 0; i + 1 < reply->count; i += 2) {
        const char *text = snib__reply_text(reply, i);
        if (strcmp(text, "mode") == 0) {
            return SNIB_EKIND; /* a read-write lock: its readers are in other keys, too */
        }
        if (strcmp(text, "snib") == 0) {
            note = snib__reply_text(reply, i + 1);
        } else {
            field = text;
        }
    }
    if (!field) {
        return 0; /* nobody has it */
    }
    snib_seen seen = {
        .size = sizeof seen,
        .name = name,
        .label = "",
        .mode = SNIB_EXCLUSIVE,
        .permits = 1,
        .left_ms = numbers[0] == -1 ? SNIB_FOREVER
                   : numbers[0] > 0 ? numbers[0]
                                    : 1,
    };
    seen.token = note ? strtoull(note, &rest, 10) : 0;
    if (seen.token > 0 && *rest == ' ') {
        const char *space = strchr(rest + 1, ' ');
        snprintf(who, sizeof who, "%.*s", space ? (int)(space - rest - 1) : 127, rest + 1);
        seen.label = space ? space + 1 : "";
    } else {
        snprintf(who, sizeof who, "redisson:%.100s", field);
        seen.token = snib__plain_number(field, strlen(field));
    }
    seen.who = who;
    show(arg, &seen);
    return 0;
}

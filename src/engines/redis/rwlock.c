/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The layout `redisson-rw` on the wire: the hash of Redisson's RReadWriteLock, with its mode, a
 * field uuid:number for each reader or uuid:number:write for the writer, and a lease of its own for
 * each holder in a key beside it. Shared mode is its read lock, exclusive mode its write lock.
 *
 * Safety
 *
 * One writer and nobody else, or readers only, snib's and Redisson's, at any time by the server's
 * clock: scripts are atomic, theirs as ours; a mode is set only where there is no hash, by either,
 * and a reader comes in only where the mode is "read". The hash goes when its time is over, when
 * its last holder gives it back, or by force. The rest is as claims.c has it, with its assumptions.
 *
 * - The hash lives as long as the longest lease in it, as far as we see to it: an attempt or a
 *   renewal of ours makes it longer, never shorter. A release leaves its time alone while anybody
 *   has a lease that is not over, and deletes it else, as theirs does.
 * - Theirs may make it shorter. The release of a reader sets it to the longest lease that is left,
 *   which ours is one of. But the watchdog of a reader sets the hash, and all leases of readers, to
 *   its own time-out (lockWatchdogTimeout, 30 s unless somebody changed it) from now: a lease of
 *   ours that was longer would end before we believe it does, and a writer come in. So shared
 *   leases are never longer than `watchdog=`, which must not be more than the shortest time-out of
 *   any Redisson that reads there: whatever is renewed later than ours then ends later than ours.
 *   A writer's lease is nobody else's to change, and may be longer.
 * - The same watchdog keeps leases of readers that are dead, ours too, as long as its own reader
 *   lives, and for its time-out after that. Writers wait for that; nothing breaks.
 * - A field of ours in the hash proves that nobody has written since: no writer enters while there
 *   is a hash. A renewal wants the lease, too.
 * - A reader of Redisson whose own leases have lapsed while it lives (its watchdog in 3.52 sees to
 *   the first of several locks only) is not waited for by releases, theirs or ours.
 * - Who does not look at `mode`: an RLock of the same name waits for this hash; but the other way
 *   round an RReadWriteLock of Redisson takes the hash of an RLock for a free one, and enters. We
 *   do not: it is another kind of lock. Names for the one must not be used for the other.
 * - HLEN counts for Redisson: no field is added for people. Who holds it is in the key of its
 *   lease, whose value Redisson never reads.
 * - Tokens are counted as in `redisson`: a writer draws, a reader carries the last. Redisson's
 *   writers draw none.
 *
 * Not fair: readers come in while writers wait, as with Redisson.
 */
#include "engines/redis/rwlock.h"

#include "engines/redis/packed.h"
#include "engines/redis/plain.h"
#include "engines/redis/redisson.h"
#include "engines/redis/script.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void begin(struct snib__command *c, const struct snib__script *script, bool by_text,
                  const char *keys, const struct snib__wish *wish)
{
    char key[SNIB__KEY_MAX];
    snib__command_begin(c);
    snib__command_text(c, by_text ? "EVAL" : "EVALSHA");
    if (by_text) {
        snib__command_bytes(c, script->text, script->size);
    } else {
        snib__command_bytes(c, script->sha1, sizeof script->sha1 - 1);
    }
    snib__command_text(c, keys);
    snib__plain_key(key, wish->prefix, wish->name);
    snib__command_format(c, "%s", key);
}

static void add_fence(struct snib__command *c, const struct snib__wish *wish)
{
    char key[SNIB__KEY_MAX];
    snib__redisson_fence(key, wish->prefix, wish->name);
    snib__command_format(c, "%s", key);
}

static void add_field(struct snib__command *c, const struct snib__wish *wish, bool writes)
{
    char field[SNIB__REDISSON_FIELD];
    snib__redisson_field(field, wish->id);
    snib__command_format(c, "%s%s", field, writes ? ":write" : "");
}

static void add_lease(struct snib__command *c, const struct snib__wish *wish, bool writes)
{
    char before[SNIB__KEY_MAX], field[SNIB__REDISSON_FIELD];
    snib__rwlock_before(before, wish->prefix, wish->name);
    snib__redisson_field(field, wish->id);
    snib__command_format(c, "%s%s%s:rwlock_timeout:1", before, field, writes ? ":write" : "");
}

static void add_before(struct snib__command *c, const struct snib__wish *wish)
{
    char before[SNIB__KEY_MAX];
    snib__rwlock_before(before, wish->prefix, wish->name);
    snib__command_format(c, "%s", before);
}

static void add_channel(struct snib__command *c, const struct snib__wish *wish)
{
    char channels[SNIB__CHANNELS][SNIB__KEY_MAX];
    (void)snib__rwlock_channels(channels, wish->prefix, "0", wish->name);
    snib__command_format(c, "%s", channels[0]);
}

static void add_id(struct snib__command *c, const struct snib__wish *wish)
{
    snib__plain_id(snib__command_room(c, SNIB__PLAIN_ID + 1), wish->id);
    snib__command_made(c, SNIB__PLAIN_ID);
}

void snib__rwlock_attempt(struct snib__command *c, const struct snib__wish *wish)
{
    bool writes = wish->mode != SNIB_SHARED;
    char counter[SNIB__KEY_MAX];
    begin(c, &snib__rwlock_attempt_script, wish->by_text, "4", wish);
    add_fence(c, wish);
    snib__redisson_counter(counter, wish->prefix, wish->name);
    snib__command_format(c, "%s", counter);
    add_lease(c, wish, writes);
    char *to = snib__pack(snib__command_room(c, 13), (uint64_t)wish->ttl_ms, 4);
    to = snib__pack(to, (uint64_t)wish->not_after_ms, 8);
    (void)snib__pack(to, !writes, 1);
    snib__command_made(c, 13);
    add_id(c, wish);
    add_field(c, wish, writes);
    snib__command_format(c, "%.180s %s", wish->who, wish->label);
}

/* Neither says as what it is held: both ways are looked for. */
void snib__rwlock_renew(struct snib__command *c, const struct snib__wish *wish)
{
    begin(c, &snib__rwlock_renew_script, wish->by_text, "3", wish);
    add_lease(c, wish, false);
    add_lease(c, wish, true);
    (void)snib__pack(snib__command_room(c, 4), (uint64_t)wish->ttl_ms, 4);
    snib__command_made(c, 4);
    add_field(c, wish, false);
    add_field(c, wish, true);
}

void snib__rwlock_release(struct snib__command *c, const struct snib__wish *wish)
{
    begin(c, &snib__rwlock_release_script, wish->by_text, "4", wish);
    add_fence(c, wish);
    add_lease(c, wish, false);
    add_lease(c, wish, true);
    add_id(c, wish);
    add_channel(c, wish);
    add_field(c, wish, false);
    if (wish->loose_ms) {
        (void)snib__pack(snib__command_room(c, 8), (uint64_t)wish->loose_ms, 8);
        snib__command_made(c, 8);
    }
}

void snib__rwlock_evict(struct snib__command *c, const struct snib__wish *wish)
{
    char root[SNIB__KEY_MAX];
    begin(c, &snib__rwlock_evict_script, wish->by_text, "1", wish);
    char *to = snib__pack(snib__command_room(c, 9), wish->token, 8);
    (void)snib__pack(to, wish->force, 1);
    snib__command_made(c, 9);
    snib__command_text(c, wish->who);
    snib__plain_root(root, wish->prefix);
    snib__command_format(c, "%s:broken", root);
    add_channel(c, wish);
    add_before(c, wish);
}

/* ---- Looking ---------------------------------------------------------------------------- */

/* Rare, and one round trip: by its text. */
void snib__rwlock_inspect(struct snib__command *c, const struct snib__wish *wish, unsigned look)
{
    (void)look;
    begin(c, &snib__rwlock_inspect_script, true, "1", wish);
    add_before(c, wish);
}

/* "TOKEN WHO LABEL", or behind "!BREAKER " if somebody wants it given up; false: Redisson's. */
static bool read_note(snib_seen *seen, char who[128], const char *note)
{
    char *rest;
    const char *text = note[0] == '!' ? strchr(note, ' ') : note;
    text = text && note[0] == '!' ? text + 1 : text;
    seen->token = text ? strtoull(text, &rest, 10) : 0;
    if (!seen->token || *rest != ' ') {
        return false;
    }
    const char *space = strchr(rest + 1, ' ');
    snprintf(who, 128, "%.*s", space ? (int)(space - rest - 1) : 127, rest + 1);
    seen->label = space ? space + 1 : "";
    return true;
}

static void show_one(const char *name, const char *field, int64_t left_ms, const char *note,
                     snib__layout_show *show, void *arg)
{
    char who[128];
    size_t size = strlen(field), tail = strlen(":write");
    bool writes = size > tail && strcmp(field + size - tail, ":write") == 0;
    snib_seen seen = {
        .size = sizeof seen,
        .name = name,
        .who = who,
        .label = "",
        .mode = writes ? SNIB_EXCLUSIVE : SNIB_SHARED,
        .permits = 1,
        .left_ms = left_ms == -1 ? SNIB_FOREVER
                   : left_ms > 0 ? left_ms
                                 : 1,
    };
    if (!read_note(&seen, who, note)) {
        snprintf(who, sizeof who, "redisson:%.100s", field);
        seen.token = snib__plain_number(field, size);
    }
    show(arg, &seen);
}

/* MODE LEFT, then FIELD LEFT NOTE for each. A reader whose lease is over is passed over, unless
 * nobody else is there and the lock is still kept for it. */
int snib__rwlock_show(const struct snib__reply *reply, const int64_t numbers[SNIB__LOOKS],
                      const char *name, const struct snib__server_clock *clock,
                      snib__layout_show *show, void *arg)
{
    (void)numbers;
    (void)clock;
    int64_t left_ms = snib__reply_number(reply, 1);
    bool writes = strcmp(snib__reply_text(reply, 0), "write") == 0, shown = false;
    if (left_ms == -2) {
        return 0; /* nobody has it */
    }
    if (snib__reply_text(reply, 0)[0] == '\0') {
        return SNIB_EKIND; /* an RLock */
    }
    for (size_t i = 2; i + 2 < reply->count; i += 3) {
        int64_t own_ms = snib__reply_number(reply, i + 1);
        if (own_ms != -2 || writes) {
            show_one(name, snib__reply_text(reply, i), writes ? left_ms : own_ms,
                     snib__reply_text(reply, i + 2), show, arg);
            shown = true;
        }
    }
    if (!shown && reply->count >= 5) {
        show_one(name, snib__reply_text(reply, 2), left_ms, "", show, arg);
    }
    return 0;
}

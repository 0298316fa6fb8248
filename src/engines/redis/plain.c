/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The layout `plain` on the wire: the lock is a string with the owner's secret, made by SET NX PX
 * and deleted by whoever finds his own secret in it, as redis-py, redsync, node-redlock, redislock,
 * RedLock.net and others have it. All of them take it for theirs, and exclude each other.
 *
 * Safety
 *
 * At most one holder, snib's or not, at any time by the server's clock: the key is made only where
 * there is none, by one command; it goes when its time is over, when its owner gives it back, or by
 * force. snib deletes and extends only what has its own id in it, in one script (or one transaction
 * that fails if the key was touched: steps.c). The rest is as claims.c has it, with its
 * assumptions.
 *
 * - A request whose answer was lost is asked again under the same id: it finds its own id, and
 *   answers what is left. Another program's cannot be mistaken for it: ids are random.
 * - A reply of an earlier attempt belongs to its call by position, and counts from that call.
 * - An attempt that was held up on its way is refused after its not-after time; one that its
 * release has overtaken, by the id that the release left in the fence. Other programs have neither:
 * theirs can leave a lock that nobody wants, for its ttl.
 * - Expiry is the server's own. When its clock is set forward, the key goes early for everybody;
 * when it is set back, late, and one who died keeps it longer: nobody but the server looks at the
 * time.
 * - Another program's holder is waited for, and asked about every tenth of a second: it tells
 * nobody when it is done, unless the server does (notify-keyspace-events). A holder without a ttl
 * is waited for without end. Some (redlock-rb, RedLock.net, redsync with SetNXOnExtend) make their
 *   expired lock anew when they extend it: not over a key that is there.
 * - A key of another type is another kind of lock: SNIB_EKIND, and nothing is touched.
 * - The token is drawn by snib's grants only, and grows with each of them, as long as the fence is
 * kept or the server's clock does not go back. It says nothing about holders of other programs: a
 * late write of theirs has no token to be refused by, and none is drawn when they hold it, so a
 *   snib that was stopped while only they had the lock is not refused either.
 * - After a restart that lost keys the quarantine waits for max-lease; a longer lease of another
 *   program is not waited for.
 *
 * Not fair: the first who asks has it. Those of snib that wait hear when another snib releases it.
 */
#include "engines/redis/plain.h"

#include "engines/redis/packed.h"
#include "engines/redis/script.h"

#include <string.h>

static void begin(struct snib__command *c, const struct snib__script *script,
                  const struct snib__wish *wish)
{
    char key[SNIB__KEY_MAX];
    snib__command_begin(c);
    snib__command_text(c, wish->by_text ? "EVAL" : "EVALSHA");
    if (wish->by_text) {
        snib__command_bytes(c, script->text, script->size);
    } else {
        snib__command_bytes(c, script->sha1, sizeof script->sha1 - 1);
    }
    snib__command_text(c, "2");
    snib__plain_key(key, wish->prefix, wish->name);
    snib__command_format(c, "%s", key);
    snib__plain_fence(key, wish->prefix, wish->name);
    snib__command_format(c, "%s", key);
}

static void add_id(struct snib__command *c, const struct snib__wish *wish)
{
    snib__plain_id(snib__command_room(c, SNIB__PLAIN_ID + 1), wish->id);
    snib__command_made(c, SNIB__PLAIN_ID);
}

static void add_channel(struct snib__command *c, const struct snib__wish *wish)
{
    char channel[SNIB__KEY_MAX];
    snib__plain_channel(channel, wish->prefix, wish->name);
    snib__command_format(c, "%s", channel);
}

void snib__plain_attempt(struct snib__command *c, const struct snib__wish *wish)
{
    begin(c, &snib__plain_attempt_script, wish);
    snib__command_number(c, wish->ttl_ms);
    snib__command_number(c, wish->ttl_ms + wish->retention_ms);
    snib__command_number(c, wish->not_after_ms);
    add_id(c, wish);
    snib__command_format(c, "%.180s %s", wish->who, wish->label);
    if (wish->least_token) {
        snib__command_number(c, (int64_t)wish->least_token);
    }
    if (wish->least_token && wish->goes_on) {
        snib__command_text(c, "1");
    }
}

void snib__plain_agree(struct snib__command *c, const struct snib__wish *wish)
{
    begin(c, &snib__plain_agree_script, wish);
    char *to = snib__pack(snib__command_room(c, 12), wish->token, 8);
    (void)snib__pack(to, (uint64_t)wish->retention_ms, 4);
    snib__command_made(c, 12);
    add_id(c, wish);
}

void snib__plain_renew(struct snib__command *c, const struct snib__wish *wish)
{
    begin(c, &snib__plain_renew_script, wish);
    char *to = snib__pack(snib__command_room(c, 8), (uint64_t)wish->ttl_ms, 4);
    (void)snib__pack(to, (uint64_t)wish->retention_ms, 4);
    snib__command_made(c, 8);
    add_id(c, wish);
}

void snib__plain_release(struct snib__command *c, const struct snib__wish *wish)
{
    begin(c, &snib__plain_release_script, wish);
    add_id(c, wish);
    add_channel(c, wish);
    snib__command_number(c, wish->retention_ms);
    if (wish->loose_ms) {
        (void)snib__pack(snib__command_room(c, 8), (uint64_t)wish->loose_ms, 8);
        snib__command_made(c, 8);
    }
}

void snib__plain_evict(struct snib__command *c, const struct snib__wish *wish)
{
    char root[SNIB__KEY_MAX];
    begin(c, &snib__plain_evict_script, wish);
    char *to = snib__pack(snib__command_room(c, 13), wish->token, 8);
    to = snib__pack(to, (uint64_t)wish->retention_ms, 4);
    (void)snib__pack(to, wish->force, 1);
    snib__command_made(c, 13);
    snib__command_text(c, wish->who);
    snib__plain_root(root, wish->prefix);
    snib__command_format(c, "%s:broken", root);
    add_channel(c, wish);
}

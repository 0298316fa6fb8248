/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the scripts of the layout `plain` do, for servers that do not allow any: see scripts/plain/,
 * which these functions follow line by line.
 *
 * Safety: what is written is written only if neither key was touched since it was read (WATCH). So
 * an attempt that was held up on its way to the server is refused there if anything happened to the
 * lock meanwhile, and the release of its own id touches the fence in any case.
 */
#include "engines/redis/packed.h"
#include "engines/redis/plain.h"
#include "engines/redis/plan.h"

#include <stdio.h>
#include <string.h>

#define HEAD 78      /* VERSION LAST FREED BROKEN SIZE */
#define DEAD_SIZE 42 /* ID UNTIL */
#define DEAD_MOST 16 /* of them: those that scripts have left beyond that are forgotten */
#define BREAKER_MOST 180

static const char nobody[] = "0000000000000000000000000000000000";

/* The fence, taken apart. */
struct fence {
    uint64_t last;
    char freed[SNIB__PLAIN_ID + 1], broken[SNIB__PLAIN_ID + 1];
    char breaker[BREAKER_MOST + 1];
    size_t breaker_size;
    const char *dead;
    size_t dead_size;
};

/* ---- Answers ---------------------------------------------------------------------------- */

static void say_error(struct snib__decision *d, const char *text)
{
    d->answer_size = (size_t)snprintf(d->answer, sizeof d->answer, "-%.390s", text);
}

/* A letter and the time. */
static void say_word(struct snib__decision *d, char letter, int64_t now_ms)
{
    char *to = d->answer;
    *to++ = letter;
    to = snib__pack(to, (uint64_t)now_ms, 8);
    d->answer_size = (size_t)(to - d->answer);
}

static void say_held(struct snib__decision *d, uint64_t token, int64_t left_ms, int64_t now_ms)
{
    char *to = d->answer;
    *to++ = 'H';
    to = snib__pack(to, token, 8);
    to = snib__pack(to, (uint64_t)(left_ms > 0 ? left_ms : 0), 4);
    to = snib__pack(to, 1, 4);
    to = snib__pack(to, (uint64_t)now_ms, 8);
    d->answer_size = (size_t)(to - d->answer);
}

static void say_busy(struct snib__decision *d, const struct snib__plain_value *v, int64_t left_ms,
                     int64_t now_ms)
{
    char *to = d->answer;
    size_t size = strnlen(v->info, 200);
    *to++ = 'B';
    to = snib__pack(to, 0, 1);
    to = snib__pack(to, 0, 4);
    to = snib__pack(to, v->ours ? v->token : 0, 8);
    to = snib__pack(to, (uint64_t)(left_ms > 0 ? left_ms : 0), 4);
    to = snib__pack(to, (uint64_t)now_ms, 8);
    to = snib__pack_bytes(to, v->info, size);
    d->answer_size = (size_t)(to - d->answer);
}

static void say_asked(struct snib__decision *d, int64_t left_ms, int64_t now_ms)
{
    say_word(d, 'A', now_ms);
    (void)snib__pack(d->answer + d->answer_size, (uint64_t)(left_ms > 0 ? left_ms : 0), 4);
    d->answer_size += 4;
}

/* ---- The fence -------------------------------------------------------------------------- */

static bool read_fence(struct fence *f, const struct snib__sight *s)
{
    *f = (struct fence){.dead = ""};
    memcpy(f->freed, nobody, sizeof f->freed);
    memcpy(f->broken, nobody, sizeof f->broken);
    if (!s->fenced) {
        return true;
    }
    struct snib__packed p = snib__packed_from(s->fence, s->fence_size);
    if (s->fence_size < HEAD || snib__packed_number(&p, 1) != 1) {
        return false;
    }
    f->last = (uint64_t)snib__packed_within(&p, 8, INT64_MAX);
    memcpy(f->freed, snib__packed_bytes(&p, SNIB__PLAIN_ID), SNIB__PLAIN_ID);
    memcpy(f->broken, snib__packed_bytes(&p, SNIB__PLAIN_ID), SNIB__PLAIN_ID);
    size_t size = (size_t)snib__packed_number(&p, 1);
    if (size > BREAKER_MOST || size > p.left) {
        return false;
    }
    memcpy(f->breaker, snib__packed_bytes(&p, size), size);
    f->breaker_size = size;
    f->dead = p.at;
    f->dead_size = p.left - p.left % DEAD_SIZE;
    return true;
}

static bool is_dead(const struct fence *f, const char *id)
{
    for (size_t i = 0; i < f->dead_size; i += DEAD_SIZE) {
        if (memcmp(f->dead + i, id, SNIB__PLAIN_ID) == 0) {
            return true;
        }
    }
    return false;
}

static void keep(struct snib__decision *d, const struct fence *f, int64_t fence_ms, int64_t now_ms)
{
    char *to = d->fence;
    to = snib__pack(to, 1, 1);
    to = snib__pack(to, f->last, 8);
    to = snib__pack_bytes(to, f->freed, SNIB__PLAIN_ID);
    to = snib__pack_bytes(to, f->broken, SNIB__PLAIN_ID);
    to = snib__pack(to, f->breaker_size, 1);
    to = snib__pack_bytes(to, f->breaker, f->breaker_size);
    size_t kept = 0;
    for (size_t i = 0; i < f->dead_size && kept < DEAD_MOST; i += DEAD_SIZE) {
        struct snib__packed until = snib__packed_from(f->dead + i + SNIB__PLAIN_ID, 8);
        if (snib__packed_within(&until, 8, INT64_MAX) > now_ms) {
            to = snib__pack_bytes(to, f->dead + i, DEAD_SIZE);
            kept++;
        }
    }
    d->fence_size = (size_t)(to - d->fence);
    d->fence_ms = fence_ms;
    d->keeps = d->touches = true;
}

static void touch(struct snib__decision *d, int64_t fence_ms)
{
    d->touches = true;
    d->fence_ms = fence_ms;
}

static void break_by(struct fence *f, const char *id, const char *who)
{
    memcpy(f->broken, id, SNIB__PLAIN_ID);
    f->breaker_size = strnlen(who, BREAKER_MOST);
    memcpy(f->breaker, who, f->breaker_size);
}

/* ---- Deciding --------------------------------------------------------------------------- */

/* All that the four have in common. */
struct matter {
    const struct snib__wish *wish;
    const struct snib__sight *sight;
    struct snib__plain_value value;
    struct fence fence;
    char id[SNIB__PLAIN_ID + 1];
    bool mine;
    int64_t now_ms;
};

static void decide_attempt(struct snib__decision *d, struct matter *m)
{
    const struct snib__wish *wish = m->wish;
    uint64_t now_us = (uint64_t)m->sight->now_us;
    if (wish->not_after_ms > 0 && m->now_ms > wish->not_after_ms) {
        say_word(d, 'L', m->now_ms);
    } else if (m->mine) {
        touch(d, wish->retention_ms + wish->ttl_ms);
        say_held(d, m->value.token, m->sight->left_ms, m->now_ms);
    } else if (m->sight->held) {
        say_busy(d, &m->value, m->sight->left_ms, m->now_ms);
    } else if (strcmp(m->fence.freed, m->id) == 0 || is_dead(&m->fence, m->id)) {
        say_word(d, 'D', m->now_ms);
    } else {
        d->token = m->fence.last < now_us ? now_us : m->fence.last + 1;
        d->takes = d->must_keep = true;
        d->ttl_ms = wish->ttl_ms;
        m->fence.last = d->token;
        break_by(&m->fence, nobody, "");
        keep(d, &m->fence, wish->retention_ms + wish->ttl_ms, m->now_ms);
        say_held(d, d->token, wish->ttl_ms, m->now_ms);
    }
}

static void decide_renewal(struct snib__decision *d, const struct matter *m)
{
    if (!m->mine) {
        say_word(d, 'N', m->now_ms);
    } else if (strcmp(m->fence.broken, m->id) == 0) {
        say_word(d, 'X', m->now_ms);
        memcpy(d->answer + d->answer_size, m->fence.breaker, m->fence.breaker_size);
        d->answer_size += m->fence.breaker_size;
    } else {
        d->extends = true;
        d->ttl_ms = m->wish->ttl_ms;
        touch(d, m->wish->retention_ms + m->wish->ttl_ms);
        say_held(d, m->value.token, m->sight->left_ms, m->now_ms);
    }
}

static void decide_release(struct snib__decision *d, struct matter *m)
{
    bool before = strcmp(m->fence.freed, m->id) == 0;
    d->answer[0] = m->mine ? 'G' : before ? 'F' : 'N';
    d->answer_size = 1;
    if (m->mine || m->wish->loose_ms) {
        /* An attempt that may still arrive was sent after it had looked: this touches what it saw.
         */
        d->must_keep = !m->mine;
        d->deletes = d->tells_freed = m->mine;
        memcpy(m->fence.freed, m->id, SNIB__PLAIN_ID);
        if (strcmp(m->fence.broken, m->id) == 0) {
            break_by(&m->fence, nobody, "");
        }
        keep(d, &m->fence, m->wish->retention_ms, m->now_ms);
    }
}

static void decide_eviction(struct snib__decision *d, struct matter *m)
{
    int64_t left_ms = m->sight->left_ms;
    int64_t fence_ms = m->wish->retention_ms + (left_ms > 0 ? left_ms : 0);
    if (!m->sight->held || m->value.token != m->wish->token) {
        say_word(d, 'N', m->now_ms);
    } else if (m->wish->force) {
        d->deletes = d->tells_freed = d->tells_broken = true;
        break_by(&m->fence, nobody, "");
        keep(d, &m->fence, fence_ms, m->now_ms);
        say_word(d, 'G', m->now_ms);
    } else if (!m->value.ours) {
        say_busy(d, &m->value, left_ms, m->now_ms);
    } else {
        if (strncmp(m->fence.broken, m->value.id, SNIB__PLAIN_ID) != 0) {
            d->tells_broken = d->must_keep = true;
            break_by(&m->fence, m->value.id, m->wish->who);
            keep(d, &m->fence, fence_ms, m->now_ms);
        }
        say_asked(d, left_ms, m->now_ms);
    }
}

static void decide(struct snib__decision *d, enum snib__plan_verb verb,
                   const struct snib__wish *wish, const struct snib__sight *sight)
{
    struct matter m = {.wish = wish, .sight = sight, .now_ms = sight->now_us / 1000};
    *d = (struct snib__decision){.answer_size = 0};
    if (!read_fence(&m.fence, sight)) {
        say_error(
            d, "LAYOUT the fence of this lock was written by a newer snib, or by something else: "
               "let those who use the lock finish, or delete it");
        return;
    }
    if (!sight->held && sight->left_ms != -2 && verb == SNIB__PLAN_ATTEMPT) {
        say_error(d, "WRONGTYPE the key is no string"); /* there is one, and MGET shows none */
        return;
    }
    if (wish->id) {
        snib__plain_id(m.id, wish->id);
    }
    if (sight->held) {
        snib__plain_read(&m.value, sight->value, sight->value_size);
        m.mine = m.value.ours && strncmp(m.value.id, m.id, SNIB__PLAIN_ID) == 0;
    }
    switch (verb) {
    case SNIB__PLAN_ATTEMPT:
        decide_attempt(d, &m);
        break;
    case SNIB__PLAN_RENEW:
        decide_renewal(d, &m);
        break;
    case SNIB__PLAN_RELEASE:
        decide_release(d, &m);
        break;
    default:
        decide_eviction(d, &m);
        break;
    }
}

/* ---- Writing ---------------------------------------------------------------------------- */

static void keys(char lock[SNIB__KEY_MAX], char fence[SNIB__KEY_MAX], const struct snib__wish *wish)
{
    snib__plain_key(lock, wish->prefix, wish->name);
    snib__plain_fence(fence, wish->prefix, wish->name);
}

static void begin(struct snib__command *c, const char *word, const char *key)
{
    snib__command_begin(c);
    snib__command_text(c, word);
    snib__command_format(c, "%s", key);
}

static void write_lock(struct snib__command *c, const struct snib__decision *d,
                       const struct snib__wish *wish, const char *lock)
{
    char id[SNIB__PLAIN_ID + 1];
    if (d->takes) {
        snib__plain_id(id, wish->id);
        begin(c, "SET", lock);
        snib__command_format(c, "snib:%s:%llu %.180s %s", id, (unsigned long long)d->token,
                             wish->who, wish->label);
        snib__command_text(c, "NX");
        snib__command_text(c, "PX");
        snib__command_number(c, d->ttl_ms);
    } else if (d->extends) {
        begin(c, "PEXPIRE", lock);
        snib__command_number(c, d->ttl_ms);
    } else {
        begin(c, "DEL", lock);
    }
}

static void write_fence(struct snib__command *c, const struct snib__decision *d, const char *fence)
{
    begin(c, "SET", fence);
    snib__command_bytes(c, d->fence, d->fence_size);
    snib__command_text(c, "PX");
    snib__command_number(c, d->fence_ms);
}

static void tell(struct snib__command *c, const struct snib__wish *wish, const char *lock,
                 bool broken)
{
    char channel[SNIB__KEY_MAX];
    if (broken) {
        snib__plain_root(channel, wish->prefix);
        strcat(channel, ":broken");
    } else {
        snib__plain_channel(channel, wish->prefix, wish->name);
    }
    begin(c, "PUBLISH", channel);
    if (broken) {
        snib__command_format(c, "%.180s %s", wish->who, lock);
    } else {
        snib__command_text(c, "0");
    }
}

static bool write_next(struct snib__command *c, const struct snib__decision *d,
                       const struct snib__wish *wish, unsigned index, bool *dispensable)
{
    char lock[SNIB__KEY_MAX], fence[SNIB__KEY_MAX];
    const bool wanted[] = {d->takes || d->extends || d->deletes, d->touches, d->keeps,
                           d->tells_freed, d->tells_broken};
    unsigned which = 0, before = 0;
    for (; which < sizeof wanted / sizeof wanted[0]; which++) {
        if (wanted[which] && before++ == index) {
            break;
        }
    }
    keys(lock, fence, wish);
    *dispensable = which > 2 || (which == 2 && !d->must_keep);
    switch (which) {
    case 0:
        write_lock(c, d, wish, lock);
        return true;
    case 1:
        begin(c, "PEXPIRE", fence);
        snib__command_number(c, d->fence_ms);
        return true;
    case 2:
        write_fence(c, d, fence);
        return true;
    case 3:
    case 4:
        tell(c, wish, lock, which == 4);
        return true;
    default:
        return false;
    }
}

const struct snib__plan snib__plain_plan = {.keys = keys, .decide = decide, .write = write_next};

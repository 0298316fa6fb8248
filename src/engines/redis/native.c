/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The layout `native` on the wire: one lock is one hash, and a script does each step.
 *
 * A script is called by its SHA-1; when the server does not know it (after a restart, a failover,
 * SCRIPT FLUSH), the same request is repeated with the text, which also makes it known. Every
 * script has one key. Attempts carry a not-after time by the server's clock, as soon as that is
 * known: one that was held up on its way is refused instead of leaving a lock nobody wants.
 *
 * What is asked and what is answered is one string each, its numbers packed: texts would cost the
 * server more than everything else. Numbers from the server are taken for what they can be: a lease
 * is never longer than was asked for, and what is left of somebody else's is only shown.
 */
#include "engines/redis/native.h"

#include "engines/redis/packed.h"
#include "engines/redis/script.h"

#include <string.h>

#define TICKET_MS 5000    /* several re-checks: one that is late does not cost the place */
#define PATIENT_MS 25000  /* two of those who ask seldom */
#define HAND_OVER_MS 2500 /* more than a re-check and its jitter: a lost message is noticed */
#define LEFT_MOST_MS (100LL * 365 * 24 * 3600 * 1000)
#define REQUEST_SIZE 55 /* of an attempt, without its texts */

/* ---- Commands --------------------------------------------------------------------------- */

static void begin(struct snib__command *c, const struct snib__script *script,
                  const struct snib__wish *wish)
{
    snib__command_begin(c);
    snib__command_text(c, wish->by_text ? "EVAL" : "EVALSHA");
    if (wish->by_text) {
        snib__command_bytes(c, script->text, script->size);
    } else {
        snib__command_bytes(c, script->sha1, sizeof script->sha1 - 1);
    }
    snib__command_text(c, "1");
    snib__command_format(c, "%s:{%s}", wish->prefix, wish->name);
}

void snib__native_attempt(struct snib__command *c, const struct snib__wish *wish)
{
    static const char modes[] = "xsc";
    const char *inbox = wish->inbox ? wish->inbox : "";
    int64_t hand_over_ms = wish->ttl_ms < HAND_OVER_MS ? wish->ttl_ms : HAND_OVER_MS;
    size_t inbox_size = strnlen(inbox, 255), who_size = strnlen(wish->who, 180);
    size_t label_size = strlen(wish->label);
    begin(c, &snib__native_attempt_script, wish);
    char *start = snib__command_room(c, REQUEST_SIZE + inbox_size + who_size + 1 + label_size);
    char *to = snib__pack_bytes(start, wish->id, SNIB__ID_SIZE);
    *to++ = modes[wish->mode];
    to = snib__pack(to, (uint64_t)wish->ttl_ms, 4);
    to = snib__pack(to, (uint64_t)wish->retention_ms, 4);
    to = snib__pack(to, (uint64_t)wish->not_after_ms, 8);
    to = snib__pack(to, wish->span > 1 ? wish->span : 1, 4);
    to = snib__pack(to, inbox_size, 1);
    to = snib__pack(to, wish->mode == SNIB_COUNTED ? wish->permits : 0, 4);
    to = snib__pack(to, wish->patient ? PATIENT_MS : TICKET_MS, 4);
    to = snib__pack(to, (uint64_t)hand_over_ms, 4);
    to = snib__pack(to, wish->turn, 4);
    to = snib__pack_bytes(to, inbox, inbox_size);
    to = snib__pack_bytes(to, wish->who, who_size);
    *to++ = ' ';
    to = snib__pack_bytes(to, wish->label, label_size);
    snib__command_made(c, (size_t)(to - start));
}

void snib__native_renew(struct snib__command *c, const struct snib__wish *wish)
{
    begin(c, &snib__native_renew_script, wish);
    char *start = snib__command_room(c, SNIB__ID_SIZE + 8);
    char *to = snib__pack_bytes(start, wish->id, SNIB__ID_SIZE);
    to = snib__pack(to, (uint64_t)wish->ttl_ms, 4);
    to = snib__pack(to, (uint64_t)wish->retention_ms, 4);
    snib__command_made(c, (size_t)(to - start));
}

/* What is loose comes only if something is: most often there is nothing to be read. */
void snib__native_release(struct snib__command *c, const struct snib__wish *wish)
{
    begin(c, &snib__native_release_script, wish);
    snib__command_bytes(c, (const char *)wish->id, SNIB__ID_SIZE);
    if (wish->loose_ms) {
        (void)snib__pack(snib__command_room(c, 8), (uint64_t)wish->loose_ms, 8);
        snib__command_made(c, 8);
    }
}

void snib__native_evict(struct snib__command *c, const struct snib__wish *wish)
{
    begin(c, &snib__native_evict_script, wish);
    char *to = snib__pack(snib__command_room(c, 9), wish->token, 8);
    (void)snib__pack(to, wish->force, 1);
    snib__command_made(c, 9);
    snib__command_text(c, wish->who);
    snib__command_format(c, "%s:broken", wish->prefix);
}

/* ---- Answers ---------------------------------------------------------------------------- */

static const struct {
    char letter;
    enum snib__answer_word word;
} words[] = {
    {'H', SNIB__ANSWER_HELD}, {'Q', SNIB__ANSWER_QUEUED}, {'B', SNIB__ANSWER_BUSY},
    {'K', SNIB__ANSWER_KIND}, {'L', SNIB__ANSWER_LATE},   {'D', SNIB__ANSWER_LATE},
    {'G', SNIB__ANSWER_GONE}, {'W', SNIB__ANSWER_LEFT},   {'F', SNIB__ANSWER_DONE},
    {'N', SNIB__ANSWER_NONE}, {'A', SNIB__ANSWER_ASKED},  {'X', SNIB__ANSWER_BROKEN},
};

static bool read_word(enum snib__answer_word *word, char letter)
{
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        if (words[i].letter == letter) {
            *word = words[i].word;
            return true;
        }
    }
    return false;
}

static int64_t read_time(struct snib__packed *p)
{
    return snib__packed_within(p, 8, INT64_MAX);
}

/* What is left of it, as a text; a blank at its end is cut off. */
static void read_text(char out[120], const struct snib__packed *p)
{
    size_t size = p->left < 119 ? p->left : 119;
    memcpy(out, p->at, size);
    out[size] = '\0';
    size = strlen(out);
    if (size > 0 && out[size - 1] == ' ') {
        out[size - 1] = '\0';
    }
}

static void read_rival(struct snib__layout_answer *a, struct snib__packed *p)
{
    a->unfinished = snib__packed_number(p, 1) != 0;
    a->place = (int)snib__packed_within(p, 4, INT32_MAX);
    a->holder_token = (uint64_t)snib__packed_within(p, 8, INT64_MAX);
    a->holder_left_ms = snib__packed_within(p, 4, LEFT_MOST_MS);
    a->now_ms = read_time(p);
    read_text(a->holder, p);
}

bool snib__native_answer(struct snib__layout_answer *a, const struct snib__reply *reply)
{
    struct snib__packed p = snib__packed_from(reply->text, reply->size);
    if (reply->type != REDIS_REPLY_STRING || reply->size == 0 ||
        !read_word(&a->word, (char)snib__packed_number(&p, 1))) {
        return false;
    }
    a->unfinished = false;
    a->now_ms = 0;
    switch (a->word) {
    case SNIB__ANSWER_HELD:
        a->token = (uint64_t)snib__packed_within(&p, 8, INT64_MAX);
        a->left_ms = snib__packed_within(&p, 4, LEFT_MOST_MS);
        a->span = (unsigned)snib__packed_number(&p, 4);
        a->now_ms = read_time(&p);
        return !p.failed && a->token > 0 && a->span > 0;
    case SNIB__ANSWER_QUEUED:
    case SNIB__ANSWER_BUSY:
        read_rival(a, &p);
        return !p.failed;
    case SNIB__ANSWER_KIND:
        a->permits = (unsigned)snib__packed_number(&p, 4);
        a->now_ms = read_time(&p);
        return !p.failed;
    case SNIB__ANSWER_ASKED:
        a->now_ms = read_time(&p);
        a->holder_left_ms = snib__packed_within(&p, 4, LEFT_MOST_MS);
        return !p.failed;
    case SNIB__ANSWER_BROKEN:
        a->now_ms = read_time(&p);
        read_text(a->holder, &p);
        return !p.failed;
    case SNIB__ANSWER_LATE:
        a->now_ms = read_time(&p);
        return !p.failed;
    default: /* to a renewal it is the time alone; a release that found no work does not say it */
        if (p.left > 8) {
            a->unfinished = snib__packed_number(&p, 1) != 0;
        }
        a->now_ms = p.left ? read_time(&p) : 0;
        return !p.failed;
    }
}

/* VERSION ID TOKEN SPAN LEFT TURN KEY */
bool snib__native_grant(struct snib__layout_grant *g, const char *prefix, const char *message,
                        size_t size)
{
    struct snib__packed p = snib__packed_from(message, size);
    uint64_t version = snib__packed_number(&p, 1);
    const char *id = snib__packed_bytes(&p, SNIB__ID_SIZE);
    g->token = (uint64_t)snib__packed_within(&p, 8, INT64_MAX);
    g->span = (unsigned)snib__packed_number(&p, 4);
    g->left_ms = snib__packed_within(&p, 4, LEFT_MOST_MS);
    g->turn = (uint32_t)snib__packed_number(&p, 4);
    if (p.failed || version != SNIB__NATIVE_VERSION || !id) {
        return false;
    }
    memcpy(g->id, id, sizeof g->id);
    /* a text that ends with a zero: replies do */
    return g->token > 0 && g->span > 0 && g->left_ms > 0 && g->turn > 0 && strlen(p.at) == p.left &&
           snib__native_name_of(g->name, prefix, p.at);
}

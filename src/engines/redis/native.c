/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The layout `native` on the wire: one lock is one hash, and a script does each step.
 *
 * A script is called by its SHA-1; when the server does not know it (after a restart, a failover,
 * SCRIPT FLUSH), the same request is repeated with the text, which also makes it known. Every
 * script has one key. Attempts carry a not-after time by the server's clock, as soon as that is
 * known: one that was held up on its way is refused instead of leaving a lock nobody wants.
 *
 * Numbers from the server are taken for what they can be: a lease is never longer than was asked
 * for, and what is left of somebody else's is only shown.
 */
#include "engines/redis/native.h"

#include "engines/redis/script.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TICKET_MS 5000    /* several re-checks: one that is late does not cost the place */
#define PATIENT_MS 25000  /* two of those who ask seldom */
#define HAND_OVER_MS 2500 /* more than a re-check and its jitter: a lost message is noticed */
#define LEFT_MOST_MS (100LL * 365 * 24 * 3600 * 1000)

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
    snib__native_key(c, wish);
    snib__command_text(c, wish->id);
    snib__command_number(c, wish->retention_ms);
}

void snib__native_attempt(struct snib__command *c, const struct snib__wish *wish)
{
    static const char *const modes[] = {"x", "s", "c"};
    begin(c, &snib__native_attempt_script, wish);
    snib__command_text(c, modes[wish->mode]);
    snib__command_number(c, wish->mode == SNIB_COUNTED ? wish->permits : 0);
    snib__command_number(c, wish->ttl_ms);
    snib__command_text(c, wish->inbox ? wish->inbox : "");
    snib__command_number(c, wish->patient ? PATIENT_MS : TICKET_MS);
    snib__command_number(c, wish->ttl_ms < HAND_OVER_MS ? wish->ttl_ms : HAND_OVER_MS);
    snib__command_number(c, wish->not_after_ms);
    snib__command_number(c, wish->span > 1 ? wish->span : 1);
    snib__command_format(c, "%.180s %s", wish->who, wish->label);
}

void snib__native_renew(struct snib__command *c, const struct snib__wish *wish)
{
    begin(c, &snib__native_renew_script, wish);
    snib__command_number(c, wish->ttl_ms);
}

void snib__native_release(struct snib__command *c, const struct snib__wish *wish)
{
    begin(c, &snib__native_release_script, wish);
    snib__command_number(c, wish->loose_ms);
}

void snib__native_evict(struct snib__command *c, const struct snib__wish *wish)
{
    begin(c, &snib__native_evict_script, wish);
    snib__command_number(c, (int64_t)wish->token);
    snib__command_text(c, wish->force ? "1" : "0");
    snib__command_text(c, wish->who);
    snib__command_format(c, "%s:broken", wish->prefix);
}

/* ---- Answers ---------------------------------------------------------------------------- */

/* The word, and at which place of the reply the server's clock is. */
static const struct {
    const char *text;
    enum snib__answer_word word;
    unsigned char now_of_few, now_of_many; /* of a reply with up to four items, and with more */
} words[] = {
    {"HELD", SNIB__ANSWER_HELD, 3, 4},   {"QUEUED", SNIB__ANSWER_QUEUED, 4, 4},
    {"BUSY", SNIB__ANSWER_BUSY, 4, 4},   {"KIND", SNIB__ANSWER_KIND, 2, 2},
    {"LATE", SNIB__ANSWER_LATE, 1, 1},   {"DEAD", SNIB__ANSWER_LATE, 1, 1},
    {"GONE", SNIB__ANSWER_GONE, 1, 1},   {"LEFT", SNIB__ANSWER_LEFT, 1, 1},
    {"FREED", SNIB__ANSWER_DONE, 1, 1},  {"NONE", SNIB__ANSWER_NONE, 1, 1},
    {"ASKED", SNIB__ANSWER_ASKED, 1, 1}, {"BROKEN", SNIB__ANSWER_BROKEN, 1, 1},
};

static int64_t number_within(const struct snib__reply *reply, size_t index, int64_t most)
{
    int64_t number = snib__reply_number(reply, index);
    return number < 0 ? 0 : number > most ? most : number;
}

/* "SINCE WHO LABEL" becomes "WHO LABEL". */
static void read_holder(char out[120], const char *info)
{
    const char *who = strchr(info, ' ');
    snprintf(out, 120, "%s", who ? who + 1 : "");
    size_t size = strlen(out);
    if (size > 0 && out[size - 1] == ' ') {
        out[size - 1] = '\0';
    }
}

static void read_rival(struct snib__layout_answer *a, const struct snib__reply *reply)
{
    a->place = (int)number_within(reply, 1, INT32_MAX);
    a->holder_token = (uint64_t)number_within(reply, 2, INT64_MAX);
    a->holder_left_ms = number_within(reply, 3, LEFT_MOST_MS);
    read_holder(a->holder, snib__reply_text(reply, 5));
    a->unfinished = snib__reply_number(reply, 6) != 0;
}

bool snib__native_answer(struct snib__layout_answer *a, const struct snib__reply *reply)
{
    const char *text = snib__reply_text(reply, 0);
    size_t row = 0;
    if (reply->type != REDIS_REPLY_ARRAY || reply->count < 2) {
        return false;
    }
    while (row < sizeof words / sizeof words[0] && strcmp(words[row].text, text) != 0) {
        row++;
    }
    if (row == sizeof words / sizeof words[0]) {
        return false;
    }
    a->word = words[row].word;
    a->now_ms = snib__reply_number(reply, reply->count > 4 ? words[row].now_of_many
                                                           : words[row].now_of_few);
    a->unfinished = false;
    switch (a->word) {
    case SNIB__ANSWER_HELD:
        a->token = (uint64_t)number_within(reply, 1, INT64_MAX);
        a->left_ms = number_within(reply, 2, LEFT_MOST_MS);
        a->span = reply->count > 4 ? (unsigned)number_within(reply, 3, UINT32_MAX) : 1;
        return a->token > 0;
    case SNIB__ANSWER_QUEUED:
    case SNIB__ANSWER_BUSY:
        read_rival(a, reply);
        return true;
    case SNIB__ANSWER_KIND:
        a->permits = (unsigned)number_within(reply, 1, UINT32_MAX);
        return true;
    case SNIB__ANSWER_ASKED:
        a->holder_left_ms = number_within(reply, 2, LEFT_MOST_MS);
        return true;
    case SNIB__ANSWER_BROKEN:
        snprintf(a->holder, sizeof a->holder, "%s", snib__reply_text(reply, 2));
        return true;
    default:
        a->unfinished = snib__reply_number(reply, 2) != 0;
        return true;
    }
}

/* "ID TOKEN TOKENS LEFT NOW KEY" */
bool snib__native_grant(struct snib__layout_grant *g, const char *prefix, const char *message)
{
    const char *space = strchr(message, ' ');
    size_t size = space ? (size_t)(space - message) : 0;
    char *rest;
    if (size == 0 || size >= sizeof g->id) {
        return false;
    }
    memcpy(g->id, message, size);
    g->id[size] = '\0';
    g->token = strtoull(space + 1, &rest, 10);
    g->span = *rest == ' ' ? (unsigned)strtoul(rest + 1, &rest, 10) : 0;
    g->left_ms = *rest == ' ' ? strtoll(rest + 1, &rest, 10) : 0;
    g->now_ms = *rest == ' ' ? strtoll(rest + 1, &rest, 10) : 0;
    return g->token > 0 && g->span > 0 && g->left_ms > 0 && g->now_ms > 0 && *rest == ' ' &&
           snib__native_name_of(g->name, prefix, rest + 1);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inspecting, listing and breaking.
 *
 * inspect reads one name and shows who is there; list finds the names by SCAN, which disturbs
 * nobody, never by KEYS, and reads them some at a time. A key that is somebody else's is passed
 * over. What was lost with a connection is asked for once more.
 *
 * Breaking asks the holder, and then again and again whether it has gone, until the time of one
 * request is over. Taking away is one script, and is not repeated: the second could not tell what
 * the first one did.
 */
#include "engines/redis/queries.h"

#include "engines/redis/errors.h"
#include "engines/redis/steps.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK_NS (50 * SNIB__MS) /* between two looks at a holder that was asked */
#define TOGETHER 64              /* names asked for at the same time */
#define NAMES_MOST 1000000U      /* of one listing; a server has as many */
#define SCANS_MOST 100000U       /* of a thousand keys each */

static void end(struct snib__search *s)
{
    struct snib__redis *r = s->at;
    int64_t left_ms = snib__node_quarantine_left_ms(&r->node);
    r->session->notice[0] = '\0';
    if (left_ms > 0) {
        snib__quarantine_text(r->session->notice, sizeof r->session->notice, r->settings.where,
                              left_ms);
    }
    snib__list_remove(&s->in_session);
    for (size_t i = 0; i < s->count; i++) {
        free(s->names[i]);
    }
    free(s->names);
    s->names = NULL;
    s->count = s->room = s->asked = s->answered = 0;
    if (s->then) {
        s->then(s);
    } else {
        snib__queries_finish(s);
    }
}

void snib__queries_finish(struct snib__search *s)
{
    snib__finish(s->query, s->code, s->sys, s->why[0] ? s->why : NULL);
}

static void fail(struct snib__redis *r, struct snib__search *s, int code, int sys, const char *why)
{
    if (s->code == 0) {
        s->code = code;
        s->sys = sys;
        snprintf(s->why, sizeof s->why, "%.200s: %.300s", r->settings.where, why);
    }
}

static bool add_name(struct snib__search *s, const char *name)
{
    if (s->count == s->room) {
        size_t room = s->room ? s->room * 2 : 16;
        char **names = realloc(s->names, room * sizeof(char *));
        if (!names) {
            return false;
        }
        s->names = names;
        s->room = room;
    }
    s->names[s->count] = strdup(name);
    return s->names[s->count] && ++s->count;
}

/* ---- Asking ----------------------------------------------------------------------------- */

static bool ask(struct snib__redis *r, struct snib__search *s, const struct snib__redis_call *call,
                const struct snib__command *command)
{
    bool asked = (!s->asking || snib__steps_asking(r)) && snib__node_ask(&r->node, call, command);
    s->under_way += asked;
    return asked;
}

static bool ask_evict(struct snib__redis *r, struct snib__search *s, bool by_text)
{
    struct snib__redis_call call = snib__node_call(&r->node, SNIB__CALL_EVICT, s);
    struct snib__wish wish = snib__wish_for(r, s->query->name, NULL);
    wish.token = s->query->token;
    wish.force = s->query->force;
    wish.who = r->session->who;
    wish.by_text = call.by_text = by_text;
    call.asking = s->asking;
    bool asked = snib__steps_ask(r, SNIB__PLAN_EVICT, &call, &wish);
    s->under_way += asked;
    return asked;
}

static bool ask_scan(struct snib__redis *r, struct snib__search *s, const char *cursor)
{
    struct snib__command command;
    char pattern[2 * SNIB__KEY_MAX];
    struct snib__redis_call call = snib__node_call(&r->node, SNIB__CALL_SCAN, s);
    r->layout->pattern(pattern, r->settings.prefix, s->query->name);
    snprintf(s->cursor, sizeof s->cursor, "%s", cursor);
    snib__command_words(&command, "SCAN", s->cursor, "MATCH", pattern, "COUNT", "1000",
                        (char *)NULL);
    s->scans++;
    return ask(r, s, &call, &command);
}

static bool ask_inspect(struct snib__redis *r, struct snib__search *s, const char *name)
{
    struct snib__wish wish = snib__wish_for(r, name, NULL);
    bool asked = true;
    for (unsigned look = 0; asked && look < r->layout->looks; look++) {
        struct snib__command command;
        struct snib__redis_call call = snib__node_call(&r->node, SNIB__CALL_INSPECT, s);
        r->layout->inspect(&command, &wish, look);
        asked = ask(r, s, &call, &command);
    }
    return asked;
}

/* Ask for more names, or end when nothing is under way. */
static void go_on(struct snib__redis *r, struct snib__search *s)
{
    while (s->code == 0 && s->under_way < TOGETHER && s->asked < s->count) {
        if (!ask_inspect(r, s, s->names[s->asked])) {
            fail(r, s, SNIB_ENOMEM, 0, "out of memory");
            break;
        }
        s->asked++;
    }
    if (s->under_way == 0 && !s->check_ns) {
        end(s);
    }
}

/* ---- Replies ---------------------------------------------------------------------------- */

static int by_text(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* SCAN may show a key twice. */
static void sort_names(struct snib__search *s)
{
    size_t kept = 0;
    if (s->count > 1) {
        qsort(s->names, s->count, sizeof(char *), by_text);
    }
    for (size_t i = 0; i < s->count; i++) {
        if (kept > 0 && strcmp(s->names[kept - 1], s->names[i]) == 0) {
            free(s->names[i]);
        } else {
            s->names[kept++] = s->names[i];
        }
    }
    s->count = kept;
}

static void add_names(struct snib__redis *r, struct snib__search *s, const struct snib__reply *keys)
{
    char name[SNIB__KEY_MAX];
    for (size_t i = 0; s->code == 0 && i < keys->count; i++) {
        if (!r->layout->name_of(name, r->settings.prefix, snib__reply_text(keys, i)) ||
            strncmp(name, s->query->name, strlen(s->query->name)) != 0) {
            continue; /* a server may show whatever it likes */
        }
        if (s->count >= NAMES_MOST) {
            fail(r, s, SNIB_EPROTO, 0, "more names than a list can have: ask for a prefix");
        } else if (!add_name(s, name)) {
            fail(r, s, SNIB_ENOMEM, 0, "out of memory");
        }
    }
}

static void on_scan(struct snib__redis *r, struct snib__search *s, const struct snib__reply *reply)
{
    s->cursor[0] = '\0';
    if (reply->type != REDIS_REPLY_ARRAY || reply->count != 2) {
        fail(r, s, SNIB_EPROTO, 0, "the server answered something else than was asked");
    } else {
        add_names(r, s, reply->items[1]);
    }
    const char *cursor = snib__reply_text(reply, 0);
    if (s->code == 0 && cursor[0] && strcmp(cursor, "0") != 0) {
        if (s->scans >= SCANS_MOST) {
            fail(r, s, SNIB_EPROTO, 0, "the server's SCAN does not come to an end");
        } else if (ask_scan(r, s, cursor)) {
            return;
        } else {
            fail(r, s, SNIB_ENOMEM, 0, "out of memory");
        }
    }
    sort_names(s);
    go_on(r, s);
}

static void show(void *arg, const snib_seen *seen)
{
    snib__seen(arg, seen);
}

static void on_inspect(struct snib__redis *r, struct snib__search *s,
                       const struct snib__reply *reply)
{
    if (s->look + 1 < r->layout->looks) {
        s->numbers[s->look++] =
            reply->type == REDIS_REPLY_STRING ? strtoll(reply->text, NULL, 10) : reply->integer;
        return;
    }
    const char *name = s->names[s->answered++];
    s->look = 0;
    int code = r->layout->show(reply, s->numbers, name, &r->node.clock, show, s->query);
    if (code == SNIB_ENOMEM) {
        fail(r, s, SNIB_ENOMEM, 0, "out of memory");
    } else if (code < 0 && !s->query->prefix) { /* in a list it is passed over */
        fail(r, s, code, 0,
             "this lock was written by another version of snib, or by another program: look at it "
             "with that one");
    }
}

/* Its holder was asked. Ask again in a while how it stands; asking twice is asking once. */
static void wait_for_holder(struct snib__redis *r, struct snib__search *s, int64_t left_ms)
{
    char why[160];
    int64_t now_ns = snib__now().boot_ns;
    if (!s->asked_for) {
        s->asked_for = true;
        s->due_ns = snib__later(now_ns, r->session->timeout_ms * SNIB__MS);
    }
    s->left_ms = left_ms;
    if (now_ns < s->due_ns) {
        s->check_ns = snib__later(now_ns, CHECK_NS);
        return;
    }
    snprintf(why, sizeof why,
             "its holder was asked to give it up; it has it for %.1f s at the most",
             (double)left_ms / 1000);
    fail(r, s, SNIB_EBUSY, 0, why);
}

static void on_evict(struct snib__redis *r, struct snib__search *s, const struct snib__reply *reply)
{
    struct snib__layout_answer answer;
    bool known = r->layout->answer(&answer, reply);
    if (known && answer.word == SNIB__ANSWER_ASKED) {
        wait_for_holder(r, s, answer.holder_left_ms);
    } else if (known && answer.word == SNIB__ANSWER_BUSY) {
        fail(r, s, SNIB_ENOTSUP, 0,
             "its holder is another program, which cannot be asked; it can be taken away by force");
    } else if (!known || (answer.word != SNIB__ANSWER_GONE && !s->asked_for)) {
        fail(r, s, SNIB_ELOST, 0, "nobody holds it with that token");
    }
}

int64_t snib__queries_keep_time(struct snib__redis *r, int64_t now_ns)
{
    int64_t next_ns = SNIB__NEVER;
    struct snib__list *after;
    for (struct snib__list *l = r->searches.after; l != &r->searches; l = after) {
        struct snib__search *s = SNIB__OF(l, struct snib__search, in_session);
        after = l->after;
        if (s->check_ns && s->check_ns <= now_ns) {
            s->check_ns = 0;
            if (!ask_evict(r, s, false)) {
                fail(r, s, SNIB_ENOMEM, 0, "out of memory");
                end(s);
            }
        } else if (s->check_ns && s->check_ns < next_ns) {
            next_ns = s->check_ns;
        }
    }
    return next_ns;
}

static void on_error(struct snib__redis *r, struct snib__search *s,
                     const struct snib__redis_call *call, const char *text)
{
    struct snib__error error = snib__error_read(text);
    if (error.kind == SNIB__ERROR_NO_SCRIPT && !call->by_text && ask_evict(r, s, true)) {
        return;
    }
    if (error.kind == SNIB__ERROR_KIND && call->kind == SNIB__CALL_INSPECT && s->query->prefix) {
        if (++s->look >= r->layout->looks) { /* somebody else's key under our prefix */
            s->answered++;
            s->look = 0;
        }
        return;
    }
    if (error.kind == SNIB__ERROR_MOVED) {
        snib__node_leave(&r->node, text);
    }
    char said[SNIB__ERROR_SAID], foreign[SNIB__FOREIGN_SIZE];
    snib__error_say(said, text);
    fail(r, s, error.code, 0,
         error.kind == SNIB__ERROR_KIND
             ? snib__foreign_text(foreign, r->layout, r->settings.prefix, s->query->name)
             : said);
}

void snib__queries_reply(struct snib__redis *r, struct snib__redis_call *call,
                         const struct snib__reply *reply)
{
    struct snib__search *s = call->subject;
    if (!s) {
        return;
    }
    s->under_way--;
    if (reply->type == REDIS_REPLY_ERROR) {
        on_error(r, s, call, reply->text);
    } else if (call->kind == SNIB__CALL_EVICT) {
        on_evict(r, s, reply);
    } else if (call->kind == SNIB__CALL_SCAN) {
        on_scan(r, s, reply);
        return;
    } else {
        on_inspect(r, s, reply);
    }
    go_on(r, s);
}

/* ---- Calls that were lost --------------------------------------------------------------- */

static void ask_again(struct snib__redis *r, struct snib__search *s)
{
    char cursor[sizeof s->cursor];
    s->cut = false;
    s->repeated = true;
    s->asked = s->answered;
    s->look = 0;
    strcpy(cursor, s->cursor);
    if (cursor[0]) {
        if (ask_scan(r, s, cursor)) {
            return; /* no name is asked for before all of them are known */
        }
        fail(r, s, SNIB_ENOMEM, 0, "out of memory");
    }
    go_on(r, s);
}

static int code_of(const struct snib__redis *r, enum snib__loss how)
{
    switch (how) {
    case SNIB__LOSS_UNREACHED:
        return SNIB_EUNREACH;
    case SNIB__LOSS_DENIED:
        return r->node.greeting.error.code;
    case SNIB__LOSS_ALIEN:
        return SNIB_EPROTO;
    default:
        return SNIB_EUNKNOWN;
    }
}

void snib__queries_lost(struct snib__redis *r, struct snib__redis_call *call, enum snib__loss how)
{
    struct snib__search *s = call->subject;
    bool may_repeat = how == SNIB__LOSS_CUT || how == SNIB__LOSS_UNSENT;
    call->subject = NULL;
    s->under_way--;
    if (may_repeat && !s->repeated && call->kind != SNIB__CALL_EVICT) {
        s->cut = true;
    } else {
        fail(r, s, code_of(r, how), r->node.connection.sys, snib__node_why(&r->node, how));
    }
    if (s->under_way == 0 && s->cut) {
        ask_again(r, s);
    } else if (s->under_way == 0) {
        end(s);
    }
}

/* ---- Submitting ------------------------------------------------------------------------- */

void snib__queries_begin(struct snib__redis *r, struct snib__query *query, bool evict)
{
    struct snib__search *s = query->state;
    bool idle = snib__node_idle(&r->node);
    bool asked;
    s->query = query;
    s->at = r;
    snib__list_append(&r->searches, &s->in_session);
    if (evict) {
        asked = ask_evict(r, s, false);
    } else if (query->prefix) {
        asked = ask_scan(r, s, "0");
    } else {
        asked = s->count > 0 || add_name(s, query->name);
    }
    if (!asked) {
        fail(r, s, SNIB_ENOMEM, 0, "out of memory");
    }
    go_on(r, s); /* also ends it when nothing could be asked */
    if (idle) {
        snib__node_flush(&r->node);
    }
}

void snib__queries_move(struct snib__search *s, struct snib__redis *to, bool asking)
{
    if (--s->under_way > 0) {
        return;
    }
    bool evict = s->count == 0;
    s->asking = asking;
    s->asked = s->answered = 0;
    s->look = 0;
    snib__list_remove(&s->in_session);
    snib__queries_begin(to, s->query, evict);
}

void snib__queries_inspect(struct snib__query *query)
{
    snib__queries_begin(snib__redis_of(query->session), query, false);
}

void snib__queries_evict(struct snib__query *query)
{
    snib__queries_begin(snib__redis_of(query->session), query, true);
}

void snib__queries_close(struct snib__redis *r)
{
    struct snib__list *after;
    for (struct snib__list *l = r->searches.after; l != &r->searches; l = after) {
        struct snib__search *s = SNIB__OF(l, struct snib__search, in_session);
        after = l->after;
        fail(r, s, SNIB_ECANCELED, 0, "closed");
        end(s);
    }
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inspecting, listing and breaking, over all servers.
 *
 * Whose a lock is, a majority says. If no majority answers nobody knows, and that is the answer,
 * with the servers that are missing: never "free". Who has a part of a lock that is no majority,
 * also with those that did not answer, does not hold it and is not shown.
 *
 * Breaking asks the holder at all servers, and then again and again whether it has gone.
 */
#include "engines/redlock/queries.h"

#include "engines/redis/errors.h"
#include "engines/redlock/bids.h"
#include "engines/redlock/servers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK_NS (50 * SNIB__MS) /* between two looks at a holder that was asked */
#define TOGETHER 64              /* names asked for at the same time */
#define NAMES_MOST 1000000U
#define SCANS_MOST 100000U

struct snib__view {
    bool answered, held;
    int64_t majority_ms; /* how long so many keep it; 0: not known */
    int64_t numbers[SNIB__LOOKS];
    char who[128], label[SNIB__LABEL_MAX + 4];
    snib_seen seen;
};

static void go_on(struct snib__redlock *r, struct snib__survey *v);

static void end(struct snib__survey *v, int code)
{
    struct snib__redlock *r = snib__redlock_of(v->query->session);
    for (unsigned i = 0; i < r->count; i++) {
        snib__node_drop(&r->servers[i].node, v);
    }
    snib__list_remove(&v->in_session);
    for (size_t i = 0; i < v->count; i++) {
        free(v->names[i]);
    }
    free(v->names);
    free(v->views);
    v->names = NULL;
    v->views = NULL;
    v->count = 0;
    snib__finish(v->query, code, 0, v->why[0] ? v->why : NULL);
}

static void fail(struct snib__survey *v, int code, const char *why)
{
    snprintf(v->why, sizeof v->why, "%s", why);
    end(v, code);
}

/* No majority has answered: nobody knows. */
static void fail_unknown(struct snib__redlock *r, struct snib__survey *v)
{
    bool missing[SNIB__SERVERS_MOST] = {false};
    unsigned answered = 0;
    char which[340];
    for (unsigned i = 0; i < r->count; i++) {
        missing[i] = v->state[i] != SNIB__SURVEY_DONE;
        answered += !missing[i];
    }
    snib__servers_explain(which, sizeof which, r, missing);
    snprintf(v->why, sizeof v->why, "unknown: %u of %u servers answered, %u are needed; not %s",
             answered, r->count, snib__redlock_quorum(r), which);
    end(v, v->code ? v->code : SNIB_EUNREACH);
}

static bool add_name(struct snib__survey *v, const char *name)
{
    if (v->count == v->room) {
        size_t room = v->room ? v->room * 2 : 16;
        char **names = realloc(v->names, room * sizeof(char *));
        if (!names) {
            return false;
        }
        v->names = names;
        v->room = room;
    }
    v->names[v->count] = strdup(name);
    return v->names[v->count] && ++v->count;
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static void sort_names(struct snib__survey *v)
{
    size_t kept = 0;
    if (v->count > 1) {
        qsort(v->names, v->count, sizeof(char *), by_text);
    }
    for (size_t i = 0; i < v->count; i++) {
        if (kept > 0 && strcmp(v->names[kept - 1], v->names[i]) == 0) {
            free(v->names[i]);
        } else {
            v->names[kept++] = v->names[i];
        }
    }
    v->count = kept;
}

/* ---- Asking ----------------------------------------------------------------------------- */

static void ask(struct snib__server *s, struct snib__survey *v, struct snib__redis_call *call,
                const struct snib__command *command)
{
    call->turn = v->turn;
    if (snib__node_ask(&s->node, call, command)) {
        v->under_way[s->index]++;
    } else {
        v->state[s->index] = SNIB__SURVEY_FAILED;
        snprintf(s->trouble, sizeof s->trouble, "out of memory");
    }
}

static void ask_scan(struct snib__server *s, struct snib__survey *v, const char *cursor)
{
    struct snib__command command;
    char pattern[2 * SNIB__KEY_MAX];
    struct snib__redis_call call = snib__node_call(&s->node, SNIB__VOTE_SEARCH, v);
    s->session->layout->pattern(pattern, s->settings.prefix, v->query->name);
    snib__command_words(&command, "SCAN", cursor, "MATCH", pattern, "COUNT", "1000", (char *)NULL);
    v->scanned[s->index]++;
    ask(s, v, &call, &command);
}

static void ask_names(struct snib__server *s, struct snib__survey *v)
{
    const struct snib__layout *layout = s->session->layout;
    for (size_t i = 0; i < v->batch; i++) {
        struct snib__wish wish = snib__redlock_wish(s->session, v->names[v->first + i], NULL);
        for (unsigned look = 0; look < layout->looks; look++) {
            struct snib__command command;
            struct snib__redis_call call = snib__node_call(&s->node, SNIB__VOTE_SEARCH, v);
            call.step = (unsigned char)look;
            call.index = (unsigned char)i;
            layout->inspect(&command, &wish, look);
            ask(s, v, &call, &command);
        }
    }
}

static void ask_evict(struct snib__server *s, struct snib__survey *v, bool text)
{
    struct snib__command command;
    struct snib__redis_call call = snib__node_call(&s->node, SNIB__VOTE_SEARCH, v);
    struct snib__wish wish = snib__redlock_wish(s->session, v->query->name, NULL);
    wish.token = v->query->token;
    wish.force = v->query->force;
    wish.who = s->session->session->who;
    wish.by_text = call.by_text = text;
    s->session->layout->evict(&command, &wish);
    ask(s, v, &call, &command);
}

/* All servers, the next thing. */
static void ask_all(struct snib__redlock *r, struct snib__survey *v)
{
    int64_t now_ns = snib__now().boot_ns;
    v->turn++;
    v->check_ns = SNIB__NEVER;
    v->late_ns = snib__redlock_due_ns(r);
    v->due_ns = snib__later(now_ns, r->session->timeout_ms * SNIB__MS);
    v->asked = v->gone = v->strange = v->answered = 0;
    for (unsigned i = 0; i < r->count; i++) {
        struct snib__server *s = &r->servers[i];
        v->under_way[i] = 0;
        v->state[i] = SNIB__SURVEY_ASKED;
        if (v->evicts) {
            ask_evict(s, v, false);
        } else if (v->scans) {
            ask_scan(s, v, "0");
        } else {
            ask_names(s, v);
        }
        snib__node_flush(&s->node);
    }
    snib__redlock_wake_by(r, v->late_ns);
}

/* ---- What a majority says --------------------------------------------------------------- */

static bool same(const struct snib__redlock *r, const struct snib__view *a,
                 const struct snib__view *b)
{
    bool fenced = r->session->values[SNIB__REDLOCK_FENCING].number != 0;
    return strcmp(a->who, b->who) == 0 && strcmp(a->label, b->label) == 0 &&
           (a->seen.token == b->seen.token || !fenced);
}

/* Who has this name at a majority, or may have, with those that did not answer. */
static void show(struct snib__redlock *r, struct snib__survey *v, size_t index)
{
    struct snib__view *views = v->views + index * r->count, *best = NULL;
    unsigned missing = 0, most = 0;
    for (unsigned i = 0; i < r->count; i++) {
        unsigned count = 0;
        missing += v->state[i] != SNIB__SURVEY_DONE;
        for (unsigned k = 0; views[i].held && k < r->count; k++) {
            count += views[k].held && same(r, &views[i], &views[k]);
        }
        if (count > most) {
            most = count;
            best = &views[i];
        }
    }
    if (!best || most + missing < snib__redlock_quorum(r)) {
        return;
    }
    for (unsigned i = 0; i < r->count; i++) { /* until the majority of them is over */
        unsigned as_long = 0;
        if (!views[i].held || !same(r, best, &views[i])) {
            continue;
        }
        for (unsigned k = 0; k < r->count; k++) {
            as_long += views[k].held && same(r, best, &views[k]) &&
                       views[k].seen.left_ms >= views[i].seen.left_ms;
        }
        if (as_long >= snib__redlock_quorum(r) && views[i].seen.left_ms > best->majority_ms) {
            best->majority_ms = views[i].seen.left_ms;
        }
        best->seen.token =
            views[i].seen.token > best->seen.token ? views[i].seen.token : best->seen.token;
    }
    best->seen.left_ms = best->majority_ms ? best->majority_ms : best->seen.left_ms;
    best->seen.who = best->who;
    best->seen.label = best->label;
    best->seen.name = v->names[v->first + index];
    snib__seen(v->query, &best->seen);
}

static void next_batch(struct snib__redlock *r, struct snib__survey *v)
{
    v->first += v->batch;
    v->batch = v->count - v->first < TOGETHER ? v->count - v->first : TOGETHER;
    free(v->views);
    v->views = v->batch ? calloc(v->batch * r->count, sizeof *v->views) : NULL;
    if (v->batch == 0) {
        end(v, SNIB_OK);
    } else if (!v->views) {
        fail(v, SNIB_ENOMEM, "out of memory");
    } else {
        ask_all(r, v);
    }
}

static void conclude_evict(struct snib__redlock *r, struct snib__survey *v)
{
    int64_t now_ns = snib__now().boot_ns;
    unsigned quorum = snib__redlock_quorum(r);
    char why[200];
    if (v->asked > 0 && v->asked + (r->count - v->answered) >= quorum && !v->query->force) {
        v->give_up_ns =
            v->give_up_ns ? v->give_up_ns : snib__later(now_ns, r->session->timeout_ms * SNIB__MS);
        if (now_ns < v->give_up_ns) {
            v->check_ns = snib__later(now_ns, CHECK_NS);
            v->late_ns = v->due_ns = SNIB__NEVER;
            return;
        }
        snprintf(why, sizeof why,
                 "its holder was asked to give it up; it has it for %.1f s at the most",
                 (double)v->left_ms / 1000);
        fail(v, SNIB_EBUSY, why);
    } else if (v->strange > 0 && v->asked == 0 && v->gone == 0) {
        fail(v, SNIB_ENOTSUP,
             "its holder is another program, which cannot be asked; it can be taken away by force");
    } else if (v->gone > 0 || v->give_up_ns || v->asked > 0) {
        end(v, SNIB_OK);
    } else {
        fail(v, SNIB_ELOST, "nobody holds it with that token");
    }
}

/* Nothing more is waited for. */
static void conclude(struct snib__redlock *r, struct snib__survey *v)
{
    unsigned done = 0;
    for (unsigned i = 0; i < r->count; i++) {
        done += v->state[i] == SNIB__SURVEY_DONE;
    }
    if (done < snib__redlock_quorum(r)) {
        fail_unknown(r, v);
    } else if (v->evicts) {
        conclude_evict(r, v);
    } else if (v->scans) {
        v->scans = false;
        sort_names(v);
        next_batch(r, v);
    } else {
        for (size_t i = 0; i < v->batch; i++) {
            show(r, v, i);
        }
        next_batch(r, v);
    }
}

static void go_on(struct snib__redlock *r, struct snib__survey *v)
{
    for (unsigned i = 0; i < r->count; i++) {
        if (v->state[i] == SNIB__SURVEY_ASKED && !r->servers[i].silent) {
            return;
        }
    }
    unsigned done = 0, silent = 0;
    for (unsigned i = 0; i < r->count; i++) {
        done += v->state[i] == SNIB__SURVEY_DONE;
        silent += v->state[i] == SNIB__SURVEY_ASKED;
    }
    if (done >= snib__redlock_quorum(r) || silent == 0) {
        conclude(r, v);
    }
}

/* ---- Replies ---------------------------------------------------------------------------- */

static void on_scan(struct snib__server *s, struct snib__survey *v, const struct snib__reply *reply)
{
    char name[SNIB__KEY_MAX];
    const struct snib__reply *keys = reply->count == 2 ? reply->items[1] : NULL;
    for (size_t i = 0; keys && i < keys->count && v->count < NAMES_MOST; i++) {
        if (s->session->layout->name_of(name, s->settings.prefix, snib__reply_text(keys, i)) &&
            strncmp(name, v->query->name, strlen(v->query->name)) == 0) {
            (void)add_name(v, name);
        }
    }
    const char *cursor = snib__reply_text(reply, 0);
    if (keys && cursor[0] && strcmp(cursor, "0") != 0 && v->scanned[s->index] < SCANS_MOST) {
        ask_scan(s, v, cursor);
        snib__node_flush(&s->node);
    }
}

static void keep(void *arg, const snib_seen *seen)
{
    struct snib__view *view = arg;
    view->held = true;
    view->seen = *seen;
    snprintf(view->who, sizeof view->who, "%s", seen->who);
    snprintf(view->label, sizeof view->label, "%s", seen->label);
}

static void on_look(struct snib__server *s, struct snib__survey *v,
                    const struct snib__redis_call *call, const struct snib__reply *reply)
{
    const struct snib__layout *layout = s->session->layout;
    struct snib__view *view = v->views + call->index * s->session->count + s->index;
    if (call->step + 1U < layout->looks) {
        view->numbers[call->step] =
            reply->type == REDIS_REPLY_STRING ? strtoll(reply->text, NULL, 10) : reply->integer;
        return;
    }
    view->answered = true;
    (void)layout->show(reply, view->numbers, v->names[v->first + call->index], &s->node.clock, keep,
                       view);
}

static void on_evict(struct snib__server *s, struct snib__survey *v,
                     const struct snib__reply *reply)
{
    struct snib__layout_answer a;
    if (!s->session->layout->answer(&a, reply)) {
        return;
    }
    v->answered++;
    v->asked += a.word == SNIB__ANSWER_ASKED;
    v->gone += a.word == SNIB__ANSWER_GONE;
    v->strange += a.word == SNIB__ANSWER_BUSY;
    if (a.word == SNIB__ANSWER_ASKED && a.holder_left_ms > v->left_ms) {
        v->left_ms = a.holder_left_ms;
    }
}

/* The server's trouble says why. */
static void refuse(struct snib__server *s, struct snib__survey *v, int code)
{
    v->state[s->index] = SNIB__SURVEY_FAILED;
    v->code = code ? code : v->code;
}

static void on_error(struct snib__server *s, struct snib__survey *v,
                     const struct snib__redis_call *call, const char *text)
{
    struct snib__error error = snib__error_read(text);
    char said[SNIB__ERROR_SAID], foreign[SNIB__FOREIGN_SIZE];
    if (v->evicts && error.kind == SNIB__ERROR_NO_SCRIPT && !call->by_text) {
        ask_evict(s, v, true);
        snib__node_flush(&s->node);
        return;
    }
    if (error.kind == SNIB__ERROR_KIND && !v->evicts && v->query->prefix) {
        return; /* somebody else's key under our prefix */
    }
    snib__error_say(said, text);
    snprintf(s->trouble, sizeof s->trouble, "%.239s",
             error.kind == SNIB__ERROR_KIND ? snib__foreign_text(foreign, s->session->layout,
                                                                 s->settings.prefix, v->query->name)
                                            : said);
    refuse(s, v, error.code);
}

void snib__survey_reply(struct snib__server *s, struct snib__redis_call *call,
                        const struct snib__reply *reply)
{
    struct snib__survey *v = call->subject;
    if (!v || call->turn != v->turn) {
        return;
    }
    v->under_way[s->index]--;
    if (reply->type == REDIS_REPLY_ERROR) {
        on_error(s, v, call, reply->text);
    } else if (v->evicts) {
        on_evict(s, v, reply);
    } else if (v->scans) {
        on_scan(s, v, reply);
    } else {
        on_look(s, v, call, reply);
    }
    if (v->under_way[s->index] == 0 && v->state[s->index] == SNIB__SURVEY_ASKED) {
        struct snib__server *twin = snib__server_twin(s);
        v->state[s->index] = SNIB__SURVEY_DONE;
        s->trouble[0] = '\0';
        if (twin) {
            char why[400];
            snib__server_twin_text(why, sizeof why, s, twin);
            fail(v, SNIB_EUNSAFE, why);
            return;
        }
    }
    go_on(s->session, v);
}

void snib__survey_lost(struct snib__server *s, struct snib__redis_call *call, enum snib__loss how)
{
    struct snib__survey *v = call->subject;
    call->subject = NULL;
    if (!v || call->turn != v->turn) {
        return;
    }
    v->under_way[s->index]--;
    if (v->state[s->index] == SNIB__SURVEY_ASKED) {
        snib__server_unheard(s, snib__node_why(&s->node, how));
        refuse(s, v, how == SNIB__LOSS_DENIED ? s->node.greeting.error.code : 0);
    }
    go_on(s->session, v);
}

int64_t snib__survey_keep_time(struct snib__redlock *r, int64_t now_ns)
{
    int64_t next_ns = SNIB__NEVER;
    struct snib__list *after;
    for (struct snib__list *l = r->searches.after; l != &r->searches; l = after) {
        struct snib__survey *v = SNIB__OF(l, struct snib__survey, in_session);
        after = l->after;
        int64_t at_ns = v->check_ns < v->late_ns ? v->check_ns : v->late_ns;
        at_ns = v->due_ns < at_ns ? v->due_ns : at_ns;
        if (at_ns > now_ns || at_ns > r->polled_ns) {
            next_ns = at_ns < next_ns ? at_ns : next_ns;
            continue;
        }
        next_ns = now_ns;
        if (v->check_ns <= now_ns) {
            ask_all(r, v);
            continue;
        }
        bool due = v->due_ns <= now_ns;
        v->late_ns = SNIB__NEVER;
        for (unsigned i = 0; i < r->count; i++) {
            if (v->state[i] == SNIB__SURVEY_ASKED) {
                snib__server_unheard(&r->servers[i], "no answer in time");
            }
        }
        if (due) {
            conclude(r, v);
        } else {
            go_on(r, v);
        }
    }
    return next_ns;
}

/* ---- Submitting ------------------------------------------------------------------------- */

static void submit(struct snib__query *query, bool evicts)
{
    struct snib__redlock *r = snib__redlock_of(query->session);
    struct snib__survey *v = query->state;
    v->query = query;
    v->evicts = evicts;
    v->scans = query->prefix;
    snib__list_append(&r->searches, &v->in_session);
    if (evicts || v->scans) {
        ask_all(r, v);
    } else if (add_name(v, query->name)) {
        next_batch(r, v);
    } else {
        fail(v, SNIB_ENOMEM, "out of memory");
    }
}

void snib__survey_inspect(struct snib__query *query)
{
    submit(query, false);
}

void snib__survey_evict(struct snib__query *query)
{
    submit(query, true);
}

void snib__survey_close(struct snib__redlock *r)
{
    while (!snib__list_empty(&r->searches)) {
        fail(SNIB__OF(r->searches.after, struct snib__survey, in_session), SNIB_ECANCELED,
             "closed");
    }
}

int snib__survey_rights(const struct snib__session *session, char *out, size_t size)
{
    const struct snib__redlock *r = snib__redlock_of(session);
    const char *user = session->url->user;
    char prefix[2 * SNIB__KEY_MAX], reach[SNIB_RIGHTS_SIZE];
    snib__pattern_escape(prefix, r->servers[0].settings.prefix);
    r->layout->reach(reach, sizeof reach, prefix, r->database);
    return snprintf(out, size,
                    "ACL SETUSER %s on >PASSWORD resetkeys resetchannels -@all %s %s "
                    "+subscribe +ping +info +client|setname +scan%s%s",
                    user[0] ? user : "snib", reach, r->layout->commands,
                    strcmp(r->database, "0") != 0 ? " +select" : "",
                    r->servers[0].settings.quarantine.off ? "" : " +config|get");
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * inspect, list, break.
 *
 * A list of the locks, if a prefix is asked for; then, lock by lock, its children and what is in
 * each of them. Somebody may go between the list and the look: then it is not shown, and who was
 * behind it is shown as what it is without it. A connection that is lost begins the present lock
 * again. In a list, a lock that may not be read is left out.
 *
 * To break a lock is to ask its holder: a line is added to what its node says, which it reads at
 * its next renewal, or at once if it listens. Then its node is watched until it is gone. By force
 * the node is deleted.
 */
#include "engines/zookeeper/queries.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Beginning and end -------------------------------------------------------------------- */

static void forget_sights(struct snib__zk_look *look)
{
    for (size_t i = 0; i < look->sight_count; i++) {
        free(look->sights[i].data);
    }
    free(look->sights);
    look->sights = NULL;
    look->sight_count = 0;
}

void snib__zk_look_finish(struct snib__zk *z, struct snib__zk_look *look, int code, const char *why)
{
    snib__list_remove(&look->link);
    if (look->under_way) {
        snib__zk_link_forget(&z->at.link, look);
    }
    forget_sights(look);
    for (size_t i = 0; i < look->name_count; i++) {
        free(look->names[i]);
    }
    free(look->names);
    snib__finish(look->query, code, code == SNIB_EUNREACH ? z->at.link.sys : 0, why);
}

static bool add_name(struct snib__zk_look *look, const char *name)
{
    if (look->name_count == look->name_room) {
        size_t room = look->name_room ? 2 * look->name_room : 8;
        char **names = realloc(look->names, room * sizeof *names);
        if (!names) {
            return false;
        }
        look->names = names;
        look->name_room = room;
    }
    look->names[look->name_count] = strdup(name);
    return look->names[look->name_count] && ++look->name_count;
}

static const char *base_path(const struct snib__zk *z)
{
    return z->base[0] ? z->base : "/";
}

static void asked(struct snib__zk *z, struct snib__zk_look *look, bool done)
{
    if (done) {
        look->under_way++;
        look->asked = true;
    } else {
        snib__zk_link_end(&z->at.link, 0, "out of memory");
    }
}

/* ---- Telling ------------------------------------------------------------------------------ */

static int by_number(const void *a, const void *b)
{
    const struct snib__zk_sight *x = a, *y = b;
    return (x->what.sequence > y->what.sequence) - (x->what.sequence < y->what.sequence);
}

/* Drop those that went meanwhile; say of the others who holds. */
static void sort_out(struct snib__zk_look *look)
{
    size_t n = 0;
    unsigned before = 0, writers = 0;
    for (size_t i = 0; i < look->sight_count; i++) {
        if (look->sights[i].there) {
            struct snib__zk_sight keep = look->sights[i];
            look->sights[i] = look->sights[n];
            look->sights[n++] = keep;
        }
    }
    for (size_t i = n; i < look->sight_count; i++) {
        free(look->sights[i].data);
    }
    look->sight_count = n;
    if (n > 0) {
        qsort(look->sights, n, sizeof look->sights[0], by_number);
    }
    for (size_t i = 0; i < n; i++, before++) {
        struct snib__zk_sight *s = &look->sights[i];
        bool reads = snib__zk_reads(s->what.sort);
        unsigned room = s->what.sort == SNIB__ZK_PERMIT ? s->what.permits : 1;
        s->holds = reads ? writers == 0 : before < room;
        writers += reads ? 0 : 1;
        if (reads && look->record.token) {
            s->token = look->record.token;
        }
    }
}

static void tell(struct snib__zk_look *look, const char *name)
{
    int place = 0;
    for (int pass = 0; pass < 2; pass++) {
        for (size_t i = 0; i < look->sight_count; i++) {
            const struct snib__zk_sight *s = &look->sights[i];
            if (s->holds != (pass == 0)) {
                continue;
            }
            bool counted = s->what.sort == SNIB__ZK_PERMIT;
            snib_seen seen = {
                .size = sizeof seen,
                .name = name,
                .who = s->owner.who,
                .label = s->owner.label,
                .token = s->holds ? s->token : 0,
                .mode = counted                        ? SNIB_COUNTED
                        : snib__zk_reads(s->what.sort) ? SNIB_SHARED
                                                       : SNIB_EXCLUSIVE,
                .place = s->holds ? 0 : ++place,
                .permits = counted ? s->what.permits : 1,
                .since_unix_ms = s->since_ms,
                .left_ms = -1,
            };
            snib__seen(look->query, &seen);
        }
    }
}

/* ---- Breaking ----------------------------------------------------------------------------- */

static void sight_path(struct snib__zk *z, struct snib__zk_look *look, size_t i,
                       char out[SNIB__ZK_PATH_ROOM])
{
    char lock[SNIB__ZK_PATH_ROOM];
    snib__zk_lock_path(z, look->names[look->name_at], lock);
    snprintf(out, SNIB__ZK_PATH_ROOM, "%.940s/%s", lock, look->sights[i].node);
}

static void choose_victims(struct snib__zk *z, struct snib__zk_look *look)
{
    size_t count = 0;
    for (size_t i = 0; i < look->sight_count; i++) {
        struct snib__zk_sight *s = &look->sights[i];
        s->awaited = s->holds && s->token == look->query->token;
        count += s->awaited ? 1 : 0;
    }
    if (count == 0) {
        snib__zk_look_finish(z, look, SNIB_ELOST, "not held with that token");
        return;
    }
    look->stage = SNIB__ZK_LOOK_MARK;
    snib__zk_look_step(z, look);
}

static void ask_mark(struct snib__zk *z, struct snib__zk_look *look)
{
    char path[SNIB__ZK_PATH_ROOM], data[SNIB__ZK_DATA_ROOM];
    for (size_t i = 0; i < look->sight_count; i++) {
        const struct snib__zk_sight *s = &look->sights[i];
        struct snib__zk_text text = {.at = s->data, .size = s->data ? strlen(s->data) : 0};
        if (!s->awaited) {
            continue;
        }
        sight_path(z, look, i, path);
        if (look->query->force) {
            asked(z, look, snib__zk_ask_delete(&z->at, SNIB__ZK_ASK_TAKE, look, path));
        } else if (snib__zk_owner_mark(text, z->who, data)) {
            asked(z, look, snib__zk_ask_set(&z->at, SNIB__ZK_ASK_MARK, look, path, data, -1));
        }
    }
    if (look->under_way == 0) { /* marked already */
        look->stage = SNIB__ZK_LOOK_STAYS;
        snib__zk_look_step(z, look);
    }
}

static void ask_stays(struct snib__zk *z, struct snib__zk_look *look)
{
    char path[SNIB__ZK_PATH_ROOM];
    for (size_t i = 0; i < look->sight_count; i++) {
        if (look->sights[i].awaited) { /* one after the other */
            sight_path(z, look, i, path);
            asked(z, look,
                  snib__zk_ask(&z->at, SNIB__ZK_ASK_STAYS, look, SNIB__ZK_GET_DATA, path, true));
            return;
        }
    }
    snib__zk_look_finish(z, look, SNIB_OK, NULL);
}

static void on_stays(struct snib__zk_look *look, const struct snib__zk_answer *answer)
{
    for (size_t i = 0; answer->error == SNIB__ZK_NO_NODE && i < look->sight_count; i++) {
        if (look->sights[i].awaited) {
            look->sights[i].awaited = false;
            look->stage = SNIB__ZK_LOOK_MARK; /* the next one, which is marked */
            return;
        }
    }
}

void snib__zk_queries_event(struct snib__zk *z, const struct snib__zk_event *event)
{
    struct snib__list *after;
    (void)event; /* there are few of these */
    for (struct snib__list *l = z->queries.after; l != &z->queries; l = after) {
        struct snib__zk_look *look = SNIB__OF(l, struct snib__zk_look, link);
        after = l->after;
        if (look->stage == SNIB__ZK_LOOK_STAYS && look->under_way == 0) {
            ask_stays(z, look);
        }
    }
}

/* ---- Steps -------------------------------------------------------------------------------- */

static void ask_names(struct snib__zk *z, struct snib__zk_look *look)
{
    struct snib__instant now = snib__now();
    asked(z, look,
          snib__zk_ask_since(&z->at, SNIB__ZK_ASK_SYNC, NULL, SNIB__ZK_SYNC, base_path(z), false,
                             now) &&
              snib__zk_ask_since(&z->at, SNIB__ZK_ASK_NAMES, look, SNIB__ZK_CHILDREN, base_path(z),
                                 false, now));
}

static void ask_nodes(struct snib__zk *z, struct snib__zk_look *look)
{
    char lock[SNIB__ZK_PATH_ROOM];
    struct snib__instant now = snib__now();
    look->hidden = false;
    snib__zk_lock_path(z, look->names[look->name_at], lock);
    if (!look->query->prefix &&
        !snib__zk_ask_since(&z->at, SNIB__ZK_ASK_SYNC, NULL, SNIB__ZK_SYNC, lock, false, now)) {
        asked(z, look, false);
        return;
    }
    asked(z, look, snib__zk_ask(&z->at, SNIB__ZK_ASK_TOKEN, look, SNIB__ZK_GET_DATA, lock, false));
    asked(z, look, snib__zk_ask(&z->at, SNIB__ZK_ASK_NODES, look, SNIB__ZK_CHILDREN, lock, false));
}

static void notice_left_out(struct snib__zk *z, const struct snib__zk_look *look)
{
    if (look->left_out) {
        snprintf(z->session->notice, sizeof z->session->notice,
                 "left out: %zu below %.100s that this user may not read", look->left_out,
                 base_path(z));
    }
}

void snib__zk_look_step(struct snib__zk *z, struct snib__zk_look *look)
{
    if (!z->at.ready || z->at.link.ending || look->under_way > 0) {
        return;
    }
    switch (look->stage) {
    case SNIB__ZK_LOOK_NAMES:
        ask_names(z, look);
        break;
    case SNIB__ZK_LOOK_NODES:
        if (look->name_at < look->name_count) {
            ask_nodes(z, look);
        } else {
            notice_left_out(z, look);
            snib__zk_look_finish(z, look, SNIB_OK, NULL);
        }
        break;
    case SNIB__ZK_LOOK_MARK:
        ask_mark(z, look);
        break;
    case SNIB__ZK_LOOK_STAYS:
        ask_stays(z, look);
        break;
    case SNIB__ZK_LOOK_PROBE:
    case SNIB__ZK_LOOK_PROBED:
        break;
    }
}

/* All of a lock's nodes have been looked at. */
static void end_lock(struct snib__zk *z, struct snib__zk_look *look)
{
    sort_out(look);
    if (look->evicts) {
        choose_victims(z, look);
        return;
    }
    if (look->hidden) {
        look->left_out++;
    } else {
        tell(look, look->names[look->name_at]);
    }
    look->name_at++;
    forget_sights(look);
    snib__zk_look_step(z, look);
}

/* ---- Answers ------------------------------------------------------------------------------ */

static void on_names(struct snib__zk *z, struct snib__zk_look *look, struct snib__zk_answer *answer)
{
    int32_t count = 0;
    char name[201];
    size_t prefix = strlen(look->query->name);
    if (answer->error == SNIB__ZK_OK) {
        snib__zk_get_count(&answer->body, &count);
    }
    for (int32_t i = 0; i < count; i++) {
        struct snib__zk_text node;
        if (!snib__zk_get_text(&answer->body, &node)) {
            return;
        }
        if (snib__zk_decode(node, z->base[0] == '\0', name) &&
            strncmp(name, look->query->name, prefix) == 0 && !add_name(look, name)) {
            snib__zk_look_finish(z, look, SNIB_ENOMEM, "out of memory");
            return;
        }
    }
    look->stage = SNIB__ZK_LOOK_NODES;
    snib__zk_look_step(z, look);
}

static bool add_sight(struct snib__zk_look *look, struct snib__zk_text node)
{
    struct snib__zk_sight *grown =
        realloc(look->sights, (look->sight_count + 1) * sizeof look->sights[0]);
    if (!grown) {
        return false;
    }
    look->sights = grown;
    struct snib__zk_sight *s = &grown[look->sight_count++];
    *s = (struct snib__zk_sight){.what = snib__zk_parse(node)};
    memcpy(s->node, node.at, node.size);
    return true;
}

static void on_nodes(struct snib__zk *z, struct snib__zk_look *look, struct snib__zk_answer *answer)
{
    int32_t count = 0;
    char path[SNIB__ZK_PATH_ROOM];
    forget_sights(look);
    if (answer->error == SNIB__ZK_OK) {
        snib__zk_get_count(&answer->body, &count);
    }
    for (int32_t i = 0; i < count; i++) {
        struct snib__zk_text node;
        if (!snib__zk_get_text(&answer->body, &node)) {
            return;
        }
        if (snib__zk_parse(node).sort != SNIB__ZK_STRANGER && !add_sight(look, node)) {
            snib__zk_look_finish(z, look, SNIB_ENOMEM, "out of memory");
            return;
        }
    }
    for (size_t i = 0; i < look->sight_count; i++) {
        sight_path(z, look, i, path);
        asked(z, look,
              snib__zk_ask(&z->at, SNIB__ZK_ASK_NODE, look, SNIB__ZK_GET_DATA, path, false));
    }
    if (look->under_way == 0) {
        end_lock(z, look);
    }
}

/* The next of the nodes that were asked for: answers come in order. */
static void on_node(struct snib__zk *z, struct snib__zk_look *look, struct snib__zk_answer *answer)
{
    struct snib__zk_text data;
    struct snib__zk_stat stat;
    struct snib__zk_sight *s = &look->sights[look->sight_count - look->under_way - 1];
    if (answer->error == SNIB__ZK_OK && snib__zk_get_data(&answer->body, &data, &stat)) {
        s->there = true;
        s->token = (uint64_t)stat.created;
        s->since_ms = stat.created_ms;
        snib__zk_owner_read(&s->owner, data);
        if (look->evicts) {
            s->data = strndup(data.size ? data.at : "", data.size);
        }
    }
    if (look->under_way == 0) {
        end_lock(z, look);
    }
}

static void on_token(struct snib__zk_look *look, struct snib__zk_answer *answer)
{
    struct snib__zk_text data;
    struct snib__zk_stat stat;
    look->record.token = 0;
    if (answer->error == SNIB__ZK_OK && snib__zk_get_data(&answer->body, &data, &stat) &&
        !snib__zk_record_read(&look->record, data)) {
        look->record.token = 0;
    }
}

/* How long the session of another is cannot be seen. */
static void notice_belief(struct snib__zk *z)
{
    snprintf(z->session->notice, sizeof z->session->notice,
             "whoever had it may act on it until its next renewal: if its session is as long as "
             "ours, for %.1f s at most",
             (double)z->at.granted_ms * 5 / 8e3);
}

static void on_marked(struct snib__zk *z, struct snib__zk_look *look,
                      const struct snib__zk_answer *answer)
{
    if (answer->error != SNIB__ZK_OK && answer->error != SNIB__ZK_NO_NODE) {
        bool denied = answer->error == SNIB__ZK_NO_AUTH;
        snib__zk_look_finish(z, look, denied ? SNIB_EDENIED : SNIB_EPROTO,
                             "the servers refuse to touch the holder's node");
        return;
    }
    if (look->query->force) {
        notice_belief(z);
    }
    if (look->under_way == 0) {
        look->stage = SNIB__ZK_LOOK_STAYS;
        snib__zk_look_step(z, look);
    }
}

/* In a list, a node of others that we may not read is left out: it need not even be a lock. */
static bool denied(struct snib__zk *z, struct snib__zk_look *look, int kind,
                   const struct snib__zk_answer *answer)
{
    if (answer->error != SNIB__ZK_NO_AUTH) {
        return false;
    }
    if (look->query->prefix && kind != SNIB__ZK_ASK_NAMES) {
        look->hidden = true;
        return false;
    }
    snib__zk_look_finish(z, look, SNIB_EDENIED,
                         "the servers refuse to show it to this user; USER:PASSWORD@ of somebody "
                         "who may, or another ACL there");
    return true;
}

void snib__zk_look_answered(struct snib__zk *z, const struct snib__zk_call *call,
                            struct snib__zk_answer *answer)
{
    struct snib__zk_look *look = call->subject;
    if (!look) {
        return;
    }
    look->under_way--;
    if (!look->examines && denied(z, look, call->kind, answer)) {
        return;
    }
    switch (call->kind) {
    case SNIB__ZK_ASK_NAMES:
        on_names(z, look, answer);
        break;
    case SNIB__ZK_ASK_NODES:
        on_nodes(z, look, answer);
        break;
    case SNIB__ZK_ASK_NODE:
        on_node(z, look, answer);
        break;
    case SNIB__ZK_ASK_TOKEN:
        on_token(look, answer);
        break;
    case SNIB__ZK_ASK_MARK:
    case SNIB__ZK_ASK_TAKE:
        on_marked(z, look, answer);
        break;
    case SNIB__ZK_ASK_STAYS:
        on_stays(look, answer);
        if (look->stage == SNIB__ZK_LOOK_MARK) {
            look->stage = SNIB__ZK_LOOK_STAYS;
            ask_stays(z, look);
        }
        break;
    case SNIB__ZK_ASK_PROBE:
        look->round_ns = snib__now().boot_ns - call->sent.boot_ns;
        look->error = answer->error;
        snib__zk_trial_begin(&look->trial, z);
        asked(z, look, snib__zk_trial_ask(z, &look->trial, look));
        break;
    case SNIB__ZK_ASK_TRIAL:
        if (snib__zk_trial_answered(&look->trial, answer)) {
            look->stage = SNIB__ZK_LOOK_PROBED;
        } else {
            asked(z, look, snib__zk_trial_ask(z, &look->trial, look));
        }
        break;
    default:
        break;
    }
}

void snib__zk_look_lost(struct snib__zk *z, const struct snib__zk_call *call)
{
    struct snib__zk_look *look = call->subject;
    (void)z;
    if (look && --look->under_way == 0 && look->stage == SNIB__ZK_LOOK_NODES) {
        forget_sights(look); /* this lock again */
    }
}

/* ---- Submitting, time ---------------------------------------------------------------------- */

void snib__zk_look_submit(struct snib__query *query, enum snib__zk_look_stage stage)
{
    struct snib__zk *z = snib__zk_of(query->session);
    struct snib__zk_look *look = query->state;
    z->session->notice[0] = '\0';
    look->query = query;
    look->stage = stage;
    look->due_ns = snib__now().boot_ns + snib__zk_session_patience_ms(&z->at) * SNIB__MS;
    snib__list_append(&z->queries, &look->link);
    if (stage == SNIB__ZK_LOOK_NODES && !add_name(look, query->name)) {
        snib__zk_look_finish(z, look, SNIB_ENOMEM, "out of memory");
        return;
    }
    snib__zk_look_step(z, look);
    if (z->at.ready) {
        snib__zk_link_flush(&z->at.link);
    }
}

void snib__zk_inspect(struct snib__query *query)
{
    snib__zk_look_submit(query, query->prefix ? SNIB__ZK_LOOK_NAMES : SNIB__ZK_LOOK_NODES);
}

void snib__zk_evict(struct snib__query *query)
{
    struct snib__zk_look *look = query->state;
    look->evicts = true;
    snib__zk_look_submit(query, SNIB__ZK_LOOK_NODES);
}

void snib__zk_queries_ready(struct snib__zk *z)
{
    struct snib__list *after;
    for (struct snib__list *l = z->queries.after; l != &z->queries; l = after) {
        after = l->after;
        snib__zk_look_step(z, SNIB__OF(l, struct snib__zk_look, link));
    }
}

void snib__zk_queries_unreachable(struct snib__zk *z, int code)
{
    struct snib__list *after;
    for (struct snib__list *l = z->queries.after; l != &z->queries; l = after) {
        struct snib__zk_look *look = SNIB__OF(l, struct snib__zk_look, link);
        after = l->after;
        if (!look->asked && !look->examines) {
            snib__zk_look_finish(z, look, code, z->at.why);
        }
    }
}

static void be_late(struct snib__zk *z, struct snib__zk_look *look)
{
    char why[SNIB__ZK_WHO_ROOM + 160];
    if (!look->evicts || look->stage < SNIB__ZK_LOOK_MARK) {
        snib__zk_look_finish(z, look, look->asked ? SNIB_EUNKNOWN : SNIB_EUNREACH,
                             z->at.ready ? "no answer in time" : z->at.why);
        return;
    }
    const char *who = "its holder";
    for (size_t i = 0; i < look->sight_count; i++) {
        if (look->sights[i].awaited && look->sights[i].owner.who[0]) {
            who = look->sights[i].owner.who;
        }
    }
    snprintf(why, sizeof why,
             "%s was asked and has it still; it lets go, or loses it, within its lease "
             "(of ours: %.1f s)",
             who, (double)z->at.granted_ms / 1600);
    snib__zk_look_finish(z, look, SNIB_EBUSY, why);
}

void snib__zk_queries_tick(struct snib__zk *z, int64_t now_ns)
{
    struct snib__list *after;
    for (struct snib__list *l = z->queries.after; l != &z->queries; l = after) {
        struct snib__zk_look *look = SNIB__OF(l, struct snib__zk_look, link);
        after = l->after;
        if (!look->examines && look->due_ns <= now_ns) {
            be_late(z, look);
        }
    }
}

int64_t snib__zk_queries_next(const struct snib__zk *z)
{
    int64_t next = SNIB__NEVER;
    for (struct snib__list *l = z->queries.after; l != &z->queries; l = l->after) {
        const struct snib__zk_look *look = SNIB__OF(l, struct snib__zk_look, link);
        if (!look->examines) {
            next = look->due_ns < next ? look->due_ns : next;
        }
    }
    return next;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Contenders: made and gone, what they owe, what they watch.
 *
 * A contender has a claim until the claim's last answer. If its node may exist then, it goes on by
 * itself and is counted in session->undoing until that is settled.
 *
 * Answers are owed for as long as a request may take. All of them are owed for the same time, so
 * the list of those that owe is in the order of their deadlines.
 */
#include "engines/zookeeper/contender.h"

#include "base/hash.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool snib__zk_lock_path(const struct snib__zk *z, const char *name, char out[SNIB__ZK_PATH_ROOM])
{
    char node[SNIB__ZK_LOCK_MOST + 1];
    snib__zk_encode(name, z->base[0] == '\0', node);
    int n = snprintf(out, SNIB__ZK_PATH_ROOM, "%s/%s", z->base, node);
    return n > 0 && n < SNIB__ZK_PATH_ROOM - SNIB__ZK_SIBLING_MOST - 2;
}

struct snib__contender *snib__contender_new(struct snib__zk *z, struct snib__claim *claim)
{
    char lock[SNIB__ZK_PATH_ROOM];
    if (!snib__zk_lock_path(z, claim->name, lock)) {
        return NULL;
    }
    struct snib__contender *c = calloc(1, sizeof *c + strlen(lock) + 1);
    if (!c || !snib__timers_join(&z->timers)) {
        free(c);
        return NULL;
    }
    c->zk = z;
    c->claim = claim;
    c->mode = claim->mode;
    c->permits = claim->permits;
    strcpy(c->lock, lock);
    snib__zk_stem(c->stem, z->dialect, claim->mode, claim->permits, claim->owner);
    snib__list_init(&c->in_owed);
    snib__list_append(&z->contenders, &c->in_all);
    return c;
}

void snib__contender_free(struct snib__contender *c)
{
    struct snib__zk *z = c->zk;
    if (c->calls) {
        snib__zk_link_forget(&z->at.link, c);
    }
    if (!c->claim) {
        z->session->undoing--;
    }
    snib__timers_leave(&z->timers, &c->over);
    snib__contender_unwatch(c);
    snib__contender_listen(c, false);
    snib__contender_queue(c, false);
    snib__list_remove(&c->in_owed);
    snib__list_remove(&c->in_all);
    free(c);
}

void snib__contender_path(const struct snib__contender *c, const char *node,
                          char out[SNIB__ZK_PATH_ROOM])
{
    snprintf(out, SNIB__ZK_PATH_ROOM, "%s%s%s", c->lock, node[0] ? "/" : "", node);
}

/* ---- Answers ------------------------------------------------------------------------------ */

void snib__contender_queue(struct snib__contender *c, bool queued)
{
    if (c->queued != queued) {
        c->queued = queued;
        c->zk->queued += queued ? 1 : -1;
    }
}

void snib__contender_owe(struct snib__contender *c, enum snib__verb verb)
{
    struct snib__zk *z = c->zk;
    c->owed = true;
    c->verb = verb;
    c->due_ns = snib__now().boot_ns + z->session->timeout_ms * SNIB__MS;
    snib__list_remove(&c->in_owed);
    snib__list_append(&z->owed, &c->in_owed);
}

void snib__contender_answer(struct snib__contender *c, const struct snib__result *result)
{
    struct snib__claim *claim = c->claim;
    assert(claim && (c->owed || c->queued));
    enum snib__verb verb = c->owed ? c->verb : SNIB__ATTEMPT;
    c->owed = false;
    snib__contender_queue(c, result->status == SNIB__QUEUED);
    snib__list_remove(&c->in_owed);
    if (verb == SNIB__RELEASE) { /* the claim is gone with it */
        struct snib__zk_ticket *ticket = claim->state;
        ticket->contender = NULL;
        c->claim = NULL;
        c->zk->session->undoing++;
    }
    snib__answer(claim, verb, result);
}

void snib__contender_answer_unknown(struct snib__contender *c, const char *why)
{
    struct snib__result unknown = {.status = SNIB__UNKNOWN, .reason = why};
    snib__contender_answer(c, &unknown);
}

void snib__contender_listen(struct snib__contender *c, bool listens)
{
    if (c->listening != listens) {
        c->listening = listens;
        c->zk->session->attend += listens ? 1 : -1;
    }
}

/* ---- Watching ----------------------------------------------------------------------------- */

static uint64_t hash_of(const char *path, size_t size)
{
    return snib__hash_bytes(SNIB__HASH_START, path, size);
}

void snib__contender_watch(struct snib__contender *c, const char *node)
{
    char path[SNIB__ZK_PATH_ROOM];
    snib__contender_unwatch(c);
    if (node != c->next) {
        snprintf(c->next, sizeof c->next, "%s", node);
    }
    snib__contender_path(c, c->next, path);
    c->watches = snib__table_add(&c->zk->watched, &c->watched, hash_of(path, strlen(path)));
}

void snib__contender_unwatch(struct snib__contender *c)
{
    if (c->watches) {
        snib__table_remove(&c->zk->watched, &c->watched);
        c->watches = false;
    }
}

struct snib__contender *snib__contender_watching(struct snib__zk *z, struct snib__zk_text path,
                                                 struct snib__contender *after)
{
    struct snib__entry *e = after ? snib__entry_next(&after->watched)
                                  : snib__table_first(&z->watched, hash_of(path.at, path.size));
    for (; e; e = snib__entry_next(e)) {
        char own[SNIB__ZK_PATH_ROOM];
        struct snib__contender *c = SNIB__OF(e, struct snib__contender, watched);
        snib__contender_path(c, c->next, own);
        if (strlen(own) == path.size && memcmp(own, path.at, path.size) == 0) {
            return c;
        }
    }
    return NULL;
}

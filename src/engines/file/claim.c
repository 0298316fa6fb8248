/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A claim: which lock it is on, the name it is rung and asked by, and what was decided about it.
 *
 * Outcomes are collected, not said: a decision may fall inside the gate, where nobody may be
 * answered, and an answer can lead to the next decision. One claim has one outcome at a time; a
 * later one replaces it.
 */
#include "engines/file/claim.h"

#include <stdio.h>
#include <stdlib.h>

/* Different for each start of each claim, and spread over all their bits. */
void snib__file_claim_number(struct file_claim *c)
{
    struct file_session *fs = snib__file_session_of(c->claim);
    uint64_t n = fs->number += 0x9e3779b97f4a7c15ULL; /* odd: all of them */
    n = (n ^ n >> 30) * 0xbf58476d1ce4e5b9ULL;
    n = (n ^ n >> 27) * 0x94d049bb133111ebULL;
    c->cookie = n ^ n >> 31;
    c->nonce = (uint32_t)(c->cookie >> 32) & NONCE_MASK;
    c->nonce += c->nonce == 0 ? 1U : 0U;
}

void snib__file_claim_attach(struct file_claim *c, struct lock *lock)
{
    snib__file_lock_use(lock);
    c->lock = lock;
}

static void forget_name(struct file_claim *c)
{
    if (c->named) {
        snib__table_remove(&snib__file_session_of(c->claim)->cookies, &c->by_cookie);
        c->named = false;
    }
}

void snib__file_claim_detach(struct file_claim *c)
{
    struct lock *lock = c->lock;
    c->phase = PHASE_NONE;
    c->lock = NULL;
    if (lock) {
        snib__file_lock_unuse(lock);
    }
    forget_name(c);
}

void snib__file_claim_enlist(struct file_claim *c, struct snib__list *list, enum phase phase)
{
    c->phase = phase;
    snib__list_append(list, &c->in);
}

void snib__file_claim_conclude(struct file_claim *c, enum snib__status outcome,
                               const struct failure *why)
{
    if (outcome == SNIB__QUEUED) {
        c->told = true;
    } else {
        snib__list_remove(&c->in);
        c->phase = PHASE_NONE;
    }
    c->outcome = outcome;
    if (why) {
        c->failure = malloc(sizeof *why);
        if (c->failure) {
            *c->failure = *why;
        }
    }
    snib__list_remove(&c->news);
    snib__list_append(&snib__file_session_of(c->claim)->outcomes, &c->news);
}

void snib__file_claim_name(struct file_claim *c)
{
    struct file_session *fs = snib__file_session_of(c->claim);
    c->named = c->named || snib__table_add(&fs->cookies, &c->by_cookie, c->cookie);
}

struct file_claim *snib__file_claim_by_cookie(const struct file_session *fs, uint64_t cookie)
{
    struct snib__entry *e = snib__table_first(&fs->cookies, cookie);
    return e ? SNIB__OF(e, struct file_claim, by_cookie) : NULL;
}

void snib__file_claim_ask(struct file_claim *c, uint64_t token, const char *who)
{
    if (c->phase != PHASE_HELD || c->token != token || !c->claim->listens) {
        return;
    }
    char why[160];
    snprintf(why, sizeof why, "asked to give up by %.100s", who);
    snib__report(c->claim, SNIB_LOST, why);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wait=: what the URL says about it, and the witness's verdicts told to claims.
 */
#include "engines/redis/proofs.h"

#include "engines/redis/attempts.h"
#include "engines/redis/claims.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define REPLICAS 2
#define WAIT_MS 1000

static void on_judged(struct snib__witness *w, struct snib__proof *p, enum snib__verdict verdict)
{
    struct snib__redis *r = w->owner;
    struct snib__bid *b = SNIB__OF(p, struct snib__bid, proof);
    bool proven = verdict == SNIB__VERDICT_PROVEN;
    if (p->verb == SNIB__RENEW) {
        if (proven) {
            snib__claims_proven(r, b);
        } else {
            snib__claims_unproven(r, b);
        }
    } else if (proven) {
        snib__attempts_proven(r, b);
    } else {
        snib__attempts_unproven(r, b, verdict);
    }
}

static const char *run_of(const struct snib__witness *w)
{
    const struct snib__redis *r = w->owner;
    return r->node.greeting.fitness.run_id;
}

static void on_elsewhere(struct snib__witness *w, const char *why)
{
    struct snib__redis *r = w->owner;
    snib__node_end(&r->node, why);
}

static const struct snib__witness_upcalls upcalls = {
    .judged = on_judged,
    .run = run_of,
    .elsewhere = on_elsewhere,
};

/* How many replicas must acknowledge; 0: the word is none. */
static int read_needed(const char *word, int replicas)
{
    if (strcmp(word, "majority") == 0) {
        return (replicas + 1) / 2;
    }
    if (strcmp(word, "all") == 0) {
        return replicas;
    }
    char *rest;
    long number = strtol(word, &rest, 10);
    return word[0] >= '0' && word[0] <= '9' && !*rest && number <= replicas ? (int)number : 0;
}

static int read_rule(struct snib__witness_rule *rule, const struct snib__redis *r, snib_error *err)
{
    const struct snib__session *session = r->session;
    const union snib__value *values = session->values;
    int64_t replicas = values[SNIB__REDIS_REPLICAS].number;
    int64_t wait_ms = values[SNIB__REDIS_WAIT_TIMEOUT].number;
    int64_t most_ms = session->timeout_ms / 2;
    const char *word = values[SNIB__REDIS_WAIT].text;
    rule->word = word;
    rule->servers = (int)(replicas < 0 ? REPLICAS : replicas) + 1;
    rule->needed = read_needed(word, rule->servers - 1);
    if (rule->needed == 0) {
        return snib__fail(err, SNIB_EINVAL, 0,
                          "redis: wait= takes majority, all, or a number from 1 to that of "
                          "replicas=, %d",
                          rule->servers - 1);
    }
    if (wait_ms > most_ms) {
        return snib__fail(err, SNIB_EINVAL, 0,
                          "redis: wait-timeout= must not be more than half of timeout=");
    }
    rule->timeout_ms = wait_ms > 0 ? wait_ms : most_ms < WAIT_MS ? most_ms : WAIT_MS;
    rule->timeout_ms = rule->timeout_ms > 0 ? rule->timeout_ms : 1; /* 0 would be for ever */
    rule->guards = strcmp(word, "majority") == 0;
    rule->max_lease_ms = session->max_lease_ms;
    rule->quarantine_ms = session->max_lease_ms * 11 / 10 + 2000;
    snprintf(rule->epoch, sizeof rule->epoch, "%.100s:epoch", r->settings.prefix);
    snprintf(rule->tick, sizeof rule->tick, "%.100s:tick", r->settings.prefix);
    return SNIB_OK;
}

int snib__proofs_open(struct snib__redis *r, snib_error *err)
{
    const union snib__value *values = r->session->values;
    struct snib__witness_rule rule = {.needed = 0};
    if (!values[SNIB__REDIS_WAIT].text) {
        bool given =
            values[SNIB__REDIS_WAIT_TIMEOUT].number > 0 || values[SNIB__REDIS_REPLICAS].number > 0;
        return given ? snib__fail(err, SNIB_EINVAL, 0,
                                  "redis: wait-timeout= and replicas= go with wait=")
                     : SNIB_OK;
    }
    if (r->layout != &snib__layouts[SNIB__LAYOUT_NATIVE]) {
        return snib__fail(err, SNIB_EINVAL, 0,
                          "redis: wait= is for layout=native: other programs do not wait");
    }
    int rc = read_rule(&rule, r, err);
    if (rc < 0) {
        return rc;
    }
    r->witness = calloc(1, sizeof *r->witness);
    if (!r->witness) {
        return snib__fail(err, SNIB_ENOMEM, 0, "out of memory");
    }
    /* Restarts have an epoch of their own, which everybody sees, and not only who was there. */
    r->settings.quarantine.off = r->settings.quarantine.off || rule.guards;
    snib__witness_init(r->witness, &upcalls, &rule, &r->settings.address, &r->settings.credentials,
                       &r->session->attend, r);
    return SNIB_OK;
}

void snib__proofs_close(struct snib__redis *r)
{
    if (r->witness) {
        snib__witness_close(r->witness);
        free(r->witness);
        r->witness = NULL;
    }
}

void snib__proofs_other(struct snib__redis *r)
{
    if (r->witness) {
        snib__witness_other(r->witness);
    }
}

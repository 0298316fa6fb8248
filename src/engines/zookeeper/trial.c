/* SPDX-License-Identifier: Apache-2.0 */
/*
 * May a lock be taken below the base path?
 *
 * One transaction does what a first lock does there: makes the lock's node, a contender's below it,
 * writes into that and deletes it; and then something that cannot be done, so that the servers undo
 * all of it. They check rights part by part: the part that failed says what is refused. Nothing is
 * ever seen by others, and nothing is left.
 */
#include "engines/zookeeper/trial.h"

#include <string.h>

void snib__zk_trial_begin(struct snib__zk_trial *t, const struct snib__zk *z)
{
    *t = (struct snib__zk_trial){.error = SNIB__ZK_OK};
    strcpy(t->below, z->base);
}

bool snib__zk_trial_ask(struct snib__zk *z, struct snib__zk_trial *t, void *subject)
{
    return snib__zk_ask_trial(&z->at, SNIB__ZK_ASK_TRIAL, subject, t->below, z->rights);
}

bool snib__zk_trial_answered(struct snib__zk_trial *t, struct snib__zk_answer *answer)
{
    t->error = answer->error;
    t->part = 0;
    if (answer->error == SNIB__ZK_OK) {
        (void)snib__zk_get_multi(&answer->body, &t->error, &t->part);
    }
    char *slash = strrchr(t->below, '/');
    if (t->error == SNIB__ZK_NO_NODE && t->part == SNIB__ZK_TRIAL_LOCK && slash) {
        *slash = '\0';
        return false;
    }
    return true;
}

const char *snib__zk_trial_refused(const struct snib__zk_trial *t)
{
    switch (t->part) {
    case SNIB__ZK_TRIAL_LOCK:
    case SNIB__ZK_TRIAL_NODE:
        return "make nodes";
    case SNIB__ZK_TRIAL_WRITE:
        return "write into nodes";
    case SNIB__ZK_TRIAL_DELETE:
        return "delete nodes";
    default:
        return NULL;
    }
}

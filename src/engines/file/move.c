/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A lock file that was removed or replaced under us.
 *
 * Who holds it holds something that excludes nobody any more, and is told. Who waits for it begins
 * again in the file that the name leads to now, a few times at most: a name whose file is replaced
 * again and again is not safe.
 */
#include "engines/file/move.h"

#include "engines/file/record.h"
#include "engines/file/ring.h"

#include <assert.h>
#include <stdio.h>

static void tell_holder(struct file_claim *c)
{
    char why[200];
    if (c->phase != PHASE_HELD) {
        return;
    }
    snprintf(why, sizeof why, "its lock file %.160s was removed or replaced",
             c->lock->file.file_name);
    snib__report(c->claim, SNIB_LOST, why);
}

static struct lock *find_next(struct file_claim *c, struct failure *why)
{
    struct file_session *fs = c->lock->session;
    if (++c->moves > MOVES_MAX) {
        snib__file_fail(why, SNIB_EUNSAFE, 0, "%.100s/%.180s is replaced again and again",
                        fs->directory.path, c->lock->file.file_name);
        return NULL;
    }
    struct lock *next = snib__file_lock_find(fs, c->claim->name, why);
    if (next && !snib__file_lock_join_timers(next)) {
        snib__file_fail_memory(why);
        return NULL;
    }
    return next;
}

/* Once more, in the file the name leads to now. NULL: that is not possible. */
static struct lock *move_claim(struct file_claim *c)
{
    struct failure why;
    struct lock *old = c->lock;
    assert(old != NULL);
    if (c->record) {
        snib__file_record_drop(old, c->record);
        c->record = 0;
    }
    struct lock *next = find_next(c, &why);
    if (!next) {
        snib__file_claim_conclude(c, SNIB__FAILED, &why);
        return NULL;
    }
    snib__list_remove(&c->in);
    snib__file_claim_attach(c, next);
    snib__file_lock_unuse(old);
    snib__file_claim_enlist(c, &next->joining, PHASE_JOINING);
    return next;
}

struct lock *snib__file_move(struct lock *lock)
{
    struct lock *next = NULL;
    struct file_claim *c;
    snib__file_lock_use(lock);
    snib__file_lockfile_stray(&lock->file);
    if (lock->exclusive) {
        tell_holder(lock->exclusive);
    }
    for (EACH_CLAIM(holder, &lock->holding)) {
        tell_holder(holder);
    }
    while ((c = snib__file_claim_first(&lock->waiting)) != NULL ||
           (c = snib__file_claim_first(&lock->joining)) != NULL) {
        struct lock *there = move_claim(c);
        next = there ? there : next;
    }
    snib__file_ring_behind(lock, 0); /* others may be waiting here too */
    snib__file_lock_watch(lock, NULL, 0);
    snib__file_lock_unuse(lock);
    return next;
}

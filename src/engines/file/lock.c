/* SPDX-License-Identifier: Apache-2.0 */
/* A name as this session sees it: found with its lock file, and what it watches while it waits. */
#include "engines/file/lock.h"

#include <string.h>

static struct lock *of_file(struct lockfile *f)
{
    return (struct lock *)(void *)f;
}

struct lock *snib__file_lock_find(struct file_session *fs, const char *name, struct failure *why)
{
    char room[FILE_NAME_BYTES];
    name = snib__file_name_canonical(room, name);
    struct lock *lock = of_file(snib__file_cache_find(&fs->cache, name, why));
    if (lock && !lock->session) { /* new */
        lock->session = fs;
        snib__list_init(&lock->joining);
        snib__list_init(&lock->waiting);
        snib__list_init(&lock->flocking);
        snib__list_init(&lock->holding);
    }
    return lock;
}

struct lock *snib__file_lock_next(const struct file_session *fs, const struct lock *lock)
{
    return of_file(snib__file_cache_next(&fs->cache, lock ? &lock->file : NULL));
}

void snib__file_lock_watch(struct lock *lock, struct watch *const set[], size_t count)
{
    struct watch *old[WATCHES_MAX];
    size_t old_count = lock->watch_count;
    memcpy(old, lock->watches, old_count * sizeof(struct watch *));
    if (count) {
        memcpy(lock->watches, set, count * sizeof(struct watch *));
    }
    lock->watch_count = count;
    for (size_t i = 0; i < old_count; i++) {
        snib__file_watch_end(old[i]);
    }
}

bool snib__file_lock_join_timers(struct lock *lock)
{
    lock->timed = lock->timed || snib__timers_join(&lock->session->waking.timers);
    return lock->timed;
}

void snib__file_lock_rest(struct lock *lock)
{
    snib__file_lock_watch(lock, NULL, 0);
    snib__timers_leave(&lock->session->waking.timers, &lock->timer);
    lock->timed = false;
    lock->poked = false;
}

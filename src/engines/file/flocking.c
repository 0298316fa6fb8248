/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A claim that has the slot of a path while somebody outside snib has flock on the file.
 *
 * That one has no queue and no bell. Its process is found in /proc/locks and watched, and we try
 * again from time to time, seldom enough to cost nothing. The slot is kept meanwhile: among users
 * of snib the order is decided.
 */
#include "engines/file/flocking.h"

#define FIRST_PAUSE_MS 50
#define LONGEST_PAUSE_MS 1000

static void unwatch(struct file_claim *c)
{
    if (c->path_watch) {
        snib__file_watch_end(c->path_watch);
        c->path_watch = NULL;
    }
}

bool snib__file_flocking_wait(struct file_claim *c, snib__timer_fn *fire, struct flocker *out)
{
    struct file_session *fs = c->lock->session;
    bool fresh;
    bool dead;
    *out = snib__file_path_flocker(c->path.dev, c->path.ino);
    if (c->phase != PHASE_FLOCKING) {
        if (!snib__timers_join(&fs->waking.timers)) {
            return false;
        }
        c->path_pause_ms = 0;
        snib__file_claim_enlist(c, &c->lock->flocking, PHASE_FLOCKING);
    }
    unwatch(c);
    if (out->pid && out->pid != fs->self.pid) {
        c->path_watch = snib__file_watch_begin(&fs->watches, out->pid, &fresh, &dead);
    }
    int64_t ms = c->path_pause_ms ? c->path_pause_ms * 2 : FIRST_PAUSE_MS;
    c->path_pause_ms = ms < LONGEST_PAUSE_MS ? ms : LONGEST_PAUSE_MS;
    c->path_timer.fire = fire;
    snib__file_waking_at(&fs->waking, &c->path_timer,
                         snib__now().boot_ns + c->path_pause_ms * SNIB__MS);
    return true;
}

void snib__file_flocking_end(struct file_claim *c)
{
    if (c->phase != PHASE_FLOCKING) {
        return;
    }
    unwatch(c);
    snib__timers_leave(&c->lock->session->waking.timers, &c->path_timer);
    snib__list_remove(&c->in);
    c->phase = PHASE_NONE;
}

void snib__file_flocking_bereave(struct file_session *fs, const struct watch *dead)
{
    for (struct lock *lock = NULL; (lock = snib__file_lock_next(fs, lock)) != NULL;) {
        for (EACH_CLAIM(c, &lock->flocking)) {
            if (c->path_watch == dead) {
                c->path_watch = NULL;
                snib__file_waking_at(&fs->waking, &c->path_timer, 0);
            }
        }
    }
}

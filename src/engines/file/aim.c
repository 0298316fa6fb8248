/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whom our waiters wait for, and how they learn of its death.
 *
 * Who lets go of the lock or leaves the queue rings. Who dies does not, so each waiter watches,
 * by pidfd, the process of the waiter before it, or when it is the first, of a holder: the one
 * whose death would make it its turn, and no more, so that a death wakes one and not all. For the
 * slot any one of the holders does, because nothing can happen before that one is gone too. A
 * counted lock has its holders watched all, up to a bound.
 *
 * This happens inside the gate, so that the queue stands still. A process number can have been
 * used again before the pidfd was opened, so a fresh one counts only if the lock that led to it is
 * still there afterwards.
 *
 * Not watched: ourselves; processes of another pid namespace, whose numbers mean nothing here;
 * and one that is dead while its locks live on in a child it forked. Then we look more often.
 */
#include "engines/file/aim.h"

struct aim {
    struct view *view;
    struct watch *set[WATCHES_MAX];
    size_t count;
};

enum aimed { AIMED, CHANGED };

static bool same_process(const struct file_session *fs, uint32_t pid)
{
    return pid == fs->self.pid;
}

/* `*fresh`: the caller must check again what it knows of this process. */
static void aim_at(struct aim *a, uint32_t pid, bool *fresh)
{
    struct file_session *fs = a->view->lock->session;
    bool dead = false;
    *fresh = false;
    if (same_process(fs, pid)) {
        return;
    }
    if (a->count == WATCHES_MAX) {
        a->view->blind = true;
        return;
    }
    struct watch *w = snib__file_watch_begin(&fs->watches, pid, fresh, &dead);
    if (!w) {
        a->view->blind = true;
        *fresh = dead;
        return;
    }
    a->set[a->count++] = w;
}

static enum aimed at_record(struct aim *a, uint32_t index)
{
    struct view *v = a->view;
    const struct record *self = &v->lock->session->self;
    const struct record *r = &v->records[index];
    bool fresh;
    if (r->net_space != self->net_space || self->net_space == 0) {
        v->blind = true; /* its bell is out of earshot, and so is ours */
    }
    if (r->pid_space != self->pid_space || self->pid_space == 0) {
        v->blind = true;
        return AIMED;
    }
    aim_at(a, r->pid, &fresh);
    return fresh && !snib__file_record_alive(v->lock, index) ? CHANGED : AIMED;
}

/* Its record, to see whether its bell can be heard. */
static void check_earshot(struct view *v, const struct flock *found)
{
    const struct record *self = &v->lock->session->self;
    const struct record *r = snib__file_record_proved(&v->front.holder, found);
    uint32_t pid = slot_owner_of(found->l_len).pid;
    for (uint32_t i = 1; !r && i < v->front.header.words.high; i++) {
        if (v->records[i].state == RECORD_HOLDING && v->records[i].pid == pid) {
            r = &v->records[i];
        }
    }
    if (r && r->net_space != self->net_space) {
        v->blind = true;
    }
}

static enum aimed at_slot_holder(struct aim *a, int mode)
{
    struct view *v = a->view;
    struct lock *lock = v->lock;
    short type = mode == SNIB_EXCLUSIVE ? F_WRLCK : F_RDLCK;
    struct flock found;
    struct flock again;
    bool fresh;
    if (lock->exclusive || (mode == SNIB_EXCLUSIVE && lock->shared)) {
        return AIMED; /* ourselves: our release comes by here */
    }
    if (v->slot_seen && (v->slot.l_type == F_WRLCK || mode == SNIB_EXCLUSIVE)) {
        found = v->slot; /* if it was let go since, we will be rung */
    } else if (!snib__file_blocked(lock->file.fd, type, SLOT_AT, 1, &found)) {
        return CHANGED;
    }
    struct slot_owner o = slot_owner_of(found.l_len);
    if (o.pid == 0 || o.space != fold_space(lock->session->self.pid_space)) {
        v->blind = true;
        return AIMED;
    }
    check_earshot(v, &found);
    aim_at(a, o.pid, &fresh);
    if (fresh && (!snib__file_blocked(lock->file.fd, type, SLOT_AT, 1, &again) ||
                  again.l_len != found.l_len)) {
        return CHANGED;
    }
    return AIMED;
}

static enum aimed at_permit_holders(struct aim *a)
{
    struct view *v = a->view;
    for (uint32_t i = 1; i < v->front.header.words.high; i++) {
        if (v->records[i].state == RECORD_HOLDING && !bit_get(v->lock->own_records, i) &&
            at_record(a, i) == CHANGED) {
            return CHANGED;
        }
    }
    return AIMED;
}

/* The nearest live waiter before entry i. */
static struct queue_entry *before(struct view *v, size_t i)
{
    while (i > 0) {
        struct queue_entry *e = &v->entries[--i];
        if (snib__file_view_sift(v, e)) {
            return e;
        }
    }
    return NULL;
}

static enum aimed at_predecessor(struct aim *a, size_t i)
{
    struct view *v = a->view;
    const struct queue_entry *e = before(v, i);
    if (e && e->own) {
        return AIMED;
    }
    if (e) {
        return at_record(a, e->record);
    }
    if (v->front.header.words.kind == KIND_COUNTED) {
        return at_permit_holders(a);
    }
    return at_slot_holder(a, v->entries[i].own->claim->mode);
}

bool snib__file_aim_watches(struct view *v)
{
    struct aim a = {.view = v};
    enum aimed aimed = AIMED;
    if (v->lock->session->bell.fd < 0) {
        v->blind = true; /* nobody can ring us */
    }
    for (size_t i = 0; i < v->entry_count && aimed == AIMED; i++) {
        const struct queue_entry *e = &v->entries[i];
        if (!e->own || e->gone || !e->record) {
            continue;
        }
        struct record *r = &v->records[e->record];
        if (r->rung_order == r->order) { /* it has come, but there was nothing for it */
            snib__file_record_clear_rung(v->lock, e->record, r);
        }
        aimed = at_predecessor(&a, i);
    }
    snib__file_lock_watch(v->lock, a.set, a.count);
    return aimed == AIMED;
}

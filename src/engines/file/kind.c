/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What kind of lock a name is: one slot for writers and readers, or N permits.
 *
 * The kind stands in the header and binds while anybody holds the lock or waits for it, as the
 * kernel's locks say; afterwards the next user decides. Two users with different ideas of N, or
 * one who counts and one who excludes, must not both be let in, and must not wait for each other
 * either: that is an error of its own.
 *
 * The uncontended exclusive acquire reads the kind after it has locked the slot, without the gate.
 * So who turns a name from slot to permits holds the slot, for writing, while writing that down.
 * The other way round the gate is enough, because nobody takes a permit without it.
 */
#include "engines/file/kind.h"

#include <stdio.h>

struct use {
    bool slot, permits, records;
};

static struct use used_by_others(const struct lock *lock)
{
    struct flock found;
    return (struct use){
        .slot = snib__file_blocked(lock->file.fd, F_WRLCK, SLOT_AT, 1, &found),
        .permits = snib__file_blocked(lock->file.fd, F_WRLCK, PERMIT_AT, PERMITS_MAX, &found),
        .records = snib__file_blocked(lock->file.fd, F_WRLCK, ALIVE_AT, RECORDS_MAX, &found),
    };
}

static void add_claim(struct use *use, const struct file_claim *c)
{
    use->records = true;
    use->slot = use->slot || c->claim->mode != SNIB_COUNTED;
    use->permits = use->permits || c->claim->mode == SNIB_COUNTED;
}

/* The kernel does not show us our own locks. */
static void add_own(struct use *use, const struct lock *lock, const struct file_claim *newcomer)
{
    if (lock->exclusive) {
        add_claim(use, lock->exclusive);
    }
    for (EACH_CLAIM(c, &lock->holding)) {
        add_claim(use, c);
    }
    for (EACH_CLAIM(c, &lock->flocking)) {
        add_claim(use, c);
    }
    for (EACH_CLAIM(c, &lock->waiting)) {
        add_claim(use, c);
    }
    for (EACH_CLAIM(c, &lock->joining)) {
        if (c == newcomer) {
            break;
        }
        add_claim(use, c);
    }
}

static void describe(char *out, size_t size, uint32_t kind, uint32_t permits, const char *other)
{
    if (kind == KIND_COUNTED) {
        snprintf(out, size, "counted, with %u permit%s", permits, permits == 1 ? "" : "s");
    } else {
        snprintf(out, size, "%s", other);
    }
}

static bool clash(const struct view *v, const struct file_claim *c, uint32_t kind,
                  struct failure *why)
{
    const struct gate_words *words = &v->front.header.words;
    char is[48];
    char wanted[48];
    describe(is, sizeof is, words->kind, words->permits, "exclusive or shared");
    describe(wanted, sizeof wanted, kind, c->claim->permits,
             c->claim->mode == SNIB_SHARED ? "shared" : "exclusive");
    snib__file_fail(why, SNIB_EKIND, 0, "it is in use as %s, and was asked for as %s", is, wanted);
    return false;
}

static bool write_kind(struct view *v, uint32_t kind, uint32_t permits, struct failure *why)
{
    struct lock *lock = v->lock;
    bool was_counted = v->front.header.words.kind == KIND_COUNTED;
    bool shut = kind == KIND_COUNTED && !was_counted;
    if (shut && snib__file_lock_range(lock->file.fd, F_WRLCK, SLOT_AT, 1) != 0) {
        snib__file_fail(why, SNIB_EKIND, 0,
                        "it is in use as exclusive or shared, and was asked for as counted");
        return false;
    }
    struct gate_words *words = &v->front.header.words;
    struct gate_words old = *words;
    int sys = 0;
    if (shut) { /* tokens were given since we loaded; from now on they are only inside the gate */
        sys = snib__file_lockfile_read(&lock->file, &v->front) ? 0 : EIO;
        *words = old;
    }
    words->kind = kind;
    words->permits = permits;
    if (sys == 0) {
        sys = snib__file_view_write_words(v);
    }
    if (sys != 0) {
        *words = old;
    }
    if (shut) {
        snib__file_lockfile_unlock(&lock->file, SLOT_AT, 1);
    }
    if (sys != 0) {
        snib__file_lockfile_cannot(&lock->file, "write", sys, why);
        return false;
    }
    return true;
}

bool snib__file_kind_bind(struct view *v, const struct file_claim *c, struct failure *why)
{
    const struct gate_words *words = &v->front.header.words;
    uint32_t kind = c->claim->mode == SNIB_COUNTED ? KIND_COUNTED : KIND_RW;
    uint32_t permits = kind == KIND_COUNTED ? c->claim->permits : 1;
    if (words->kind == kind && words->permits == permits) {
        return true;
    }
    struct use use = used_by_others(v->lock);
    add_own(&use, v->lock, c);
    bool taken = kind == KIND_COUNTED ? use.slot : use.permits;
    /* A header that was lost says nothing; then records prove no kind, but locks still do. */
    if (words->kind != KIND_NONE) {
        taken = use.slot || use.permits || use.records;
    }
    return taken ? clash(v, c, kind, why) : write_kind(v, kind, permits, why);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside the gate: the queue as it is in the file, and changes to it.
 *
 * The gate is a kernel lock that is only ever tried. Its holder may be stopped or swapped out, and
 * then the call must still end in time: after a few tries somebody comes back with a timer.
 *
 * Nothing in the file is trusted to be consistent, because a process can be killed between any
 * two writes. What counts are kernel locks, which die with their process: a record counts if its
 * alive byte is locked. The number of waiters in the header is counted anew by everybody who goes
 * through, and is only ever too high in between.
 */
#include "engines/file/view.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define YIELDS 12
#define NAPS 12
#define NAP_NS 40000L

/* ---- The header ------------------------------------------------------------------------- */

/* Room for the header and the first records before anybody is granted anything. An errno. */
static int reserve(const struct lock *lock)
{
    static const char zeros[FILE_BYTES];
    int rc;
    do {
        rc = fallocate(lock->file.fd, 0, 0, FILE_BYTES);
    } while (rc < 0 && errno == EINTR);
    if (rc < 0 && (errno == EOPNOTSUPP || errno == ENOSYS)) {
        return snib__file_lockfile_write(&lock->file, zeros, sizeof zeros, 0);
    }
    return rc < 0 ? errno : 0;
}

/* A new file, or one that somebody else emptied. Tokens go on from the wall clock. */
static int initialize(struct view *v, struct failure *why)
{
    struct lock *lock = v->lock;
    struct front front = {.header = {.version = FILE_VERSION,
                                     .name_length = (uint32_t)strlen(lock->file.name),
                                     .words = {.next_order = 1, .high = 1}},
                          .holder = {.token = (uint64_t)snib__wall_us()}};
    memcpy(front.header.magic, FILE_MAGIC, sizeof front.header.magic);
    memcpy(front.header.name, lock->file.name, front.header.name_length);
    int sys = reserve(lock);
    if (sys == 0) {
        sys = snib__file_lockfile_write(&lock->file, &front, sizeof front, 0);
    }
    if (sys != 0) {
        return snib__file_lockfile_cannot(&lock->file, "write", sys, why);
    }
    memcpy(v->records - 1, &front, sizeof front);
    return 0;
}

static int check_header(const struct lock *lock, const struct header *h, struct failure *why)
{
    size_t length = strlen(lock->file.name);
    const char *path = lock->session->directory.path;
    if (memcmp(h->magic, FILE_MAGIC, sizeof h->magic) != 0) {
        return snib__file_fail(why, SNIB_EUNSAFE, 0,
                               "%.100s/%.180s is not a lock file of snib; move it away", path,
                               lock->file.file_name);
    }
    if (h->version != FILE_VERSION) {
        return snib__file_fail(why, SNIB_ENOTSUP, 0,
                               "%.100s/%.180s is of version %u, this snib knows %u", path,
                               lock->file.file_name, h->version, FILE_VERSION);
    }
    if (h->name_length != length || memcmp(h->name, lock->file.name, length) != 0) {
        size_t shown = h->name_length < sizeof h->name ? h->name_length : sizeof h->name;
        return snib__file_fail(
            why, SNIB_EKIND, 0, "%.60s/%.60s belongs to the lock '%.*s', not to '%.60s'", path,
            lock->file.file_name, (int)(shown < 60 ? shown : 60), h->name, lock->file.name);
    }
    if (h->words.high < 1 || h->words.high > RECORDS_MAX || h->words.kind > KIND_COUNTED ||
        h->words.permits > PERMITS_MAX) {
        return snib__file_fail(why, SNIB_EPROTO, 0,
                               "%.100s/%.180s is damaged; move it away when nobody uses it", path,
                               lock->file.file_name);
    }
    return 0;
}

/* ---- Reading ---------------------------------------------------------------------------- */

/* Bytes [from, to) of the file into the same bytes of the room; what is not there is zero. */
static int read_part(struct view *v, size_t from, size_t to, struct failure *why)
{
    char *bytes = (char *)v->lock->session->records;
    while (from < to) {
        ssize_t n = pread(v->lock->file.fd, bytes + from, to - from, (off_t)from);
        if (n < 0 && errno != EINTR) {
            return snib__file_lockfile_cannot(&v->lock->file, "read", errno, why);
        }
        if (n == 0) {
            memset(bytes + from, 0, to - from);
            break;
        }
        from += n < 0 ? 0 : (size_t)n;
    }
    v->bytes = from;
    return 0;
}

/* New, emptied, or cut before record 0 ends: what is there, if anything, was ours. */
static bool is_remnant(const struct view *v, const struct header *h)
{
    static const struct header none;
    struct header ours = {.version = FILE_VERSION,
                          .name_length = (uint32_t)strlen(v->lock->file.name)};
    memcpy(ours.magic, FILE_MAGIC, sizeof ours.magic);
    memcpy(ours.name, v->lock->file.name, ours.name_length);
    size_t identity = offsetof(struct header, words);
    size_t known = v->bytes < identity ? v->bytes : identity;
    return memcmp(h, &none, offsetof(struct header, name)) == 0 ||
           (v->bytes < sizeof(struct front) && memcmp(h, &ours, known) == 0);
}

static int read_records(struct view *v, struct failure *why)
{
    struct file_session *fs = v->lock->session;
    int rc = 0;
    v->bytes = snib__file_lockfile_read_page(&v->lock->file, v->looked, fs->records);
    v->looked = false;
    if (v->bytes < FILE_BYTES) { /* cut, or it cannot be read */
        rc = read_part(v, 0, FILE_BYTES, why);
    }
    if (rc < 0) {
        return rc;
    }
    const struct header *h = (const struct header *)(const void *)fs->records;
    if (is_remnant(v, h)) {
        rc = initialize(v, why);
    } else {
        rc = check_header(v->lock, h, why);
    }
    int sys = rc == 0 && v->bytes < FILE_BYTES ? reserve(v->lock) : 0;
    if (sys != 0) {
        rc = snib__file_lockfile_cannot(&v->lock->file, "write", sys, why);
    }
    if (rc < 0) {
        return rc;
    }
    size_t bytes = (size_t)record_at(h->words.high);
    if (bytes > FILE_BYTES) {
        if (!snib__file_record_make_room(fs, (size_t)h->words.high + 1)) {
            return snib__file_fail_memory(why);
        }
        v->records = fs->records + 1;
        rc = read_part(v, FILE_BYTES, bytes, why);
    }
    return rc;
}

static int by_order(const void *a, const void *b)
{
    const struct queue_entry *x = a;
    const struct queue_entry *y = b;
    return x->order < y->order ? -1 : x->order > y->order;
}

/* Our waiters come from our own table; a record that got lost is written again. */
static void add_own(struct view *v)
{
    struct lock *lock = v->lock;
    struct gate_words *words = &v->front.header.words;
    for (EACH_CLAIM(c, &lock->waiting)) {
        struct record *r = &v->records[c->record];
        if (c->record >= words->high || r->state != RECORD_WAITING || r->order != c->order) {
            *r = *snib__file_record_draft(c, RECORD_WAITING);
            (void)snib__file_record_write(lock, c->record, r);
            words->high = words->high > c->record ? words->high : c->record + 1;
        }
        v->entries[v->entry_count++] =
            (struct queue_entry){.order = c->order, .record = c->record, .own = c, .alive = true};
    }
    for (EACH_CLAIM(c, &lock->joining)) {
        v->entries[v->entry_count++] =
            (struct queue_entry){.order = UINT64_MAX, .own = c, .alive = true};
    }
}

/* Room for all turns there can be, and for the records of ours that are beyond what the header
 * admits to. */
static bool make_room_for_all(struct view *v)
{
    struct file_session *fs = v->lock->session;
    uint32_t high = v->front.header.words.high;
    uint32_t top = high;
    size_t most = high;
    for (EACH_CLAIM(c, &v->lock->waiting)) {
        most++;
        top = c->record >= top ? c->record + 1 : top;
    }
    for (EACH_CLAIM(c, &v->lock->joining)) {
        most++;
    }
    struct queue_entry *turns = realloc(v->entries, most * sizeof *turns);
    if (!turns || !snib__file_record_make_room(fs, (size_t)top + 1)) {
        v->entries = turns ? turns : v->entries;
        return false;
    }
    v->entries = turns;
    v->records = fs->records + 1;
    memset(v->records + high, 0, (top - high) * sizeof *v->records);
    return true;
}

static int add_turns(struct view *v, struct failure *why)
{
    struct lock *lock = v->lock;
    struct gate_words *words = &v->front.header.words;
    v->entry_count = 0;
    if (!make_room_for_all(v)) {
        return snib__file_fail_memory(why);
    }
    for (uint32_t i = 1; i < words->high; i++) {
        if (v->records[i].state == RECORD_WAITING && !bit_get(lock->own_records, i)) {
            v->entries[v->entry_count++] =
                (struct queue_entry){.order = v->records[i].order, .record = i};
        }
    }
    add_own(v);
    for (size_t i = 0; i < v->entry_count; i++) {
        if (v->entries[i].record && v->entries[i].order >= words->next_order &&
            v->entries[i].order < UINT64_MAX - 1) {
            words->next_order = v->entries[i].order + 1;
        }
    }
    qsort(v->entries, v->entry_count, sizeof *v->entries, by_order);
    return 0;
}

static void note_permits(struct view *v)
{
    struct lock *lock = v->lock;
    memcpy(v->claimed, lock->own_permits, sizeof v->claimed);
    v->swept = false;
    for (uint32_t i = 1; i < v->front.header.words.high; i++) {
        const struct record *r = &v->records[i];
        if (r->state == RECORD_HOLDING && r->mode == SNIB_COUNTED && r->permit < PERMITS_MAX) {
            bit_set(v->claimed, r->permit, true);
        }
    }
}

int snib__file_view_reload(struct view *v, struct failure *why)
{
    struct file_session *fs = v->lock->session;
    if (!snib__file_record_make_room(fs, FILE_BYTES / sizeof(struct record))) {
        return snib__file_fail_memory(why);
    }
    v->records = fs->records + 1;
    int rc = read_records(v, why);
    if (rc < 0) {
        return rc;
    }
    memcpy(&v->front, fs->records, sizeof v->front);
    v->before = v->front.header.words;
    v->waits_for_rung = v->blind = v->slot_seen = v->joined = false;
    rc = add_turns(v, why);
    note_permits(v);
    return rc;
}

/* ---- In and out ------------------------------------------------------------------------- */

static int try_gate(struct lock *lock)
{
    for (int i = 0;; i++) {
        int sys = snib__file_lock_range(lock->file.fd, F_WRLCK, GATE_AT, 1);
        if (sys != EAGAIN || i >= YIELDS + NAPS || lock->gate_misses > 2) {
            return sys;
        }
        if (i < YIELDS) {
            sched_yield();
        } else {
            nanosleep(&(struct timespec){.tv_nsec = NAP_NS}, NULL);
        }
    }
}

enum entered snib__file_view_enter(struct view *v, struct lock *lock, struct failure *why)
{
    memset(v, 0, sizeof *v);
    v->lock = lock;
    int sys = try_gate(lock);
    if (sys == EAGAIN) {
        lock->gate_misses++;
        return GATE_BUSY;
    }
    lock->gate_misses = 0;
    if (sys != 0) {
        snib__file_lockfile_cannot(&lock->file, "lock", sys, why);
        return ENTER_FAILED;
    }
    enum presence presence = snib__file_lockfile_check(&lock->file, file_tick(), why);
    if (presence == REPLACED) {
        snib__file_lockfile_unlock(&lock->file, GATE_AT, 1);
        return ENTER_REPLACED;
    }
    v->looked = presence == PRESENT;
    if (presence == REFUSED || snib__file_view_reload(v, why) < 0) {
        snib__file_lockfile_unlock(&lock->file, GATE_AT, 1);
        free(v->entries);
        return ENTER_FAILED;
    }
    return ENTERED;
}

int snib__file_view_write_words(struct view *v)
{
    struct gate_words *words = &v->front.header.words;
    if (memcmp(words, &v->before, sizeof *words) == 0) {
        return 0;
    }
    int sys = snib__file_lockfile_write(&v->lock->file, words, sizeof *words,
                                        offsetof(struct header, words));
    if (sys == 0) {
        v->before = *words;
    }
    return sys;
}

uint32_t snib__file_view_waiting(const struct view *v)
{
    uint32_t waiting = 0;
    for (size_t i = 0; i < v->entry_count; i++) {
        waiting += !v->entries[i].gone && v->entries[i].record ? 1 : 0;
    }
    return waiting;
}

static void lower_high(struct view *v)
{
    struct gate_words *words = &v->front.header.words;
    while (words->high > 1 && !bit_get(v->lock->own_records, words->high - 1) &&
           v->records[words->high - 1].state == RECORD_FREE) {
        words->high--;
    }
}

void snib__file_view_leave(struct view *v)
{
    struct lock *lock = v->lock;
    struct gate_words *words = &v->front.header.words;
    words->waiting = snib__file_view_waiting(v);
    if (words->high > PAGE_RECORDS || memcmp(words, &v->before, sizeof *words) != 0) {
        lower_high(v); /* within the page that is not worth a write of its own */
    }
    (void)snib__file_view_write_words(
        v); /* else it stays too high, and the next one counts again */
    snib__file_lockfile_unlock(&lock->file, GATE_AT, 1);
    for (size_t i = 0; i < v->ring_count; i++) {
        snib__file_bell_ring(&lock->session->bell, v->rings[i].bell, v->rings[i].cookie);
    }
    free(v->entries);
}

/* ---- Records ---------------------------------------------------------------------------- */

void snib__file_view_prune(struct view *v, uint32_t index)
{
    static const uint32_t state = RECORD_FREE;
    v->records[index].state = RECORD_FREE;
    (void)snib__file_lockfile_write(&v->lock->file, &state, sizeof state, record_at(index));
}

static bool take_record(struct view *v, uint32_t i)
{
    struct lock *lock = v->lock;
    if (bit_get(lock->own_records, i) ||
        snib__file_lock_range(lock->file.fd, F_WRLCK, ALIVE_AT + (off_t)i, 1) != 0) {
        return false;
    }
    bit_set(lock->own_records, i, true);
    return true;
}

/* The records of dead holders are found when there is nothing free below, and the number of
 * records is a power of two: often enough to stay within twice what is needed. */
static void sweep(struct view *v)
{
    uint32_t high = v->front.header.words.high;
    if (high & (high - 1)) {
        return;
    }
    for (uint32_t i = 1; i < high; i++) {
        if (v->records[i].state == RECORD_HOLDING && !snib__file_record_alive(v->lock, i)) {
            snib__file_view_prune(v, i);
        }
    }
}

uint32_t snib__file_view_take_record(struct view *v, struct failure *why)
{
    struct file_session *fs = v->lock->session;
    struct gate_words *words = &v->front.header.words;
    for (int pass = 0; pass < 2; pass++) {
        for (uint32_t i = 1; i < words->high; i++) {
            if (v->records[i].state == RECORD_FREE && take_record(v, i)) {
                return i;
            }
        }
        if (pass == 0) {
            sweep(v);
        }
    }
    for (uint32_t i = words->high; i < RECORDS_MAX; i++) {
        if (!snib__file_record_make_room(fs, (size_t)i + 2)) {
            break;
        }
        v->records = fs->records + 1;
        memset(&v->records[i], 0, sizeof v->records[i]);
        words->high = i + 1;
        if (take_record(v, i)) {
            return i;
        }
    }
    snib__file_fail(why, SNIB_ENOTSUP, 0, "more than %u hold '%.100s' or wait for it",
                    RECORDS_MAX - 1, v->lock->file.name);
    return 0;
}

void snib__file_view_ring(struct view *v, uint32_t index)
{
    struct record *r = &v->records[index];
    if (r->rung_order == r->order && r->cookie == v->lock->rang) {
        return; /* by us, and it is on its way */
    }
    snib__file_record_mark_rung(v->lock, index, r);
    for (size_t i = 0; i < v->ring_count; i++) {
        if (v->rings[i].cookie == r->cookie) {
            return;
        }
    }
    if (v->ring_count < RINGS_MAX) {
        v->rings[v->ring_count++] =
            (struct ring){.bell = snib__file_record_bell(r), .cookie = r->cookie};
    }
}

/* ---- Entries ---------------------------------------------------------------------------- */

bool snib__file_view_sift(struct view *v, struct queue_entry *e)
{
    if (e->gone || e->alive) {
        return !e->gone;
    }
    e->alive = snib__file_record_alive(v->lock, e->record);
    if (!e->alive) {
        snib__file_view_prune(v, e->record);
        e->gone = true;
    }
    return e->alive;
}

void snib__file_view_conclude(struct view *v, struct queue_entry *e, enum snib__status outcome,
                              const struct failure *why)
{
    struct file_claim *c = e->own;
    e->gone = true;
    v->refused = v->refused || outcome == SNIB__BUSY;
    if (c->record && (outcome != SNIB__HELD || c->claim->mode == SNIB_EXCLUSIVE)) {
        v->records[c->record].state = RECORD_FREE;
        if (outcome == SNIB__HELD) {
            snib__file_record_retire(v->lock, c->record);
        } else {
            snib__file_record_drop(v->lock, c->record);
        }
        c->record = 0;
    }
    snib__file_claim_conclude(c, outcome, why);
}

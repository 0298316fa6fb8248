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
#include "engines/file/file.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define YIELDS 12
#define NAPS 12
#define NAP_NS 40000L

static int say(const struct lockfile *f, struct failure *why, const char *what, int sys)
{
    return snib__file_fail(why, snib__file_code_of(sys), sys, "cannot %s %.100s/%.180s: %s", what,
                           f->session->path, f->file_name, strerror(sys));
}

static int write_at(const struct lockfile *f, const void *bytes, size_t size, off_t at)
{
    ssize_t n;
    do {
        n = pwrite(f->fd, bytes, size, at);
    } while (n < 0 && errno == EINTR);
    if (n >= 0 && n != (ssize_t)size) {
        errno = ENOSPC;
        return -1;
    }
    return n < 0 ? -1 : 0;
}

/* ---- The header ------------------------------------------------------------------------- */

/* Room for the header and the first records before anybody is granted anything. */
static int reserve(const struct lockfile *f)
{
    static const char zeros[FILE_BYTES];
    int rc;
    do {
        rc = fallocate(f->fd, 0, 0, FILE_BYTES);
    } while (rc < 0 && errno == EINTR);
    if (rc < 0 && (errno == EOPNOTSUPP || errno == ENOSYS)) {
        rc = write_at(f, zeros, sizeof zeros, 0);
    }
    return rc;
}

/* A new file, or one that somebody else emptied. Tokens go on from the wall clock. */
static int initialize(struct view *v, struct failure *why)
{
    struct lockfile *f = v->file;
    struct front front = {.header = {.version = FILE_VERSION,
                                     .name_length = (uint32_t)strlen(f->name),
                                     .words = {.next_ticket = 1, .high = 1}},
                          .holder = {.token = (uint64_t)snib__wall_us()}};
    memcpy(front.header.magic, FILE_MAGIC, sizeof front.header.magic);
    memcpy(front.header.name, f->name, front.header.name_length);
    if (reserve(f) < 0 || write_at(f, &front, sizeof front, 0) < 0) {
        return say(f, why, "write", errno);
    }
    memcpy(v->records - 1, &front, sizeof front);
    return 0;
}

static int check_header(const struct lockfile *f, const struct header *h, struct failure *why)
{
    size_t length = strlen(f->name);
    const char *path = f->session->path;
    if (memcmp(h->magic, FILE_MAGIC, sizeof h->magic) != 0) {
        return snib__file_fail(why, SNIB_EUNSAFE, 0,
                               "%.100s/%.180s is not a lock file of snib; move it away", path,
                               f->file_name);
    }
    if (h->version != FILE_VERSION) {
        return snib__file_fail(why, SNIB_ENOTSUP, 0,
                               "%.100s/%.180s is of version %u, this snib knows %u", path,
                               f->file_name, h->version, FILE_VERSION);
    }
    if (h->name_length != length || memcmp(h->name, f->name, length) != 0) {
        size_t shown = h->name_length < sizeof h->name ? h->name_length : sizeof h->name;
        return snib__file_fail(why, SNIB_EKIND, 0,
                               "%.60s/%.60s belongs to the lock '%.*s', not to '%.60s'", path,
                               f->file_name, (int)(shown < 60 ? shown : 60), h->name, f->name);
    }
    if (h->words.high < 1 || h->words.high > RECORDS_MAX || h->words.kind > KIND_COUNTED ||
        h->words.permits > PERMITS_MAX) {
        return snib__file_fail(why, SNIB_EPROTO, 0,
                               "%.100s/%.180s is damaged; move it away when nobody uses it", path,
                               f->file_name);
    }
    return 0;
}

/* ---- Reading ---------------------------------------------------------------------------- */

bool snib__file_make_room(struct file_session *fs, size_t records)
{
    if (records <= fs->record_room) {
        return true;
    }
    size_t room = fs->record_room ? fs->record_room : 16;
    while (room < records) {
        room *= 2;
    }
    struct record *more = realloc(fs->records, room * sizeof *more);
    if (!more) {
        return false;
    }
    fs->records = more;
    fs->record_room = room;
    return true;
}

/* Bytes [from, to) of the file into the same bytes of the room; what is not there is zero. */
static int read_part(struct view *v, size_t from, size_t to, struct failure *why)
{
    char *bytes = (char *)v->file->session->records;
    while (from < to) {
        ssize_t n = pread(v->file->fd, bytes + from, to - from, (off_t)from);
        if (n < 0 && errno != EINTR) {
            return say(v->file, why, "read", errno);
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
    struct header ours = {.version = FILE_VERSION, .name_length = (uint32_t)strlen(v->file->name)};
    memcpy(ours.magic, FILE_MAGIC, sizeof ours.magic);
    memcpy(ours.name, v->file->name, ours.name_length);
    size_t identity = offsetof(struct header, words);
    size_t known = v->bytes < identity ? v->bytes : identity;
    return memcmp(h, &none, offsetof(struct header, name)) == 0 ||
           (v->bytes < sizeof(struct front) && memcmp(h, &ours, known) == 0);
}

static int read_records(struct view *v, struct failure *why)
{
    struct file_session *fs = v->file->session;
    int rc = read_part(v, 0, FILE_BYTES, why);
    if (rc < 0) {
        return rc;
    }
    const struct header *h = (const struct header *)(const void *)fs->records;
    if (is_remnant(v, h)) {
        rc = initialize(v, why);
    } else {
        rc = check_header(v->file, h, why);
    }
    if (rc == 0 && v->bytes < FILE_BYTES && reserve(v->file) < 0) {
        rc = say(v->file, why, "write", errno);
    }
    if (rc < 0) {
        return rc;
    }
    size_t bytes = (size_t)record_at(h->words.high);
    if (bytes > FILE_BYTES) {
        if (!snib__file_make_room(fs, (size_t)h->words.high + 1)) {
            return snib__file_fail(why, SNIB_ENOMEM, ENOMEM, "out of memory");
        }
        v->records = fs->records + 1;
        rc = read_part(v, FILE_BYTES, bytes, why);
    }
    return rc;
}

static int by_ticket(const void *a, const void *b)
{
    const struct turn *x = a;
    const struct turn *y = b;
    return x->ticket < y->ticket ? -1 : x->ticket > y->ticket;
}

/* Our waiters come from our own table; a record that got lost is written again. */
static void add_own(struct view *v)
{
    struct lockfile *f = v->file;
    struct gate_words *words = &v->front.header.words;
    for (struct file_claim *c = f->waiting.first; c; c = c->after) {
        struct record *r = &v->records[c->record];
        if (c->record >= words->high || r->state != RECORD_WAITING || r->ticket != c->ticket) {
            *r = *snib__file_draft(c, RECORD_WAITING);
            (void)snib__file_record_write(f, c->record, r);
            words->high = words->high > c->record ? words->high : c->record + 1;
        }
        v->turns[v->turn_count++] =
            (struct turn){.ticket = c->ticket, .record = c->record, .own = c, .alive = true};
    }
    for (struct file_claim *c = f->joining.first; c; c = c->after) {
        v->turns[v->turn_count++] = (struct turn){.ticket = UINT64_MAX, .own = c, .alive = true};
    }
}

/* Room for all turns there can be, and for the records of ours that are beyond what the header
 * admits to. */
static bool make_room_for_all(struct view *v)
{
    struct file_session *fs = v->file->session;
    uint32_t high = v->front.header.words.high;
    uint32_t top = high;
    size_t most = high;
    for (const struct file_claim *c = v->file->waiting.first; c; c = c->after) {
        most++;
        top = c->record >= top ? c->record + 1 : top;
    }
    for (const struct file_claim *c = v->file->joining.first; c; c = c->after) {
        most++;
    }
    struct turn *turns = realloc(v->turns, most * sizeof *turns);
    if (!turns || !snib__file_make_room(fs, (size_t)top + 1)) {
        v->turns = turns ? turns : v->turns;
        return false;
    }
    v->turns = turns;
    v->records = fs->records + 1;
    memset(v->records + high, 0, (top - high) * sizeof *v->records);
    return true;
}

static int add_turns(struct view *v, struct failure *why)
{
    struct lockfile *f = v->file;
    struct gate_words *words = &v->front.header.words;
    v->turn_count = 0;
    if (!make_room_for_all(v)) {
        return snib__file_fail(why, SNIB_ENOMEM, ENOMEM, "out of memory");
    }
    for (uint32_t i = 1; i < words->high; i++) {
        if (v->records[i].state == RECORD_WAITING && !bit_get(f->own_records, i)) {
            v->turns[v->turn_count++] = (struct turn){.ticket = v->records[i].ticket, .record = i};
        }
    }
    add_own(v);
    for (size_t i = 0; i < v->turn_count; i++) {
        if (v->turns[i].record && v->turns[i].ticket >= words->next_ticket &&
            v->turns[i].ticket < UINT64_MAX - 1) {
            words->next_ticket = v->turns[i].ticket + 1;
        }
    }
    qsort(v->turns, v->turn_count, sizeof *v->turns, by_ticket);
    return 0;
}

static void note_permits(struct view *v)
{
    struct lockfile *f = v->file;
    memcpy(v->claimed, f->own_permits, sizeof v->claimed);
    v->swept = false;
    for (uint32_t i = 1; i < v->front.header.words.high; i++) {
        const struct record *r = &v->records[i];
        if (r->state == RECORD_HOLDING && r->mode == SNIB_COUNTED && r->permit < PERMITS_MAX) {
            bit_set(v->claimed, r->permit, true);
        }
    }
}

int snib__file_reload(struct view *v, struct failure *why)
{
    struct file_session *fs = v->file->session;
    if (!snib__file_make_room(fs, FILE_BYTES / sizeof(struct record))) {
        return snib__file_fail(why, SNIB_ENOMEM, ENOMEM, "out of memory");
    }
    v->records = fs->records + 1;
    int rc = read_records(v, why);
    if (rc < 0) {
        return rc;
    }
    memcpy(&v->front, fs->records, sizeof v->front);
    v->before = v->front.header.words;
    v->waits_for_rung = v->blind = false;
    rc = add_turns(v, why);
    note_permits(v);
    return rc;
}

/* ---- In and out ------------------------------------------------------------------------- */

static int try_gate(struct lockfile *f)
{
    for (int i = 0;; i++) {
        int sys = file_lock(f->fd, F_WRLCK, GATE_AT, 1);
        if (sys != EAGAIN || i >= YIELDS + NAPS || f->gate_misses > 2) {
            return sys;
        }
        if (i < YIELDS) {
            sched_yield();
        } else {
            nanosleep(&(struct timespec){.tv_nsec = NAP_NS}, NULL);
        }
    }
}

enum entered snib__file_enter(struct view *v, struct lockfile *f, struct failure *why)
{
    memset(v, 0, sizeof *v);
    v->file = f;
    int sys = try_gate(f);
    if (sys == EAGAIN) {
        f->gate_misses++;
        return GATE_BUSY;
    }
    f->gate_misses = 0;
    if (sys != 0) {
        say(f, why, "lock", sys);
        return ENTER_FAILED;
    }
    enum presence presence = snib__file_presence(f, file_tick(), why);
    if (presence == REPLACED) {
        snib__file_unlock(f, GATE_AT, 1);
        return ENTER_REPLACED;
    }
    if (presence == REFUSED || snib__file_reload(v, why) < 0) {
        snib__file_unlock(f, GATE_AT, 1);
        free(v->turns);
        return ENTER_FAILED;
    }
    return ENTERED;
}

int snib__file_write_words(struct view *v)
{
    struct gate_words *words = &v->front.header.words;
    if (memcmp(words, &v->before, sizeof *words) == 0) {
        return 0;
    }
    if (write_at(v->file, words, sizeof *words, offsetof(struct header, words)) < 0) {
        return errno;
    }
    v->before = *words;
    return 0;
}

void snib__file_leave(struct view *v)
{
    struct lockfile *f = v->file;
    struct gate_words *words = &v->front.header.words;
    words->waiting = 0;
    for (size_t i = 0; i < v->turn_count; i++) {
        words->waiting += !v->turns[i].gone && v->turns[i].record ? 1 : 0;
    }
    while (words->high > 1 && !bit_get(f->own_records, words->high - 1) &&
           v->records[words->high - 1].state == RECORD_FREE) {
        words->high--;
    }
    (void)snib__file_write_words(v); /* else it stays too high, and the next one counts again */
    snib__file_unlock(f, GATE_AT, 1);
    for (size_t i = 0; i < v->ring_count; i++) {
        snib__file_ring(f->session, &v->rings[i]);
    }
    free(v->turns);
}

/* ---- Records ---------------------------------------------------------------------------- */

int snib__file_record_write(struct lockfile *f, uint32_t index, const struct record *r)
{
    return write_at(f, r, sizeof *r, record_at(index));
}

int snib__file_token_write(struct lockfile *f, uint64_t token)
{
    return write_at(f, &token, sizeof token, record_at(0) + (off_t)offsetof(struct record, token));
}

/* Free again. Its owner needs no gate for that; the number of waiters is corrected by the next
 * who goes through. First the state, then the byte: who sees the byte free prunes. */
void snib__file_record_drop(struct lockfile *f, uint32_t index)
{
    static const uint32_t state = RECORD_FREE;
    (void)write_at(f, &state, sizeof state, record_at(index));
    bit_set(f->own_records, index, false);
    snib__file_unlock(f, ALIVE_AT + (off_t)index, 1);
}

bool snib__file_record_alive(struct view *v, uint32_t index)
{
    struct flock found;
    return bit_get(v->file->own_records, index) ||
           snib__file_blocked(v->file->fd, F_WRLCK, ALIVE_AT + (off_t)index, 1, &found);
}

void snib__file_prune(struct view *v, uint32_t index)
{
    static const uint32_t state = RECORD_FREE;
    v->records[index].state = RECORD_FREE;
    (void)write_at(v->file, &state, sizeof state, record_at(index));
}

static bool take_record(struct view *v, uint32_t i)
{
    struct lockfile *f = v->file;
    if (bit_get(f->own_records, i) || file_lock(f->fd, F_WRLCK, ALIVE_AT + (off_t)i, 1) != 0) {
        return false;
    }
    bit_set(f->own_records, i, true);
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
        if (v->records[i].state == RECORD_HOLDING && !snib__file_record_alive(v, i)) {
            snib__file_prune(v, i);
        }
    }
}

uint32_t snib__file_record_take(struct view *v, struct failure *why)
{
    struct file_session *fs = v->file->session;
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
        if (!snib__file_make_room(fs, (size_t)i + 2)) {
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
                    RECORDS_MAX - 1, v->file->name);
    return 0;
}

void snib__file_mark_rung(struct lockfile *f, uint32_t index, struct record *r)
{
    if (r->rung_ticket == r->ticket) {
        return; /* the first call counts: it is what the waiter has not answered */
    }
    r->rung_ticket = r->ticket;
    r->rung_ms = boot_ms();
    (void)write_at(f, &r->rung_ticket, sizeof r->rung_ticket + sizeof r->rung_ms,
                   record_at(index) + (off_t)offsetof(struct record, rung_ticket));
}

void snib__file_clear_rung(struct lockfile *f, uint32_t index, struct record *r)
{
    r->rung_ticket = 0;
    (void)write_at(f, &r->rung_ticket, sizeof r->rung_ticket,
                   record_at(index) + (off_t)offsetof(struct record, rung_ticket));
}

void snib__file_ring_add(struct view *v, uint32_t index)
{
    struct record *r = &v->records[index];
    snib__file_mark_rung(v->file, index, r);
    for (size_t i = 0; i < v->ring_count; i++) {
        if (v->rings[i].cookie == r->cookie) {
            return;
        }
    }
    if (v->ring_count < RINGS_MAX) {
        v->rings[v->ring_count++] =
            (struct ring){.pid = r->pid, .session = r->session, .cookie = r->cookie};
    }
}

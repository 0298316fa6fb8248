/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Everybody at one name, seen from outside.
 *
 * Through a descriptor of its own, so that the kernel shows the locks of our own session like
 * those of everybody else. Records are shown only if the lock behind them is there: a shared or
 * counted holder and a waiter by its alive byte, an exclusive holder by the length of its slot
 * lock, which must be the one its record claims. Between locking and writing there is a moment
 * when a holder has no record; then we look again a few times, and if it stays so, the process
 * number from the kernel is all that is said. The same holds for a file that somebody has cut while
 * it was in use: it excludes as before, and it is not called free. Waiters write their records
 * again by themselves.
 *
 * The gate is read-locked meanwhile if it can be had, so that nobody is seen twice or not at all.
 */
#include "engines/file/inspection.h"

#include "engines/file/record.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define GATE_TRIES 30
#define SLOT_TRIES 10
#define NAP_NS 50000L

static void nap(int i)
{
    if (i < 5) {
        sched_yield();
    } else {
        nanosleep(&(struct timespec){.tv_nsec = NAP_NS}, NULL);
    }
}

static ssize_t read_all(int fd, void *bytes, size_t size, off_t at)
{
    ssize_t n;
    do {
        n = pread(fd, bytes, size, at);
    } while (n < 0 && errno == EINTR);
    return n;
}

static void read_slot(struct inspection *s, int fd)
{
    for (int i = 0; i < SLOT_TRIES; i++) {
        s->exclusive = false;
        if (!snib__file_blocked(fd, F_WRLCK, SLOT_AT, 1, &s->slot) || s->slot.l_type == F_RDLCK) {
            return;
        }
        struct record holder;
        if (read_all(fd, &holder, sizeof holder, record_at(0)) == (ssize_t)sizeof holder &&
            snib__file_record_proved(&holder, &s->slot)) {
            s->holder = holder;
            s->exclusive = true;
            return;
        }
        nap(i);
    }
    struct slot_owner o = slot_owner_of(s->slot.l_len);
    s->exclusive = o.pid != 0;
    s->holder = (struct record){.pid = o.pid, .mode = SNIB_EXCLUSIVE};
    snprintf(s->holder.who, sizeof s->holder.who, "pid %u", o.pid);
}

/* Somebody whose record is gone: of one who shares the kernel tells the process number, of one with
 * a permit nothing. */
static void note_unnoted(struct inspection *s, int fd)
{
    struct flock permit;
    struct slot_owner o = {.pid = 0};
    if (s->exclusive || s->holders > 0) {
        return;
    }
    if (s->slot.l_type == F_RDLCK) {
        o = slot_owner_of(s->slot.l_len);
    }
    if (o.pid != 0) {
        s->holder = (struct record){.pid = o.pid, .mode = SNIB_SHARED};
        snprintf(s->holder.who, sizeof s->holder.who, "pid %u", o.pid);
        s->unnoted = true;
    } else if (snib__file_blocked(fd, F_WRLCK, PERMIT_AT, PERMITS_MAX, &permit)) {
        s->holder = (struct record){.mode = SNIB_COUNTED};
        snprintf(s->holder.who, sizeof s->holder.who, "unknown");
        s->unnoted = true;
    }
}

static bool lives(int fd, uint32_t index)
{
    struct flock found;
    return snib__file_blocked(fd, F_WRLCK, ALIVE_AT + (off_t)index, 1, &found);
}

/* Holders before waiters, waiters in their order. */
static int in_order(const void *a, const void *b)
{
    const struct record *x = a;
    const struct record *y = b;
    bool x_holds = x->state == RECORD_HOLDING;
    bool y_holds = y->state == RECORD_HOLDING;
    if (x_holds != y_holds) {
        return x_holds ? -1 : 1;
    }
    uint64_t x_key = x_holds ? (uint64_t)x->since_ms : x->order;
    uint64_t y_key = y_holds ? (uint64_t)y->since_ms : y->order;
    return x_key < y_key ? -1 : x_key > y_key;
}

/* All that the file has room for, not only those the header admits to: who went around the gate
 * may be above them. */
static int read_records(struct inspection *s, int fd, uint64_t file_size, struct failure *why)
{
    uint64_t high = file_size / sizeof(struct record); /* the header is as long as one */
    high = high > s->header.words.high ? high : s->header.words.high;
    high = high < RECORDS_MAX ? high : RECORDS_MAX;
    if (high < 2) {
        return 0;
    }
    s->records = malloc(high * sizeof *s->records);
    if (!s->records) {
        return snib__file_fail_memory(why);
    }
    ssize_t n = read_all(fd, s->records, high * sizeof *s->records, record_at(0));
    uint32_t there = n < 0 ? 0 : (uint32_t)((size_t)n / sizeof *s->records);
    for (uint32_t i = 1; i < there; i++) {
        struct record *r = &s->records[i];
        if (r->state == RECORD_FREE || !lives(fd, i)) {
            continue;
        }
        r->who[sizeof r->who - 1] = r->label[sizeof r->label - 1] = '\0';
        s->holders += r->state == RECORD_HOLDING ? 1 : 0;
        s->records[s->count++] = *r;
    }
    qsort(s->records, s->count, sizeof *s->records, in_order);
    return 0;
}

/* New, emptied, or cut within the header: no more than its first bytes, if anything. */
static bool is_remnant(const struct header *h, size_t bytes)
{
    static const struct header none;
    size_t magic = bytes < sizeof h->magic ? bytes : sizeof h->magic;
    return memcmp(h, &none, sizeof none) == 0 ||
           (bytes < sizeof *h && memcmp(h->magic, FILE_MAGIC, magic) == 0);
}

static int read_contents(struct inspection *s, int fd, uint64_t file_size, struct failure *why)
{
    ssize_t n = read_all(fd, &s->header, sizeof s->header, 0);
    int rc = 0;
    if (n >= 0 && is_remnant(&s->header, (size_t)n)) {
        memset(&s->header, 0, sizeof s->header);
        read_slot(s, fd);
    } else if (n == (ssize_t)sizeof s->header &&
               memcmp(s->header.magic, FILE_MAGIC, sizeof s->header.magic) == 0) {
        read_slot(s, fd);
        rc = read_records(s, fd, file_size, why);
    } else {
        return SNIB_EUNSAFE;
    }
    note_unnoted(s, fd);
    return rc;
}

int snib__file_inspection_begin(struct inspection *s, struct cache *cache, const char *file_name,
                                struct failure *why)
{
    struct statx st;
    memset(s, 0, sizeof *s);
    s->slot.l_type = F_UNLCK;
    int fd = snib__file_lockfile_open(cache, file_name, O_RDONLY, why);
    if (fd < 0) {
        return why->sys == ENOENT ? 1 : fd;
    }
    int rc = 0;
    if (statx(fd, "", AT_EMPTY_PATH, STATX_BASIC_STATS & ~STATX_MTIME & ~STATX_CTIME, &st) != 0) {
        rc = snib__file_fail(why, SNIB_ESYS, errno, "stat %.100s/%.180s", cache->directory->path,
                             file_name);
    } else {
        rc = snib__file_lockfile_trust(cache->directory, file_name, &st, why);
    }
    if (rc < 0) {
        close(fd);
        return rc;
    }
    for (int i = 0; i < GATE_TRIES; i++) {
        if (snib__file_lock_range(fd, F_RDLCK, GATE_AT, 1) != EAGAIN) {
            break;
        }
        nap(i);
    }
    rc = read_contents(s, fd, st.stx_size, why);
    if (rc == SNIB_EUNSAFE) {
        rc = snib__file_fail(why, SNIB_EUNSAFE, 0, "%.100s/%.180s is not a lock file of snib",
                             cache->directory->path, file_name);
    }
    close(fd); /* and with it the gate */
    s->holder.who[sizeof s->holder.who - 1] = s->holder.label[sizeof s->holder.label - 1] = '\0';
    return rc;
}

void snib__file_inspection_end(struct inspection *s)
{
    free(s->records);
    s->records = NULL;
}

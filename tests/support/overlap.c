/*
 * The log of beliefs, and the sweep that judges it.
 *
 * The log is an array in shared memory. A writer takes the next slot with one atomic addition,
 * fills it and publishes it; a process that is killed in between leaves a slot that nobody reads.
 * There is no lock that a killed process could leave taken.
 *
 * A killed process cannot say when it ceased to believe. Its killer says so, with the instant
 * before the kill: that shortens the belief by the microseconds of the kill itself, and so never
 * accuses a lock that was handed on the moment the holder died.
 *
 * The sweep goes through the beliefs of one name in the order of their grants and remembers, per
 * mode, the one that ends last. Counted beliefs are kept in a list of those still open.
 */
#include "overlap.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum kind { EMPTY, BELIEF, DEATH };

struct entry {
    _Atomic int kind;
    struct overlap_grant grant;
    pid_t owner;
    int64_t granted_ns; /* of a death: its instant */
    _Atomic int64_t ended_ns;
    _Atomic int64_t deadline_ns;
};

struct overlap_log {
    size_t capacity;
    _Atomic size_t used;
    struct entry entries[];
};

/* A belief with its end worked out. */
struct interval {
    struct overlap_grant grant;
    pid_t owner;
    int64_t from;
    int64_t to;
};

/* ---- Writing ---------------------------------------------------------------------------- */

struct overlap_log *overlap_open(size_t capacity)
{
    struct overlap_log *log = check_shared(sizeof *log + capacity * sizeof log->entries[0]);
    log->capacity = capacity;
    return log;
}

static size_t take_slot(struct overlap_log *log)
{
    size_t slot = atomic_fetch_add(&log->used, 1);
    if (slot >= log->capacity) {
        FAIL("the overlap log is full: %zu entries", log->capacity);
    }
    return slot;
}

size_t overlap_add(struct overlap_log *log, const struct overlap_grant *grant, pid_t owner,
                   int64_t granted_ns, int64_t ended_ns)
{
    size_t slot = take_slot(log);
    struct entry *entry = &log->entries[slot];
    entry->grant = *grant;
    entry->owner = owner;
    entry->granted_ns = granted_ns;
    atomic_store(&entry->ended_ns, ended_ns);
    atomic_store(&entry->kind, BELIEF);
    return slot;
}

size_t overlap_begin(struct overlap_log *log, const struct overlap_grant *grant)
{
    return overlap_add(log, grant, getpid(), check_now_ns(), 0);
}

void overlap_end(struct overlap_log *log, size_t belief)
{
    atomic_store(&log->entries[belief].ended_ns, check_now_ns());
}

void overlap_deadline(struct overlap_log *log, size_t belief, int64_t boottime_ns)
{
    atomic_store(&log->entries[belief].deadline_ns, boottime_ns);
}

void overlap_died(struct overlap_log *log, pid_t pid, int64_t boottime_ns)
{
    struct entry *entry = &log->entries[take_slot(log)];
    entry->owner = pid;
    entry->granted_ns = boottime_ns;
    atomic_store(&entry->kind, DEATH);
}

void overlap_kill(struct overlap_log *log, pid_t pid)
{
    overlap_died(log, pid, check_now_ns());
    check_kill(pid);
}

/* ---- Working out the ends --------------------------------------------------------------- */

/* The first death of this process after the grant. A grant noted between the killer's look at
 * the clock and the kill has none; it ends with the last death, before it began. */
static int64_t death_of(const struct overlap_log *log, size_t count, const struct entry *belief)
{
    int64_t first_after = 0;
    int64_t last = 0;
    for (size_t i = 0; i < count; i++) {
        const struct entry *entry = &log->entries[i];
        if (atomic_load(&entry->kind) != DEATH || entry->owner != belief->owner) {
            continue;
        }
        int64_t at = entry->granted_ns;
        if (at >= belief->granted_ns && (first_after == 0 || at < first_after)) {
            first_after = at;
        }
        last = at > last ? at : last;
    }
    return first_after != 0 ? first_after : last;
}

static int64_t end_of(const struct overlap_log *log, size_t count, const struct entry *belief)
{
    int64_t ended = atomic_load(&belief->ended_ns);
    int64_t deadline = atomic_load(&belief->deadline_ns);
    if (ended == 0) {
        ended = death_of(log, count, belief);
    }
    if (ended == 0) {
        ended = INT64_MAX;
    }
    return deadline != 0 && deadline < ended ? deadline : ended;
}

static int by_name_and_time(const void *a, const void *b)
{
    const struct interval *left = a;
    const struct interval *right = b;
    if (left->grant.name != right->grant.name) {
        return left->grant.name < right->grant.name ? -1 : 1;
    }
    return (left->from > right->from) - (left->from < right->from);
}

/* All beliefs that lasted any time, in order; to be freed. */
static struct interval *collect(struct overlap_log *log, size_t *count,
                                struct overlap_report *report)
{
    size_t used = atomic_load(&log->used);
    used = used < log->capacity ? used : log->capacity;
    struct interval *list = calloc(used + 1, sizeof *list);
    CHECK(list != NULL);
    *count = 0;
    for (size_t i = 0; i < used; i++) {
        const struct entry *entry = &log->entries[i];
        if (atomic_load(&entry->kind) != BELIEF) {
            continue;
        }
        report->beliefs++;
        int64_t to = end_of(log, used, entry);
        report->open += to == INT64_MAX;
        if (to > entry->granted_ns) {
            list[(*count)++] = (struct interval){entry->grant, entry->owner, entry->granted_ns, to};
        }
    }
    qsort(list, *count, sizeof *list, by_name_and_time);
    return list;
}

/* ---- The sweep -------------------------------------------------------------------------- */

/* What is known about one name while going through its beliefs. */
struct sweep {
    const struct interval *last[3]; /* per mode, the one that ends last */
    const struct interval *last_exclusive_grant;
    const struct interval **counted; /* those that may still be open */
    size_t counted_size;
};

static void tell(struct overlap_report *report, const char *line)
{
    size_t used = strlen(report->text);
    if (used + strlen(line) < sizeof report->text) {
        strcpy(report->text + used, line);
    }
}

static const char *mode_name(enum overlap_mode mode)
{
    static const char *const names[] = {"exclusive", "shared", "counted"};
    return names[mode];
}

static void report_overlap(struct overlap_report *report, const struct interval *first,
                           const struct interval *second)
{
    int64_t to = first->to < second->to ? first->to : second->to;
    int64_t overlap_us = (to - second->from) / 1000;
    report->overlaps++;
    if (overlap_us > report->worst_us) {
        report->worst_us = overlap_us;
    }
    char line[256];
    snprintf(line, sizeof line,
             "name %" PRIu32 ": process %d (%s, token %" PRIu64
             ") and process %d (%s, token %" PRIu64 ") both believed for %" PRId64 " us\n",
             second->grant.name, first->owner, mode_name(first->grant.mode), first->grant.token,
             second->owner, mode_name(second->grant.mode), second->grant.token, overlap_us);
    tell(report, line);
}

/* The belief that ends last among those whose mode excludes `mode`. */
static const struct interval *excluder(const struct sweep *sweep, enum overlap_mode mode)
{
    const struct interval *latest = NULL;
    for (enum overlap_mode other = OVERLAP_EXCLUSIVE; other <= OVERLAP_COUNTED; other++) {
        const struct interval *one = sweep->last[other];
        bool excludes = mode == OVERLAP_EXCLUSIVE || other != mode;
        if (excludes && one != NULL && (latest == NULL || one->to > latest->to)) {
            latest = one;
        }
    }
    return latest;
}

/* Of too many counted beliefs, the one that would have to end for this one to be right. */
static const struct interval *add_counted(struct sweep *sweep, const struct interval *belief)
{
    size_t kept = 0;
    const struct interval *soonest = NULL;
    for (size_t i = 0; i < sweep->counted_size; i++) {
        const struct interval *one = sweep->counted[i];
        if (one->to > belief->from) {
            sweep->counted[kept++] = one;
            soonest = soonest == NULL || one->to < soonest->to ? one : soonest;
        }
    }
    bool full = kept >= belief->grant.permits;
    sweep->counted[kept++] = belief;
    sweep->counted_size = kept;
    return full ? soonest : NULL;
}

static void check_token(struct sweep *sweep, const struct interval *belief,
                        struct overlap_report *report)
{
    const struct interval *before = sweep->last_exclusive_grant;
    if (belief->grant.mode != OVERLAP_EXCLUSIVE || belief->grant.token == 0) {
        return;
    }
    if (before != NULL && belief->grant.token <= before->grant.token) {
        char line[192];
        snprintf(line, sizeof line,
                 "name %" PRIu32 ": process %d was granted token %" PRIu64
                 " after process %d had %" PRIu64 "\n",
                 belief->grant.name, belief->owner, belief->grant.token, before->owner,
                 before->grant.token);
        report->token_slips++;
        tell(report, line);
    }
    sweep->last_exclusive_grant = belief;
}

static void sweep_one(struct sweep *sweep, const struct interval *belief,
                      struct overlap_report *report)
{
    const struct interval *other = excluder(sweep, belief->grant.mode);
    if (other != NULL && other->to > belief->from) {
        report_overlap(report, other, belief);
    }
    if (belief->grant.mode == OVERLAP_COUNTED) {
        other = add_counted(sweep, belief);
        if (other != NULL) {
            report_overlap(report, other, belief);
        }
    }
    check_token(sweep, belief, report);
    const struct interval **last = &sweep->last[belief->grant.mode];
    if (*last == NULL || belief->to > (*last)->to) {
        *last = belief;
    }
}

bool overlap_check(struct overlap_log *log, struct overlap_report *report)
{
    size_t count;
    memset(report, 0, sizeof *report);
    struct interval *list = collect(log, &count, report);
    const struct interval **counted = calloc(count + 1, sizeof *counted);
    CHECK(counted != NULL);
    struct sweep sweep = {.counted = counted};
    for (size_t i = 0; i < count; i++) {
        if (i > 0 && list[i].grant.name != list[i - 1].grant.name) {
            sweep = (struct sweep){.counted = counted};
        }
        sweep_one(&sweep, &list[i], report);
    }
    free(counted);
    free(list);
    return report->overlaps == 0 && report->token_slips == 0;
}

void overlap_assert_at(const char *file, int line, struct overlap_log *log)
{
    struct overlap_report report;
    if (!overlap_check(log, &report)) {
        check_fail_at(
            file, line,
            "%zu overlaps (the longest %" PRId64 " us) and %zu token slips in %zu beliefs:\n%s",
            report.overlaps, report.worst_us, report.token_slips, report.beliefs, report.text);
    }
}

/* ---- Lost updates ----------------------------------------------------------------------- */

static void pause_for(int pause_us)
{
    if (pause_us > 0) {
        usleep((useconds_t)pause_us);
    }
}

uint64_t racy_increment(struct racy_counter *counter, int pause_us)
{
    atomic_fetch_add(&counter->begun, 1);
    uint64_t value = atomic_load_explicit(&counter->word, memory_order_relaxed);
    pause_for(pause_us);
    atomic_store_explicit(&counter->word, value + 1, memory_order_relaxed);
    atomic_fetch_add(&counter->done, 1);
    return value + 1;
}

static int open_counter(const char *path)
{
    int descriptor = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (descriptor < 0) {
        FAIL("%s: %s", path, strerror(errno));
    }
    return descriptor;
}

static uint64_t read_counter(int descriptor)
{
    uint64_t value = 0;
    ssize_t got = pread(descriptor, &value, sizeof value, 0);
    CHECK(got == 0 || got == (ssize_t)sizeof value);
    return value;
}

uint64_t racy_increment_file(struct racy_counter *counter, const char *path, int pause_us)
{
    int descriptor = open_counter(path);
    atomic_fetch_add(&counter->begun, 1);
    uint64_t value = read_counter(descriptor) + 1;
    pause_for(pause_us);
    CHECK(pwrite(descriptor, &value, sizeof value, 0) == (ssize_t)sizeof value);
    atomic_fetch_add(&counter->done, 1);
    close(descriptor);
    return value;
}

uint64_t racy_read_file(const char *path)
{
    int descriptor = open_counter(path);
    uint64_t value = read_counter(descriptor);
    close(descriptor);
    return value;
}

int64_t racy_lost(struct racy_counter *counter, uint64_t value)
{
    uint64_t done = atomic_load(&counter->done);
    uint64_t begun = atomic_load(&counter->begun);
    if (value < done) {
        return (int64_t)(done - value);
    }
    return value > begun ? -(int64_t)(value - begun) : 0;
}

/*
 * Did two owners believe in one lock at the same time?
 *
 * All test processes share one machine and so one CLOCK_BOOTTIME. Each writes down when it began
 * and when it ceased to believe that it holds a name; afterwards the intervals are sorted and
 * swept. That finds every overlap, with its length, without any search.
 *
 *     struct overlap_log *log = overlap_open(100000);          before forking
 *
 *     acquire(...);
 *     size_t belief = overlap_begin(log, &(struct overlap_grant){.name = 1, .token = token});
 *     ... the critical section ...
 *     overlap_end(log, belief);
 *     release(...);
 *
 *     overlap_assert(log);                                     when all is over
 *
 * The order matters: begin after the grant is known, end before the release is asked for. Then
 * an honest lock never shows an overlap, however slow the machine. Re-entry is no new belief.
 */
#ifndef SNIB_TESTS_OVERLAP_H
#define SNIB_TESTS_OVERLAP_H

#include "check.h"

enum overlap_mode { OVERLAP_EXCLUSIVE, OVERLAP_SHARED, OVERLAP_COUNTED };

struct overlap_grant {
    uint32_t name; /* any number that stands for the lock's name */
    enum overlap_mode mode;
    uint32_t permits; /* the N of a counted lock */
    uint64_t token;   /* 0: not checked */
};

struct overlap_log;

/* Shared memory for this many beliefs and deaths together; more fail the case. */
struct overlap_log *overlap_open(size_t capacity);

/* From now on this process believes; answers the number of the belief. */
size_t overlap_begin(struct overlap_log *log, const struct overlap_grant *grant);

/* The belief ends now; or it ends, at the latest, at this instant unless it is moved again (the
 * lease's own deadline, after each renewal). */
void overlap_end(struct overlap_log *log, size_t belief);
void overlap_deadline(struct overlap_log *log, size_t belief, int64_t boottime_ns);

/* The same with instants of the caller's; for tests of other clocks. ended_ns 0: still open. */
size_t overlap_add(struct overlap_log *log, const struct overlap_grant *grant, pid_t owner,
                   int64_t granted_ns, int64_t ended_ns);

/* Open beliefs of this process end at this instant: the last one at which it was surely alive,
 * so read the clock before killing. overlap_kill does both, and check_kill. */
void overlap_died(struct overlap_log *log, pid_t pid, int64_t boottime_ns);
void overlap_kill(struct overlap_log *log, pid_t pid);

struct overlap_report {
    size_t beliefs;
    size_t open;        /* neither ended nor cut by a deadline or a death */
    size_t overlaps;    /* beliefs that began while others excluded them */
    size_t token_slips; /* exclusive grants whose token is not above the one before */
    int64_t worst_us;   /* the longest overlap */
    char text[4096];    /* the first of them, one per line */
};

/* True when there is no overlap and no token slip. Call it when no process writes any more. */
bool overlap_check(struct overlap_log *log, struct overlap_report *report);

/* Fails the case with the report's text. */
#define overlap_assert(log) overlap_assert_at(__FILE__, __LINE__, (log))
void overlap_assert_at(const char *file, int line, struct overlap_log *log);

/* ---- Lost updates ----------------------------------------------------------------------- */

/* A counter that is only right if a lock protects it: read, wait, write. In shared memory. */
struct racy_counter {
    _Atomic uint64_t word;
    _Atomic uint64_t begun;
    _Atomic uint64_t done;
};

/* Answers the new value. `pause_us` widens the window. */
uint64_t racy_increment(struct racy_counter *counter, int pause_us);

/* The same on a file of eight bytes, for locks that guard a file; `counter` keeps begun and done.
 * A missing file counts as zero. */
uint64_t racy_increment_file(struct racy_counter *counter, const char *path, int pause_us);
uint64_t racy_read_file(const char *path);

/* How many updates are missing in `value`: at least this many, because of those that were begun
 * and never done (by killed processes) nobody knows. Negative: more than were ever begun. */
int64_t racy_lost(struct racy_counter *counter, uint64_t value);

#endif

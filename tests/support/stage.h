/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_TESTS_STAGE_H
#define SNIB_TESTS_STAGE_H

/*
 * The command in the middle of a play: started, watched, signalled, and its job's own diary.
 *
 *     struct fake_state *engine = stage_fake("ttl=2s");
 *     struct actor snib;
 *     stage_snib(&snib, "run", "x", "--", STAGE_PULSE, diary, "deaf");
 *     struct stage_pulse *job = stage_await_pulse(&snib, diary, 0, 10000);
 *     atomic_store(&engine->mute_renewals, 1);
 *     CHECK_INT(stage_end(&snib, 10000), ==, 79);
 *
 * A pulse is a job that writes into a file, every fraction of a millisecond, that it lives. So
 * its end is known from its own hand, even if it was killed.
 */

#include "../module/fake.h"
#include "check.h"

#define STAGE_SNIB TEST_BUILD_DIR "/snib"

/* ---- Surroundings ----------------------------------------------------------------------- */

/* Locks below the case's own folder; nothing of the user's configuration. */
void stage_file(void);

/* The fake engine, with these URL parameters, and a hand on its levers. */
struct fake_state *stage_fake(const char *parameters);

/* With leases of that length: times of the tests grow with SNIB_TEST_SLOW, and so do they. */
struct fake_state *stage_fake_lease(int ttl_ms);

/* The lock as the fake engine has it; the case fails if there is none. */
struct fake_lock *stage_fake_lock(struct fake_state *engine, const char *name);

/* ---- Commands --------------------------------------------------------------------------- */

struct actor {
    pid_t pid;
    int in, out, err; /* our ends of the pipes */
};

/* Starts a command, found by PATH, and does not wait. */
#define stage_snib(actor, ...)                                                                     \
    stage_start((actor), (const char *const[]){STAGE_SNIB, __VA_ARGS__, NULL})
void stage_start(struct actor *actor, const char *const argv[]);

/* Its exit status, or 128 + the signal; the case fails when it does not end. */
int stage_end(struct actor *actor, int timeout_ms);

/* The next line of its stdout or stderr, without the newline; the case fails when none comes. */
const char *stage_line(int fd, int timeout_ms);

/* All that is still to be read, until the other side is closed. */
const char *stage_rest(int fd, int timeout_ms);

/* ---- Jobs ------------------------------------------------------------------------------- */

/* The arguments of a pulse: STAGE_PULSE, the path of a diary, and words:
 *   deaf     ignores TERM, HUP, INT
 *   tree     has a child that pulses too (one place before it in the diary), and is deaf
 *   brief    ends after 20 ms
 *   leaves   the child goes on when the parent ends after 20 ms */
#define STAGE_PULSE stage_program(), "--stage-pulse"
const char *stage_program(void);

struct stage_pulse {
    atomic_int pid;
    atomic_int group;
    uint64_t token;
    int64_t began_ns;
    _Atomic int64_t last_ns; /* when it last knew that it lives */
    _Atomic int64_t term_ns; /* when it was first told to end; 0: it was not */
    _Atomic int64_t gap_ns;  /* since then: the longest in which it did not run */
};

enum { STAGE_PULSES = 4096 };

struct stage_diary {
    atomic_int count;
    struct stage_pulse pulses[STAGE_PULSES];
};

/* A new one, mapped; `path` is filled in. */
struct stage_diary *stage_diary(char path[static 256], const char *name);

/* Waits until the pulse with this number, a job of this command, has begun. */
struct stage_pulse *stage_await_pulse(const struct actor *actor, struct stage_diary *diary,
                                      int number, int timeout_ms);

/* Waits until this process is no more, or a zombie. */
void stage_await_death(pid_t pid, int timeout_ms);

/* The child of this process with that name (as in /proc/PID/comm); 0: none. */
pid_t stage_child(pid_t parent, const char *name);
pid_t stage_await_child(pid_t parent, const char *name, int timeout_ms);

/* Of a `snib run`: the process below it that holds the lock, and the command below that. */
pid_t stage_supervisor(const struct actor *run, int timeout_ms);
pid_t stage_command(const struct actor *run, const char *name, int timeout_ms);

#endif

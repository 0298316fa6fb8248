/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_TESTS_ROUNDS_H
#define SNIB_TESTS_ROUNDS_H

/*
 * The schedules a supervisor must survive, played as often as one likes, several at a time.
 * Each fails the case when it goes wrong, and prints the worst margin it has seen.
 */

/* snib is stopped until its lease is long over, and another run gets the lock: the first job is
 * dead before the second one starts. */
void rounds_stopped(int rounds);

/* The engine falls silent and the job ignores TERM: TERM and KILL come at their instants, and
 * the job is dead before the deadline. */
void rounds_deaf(int rounds);

/* snib is killed at any instant, from its first to after the start of the job and of the job's
 * child, while the next one already waits: no two jobs ever live at the same time. */
void rounds_killed(int rounds);

/* Runs inside of runs, and under timeout(1): snib, an inner snib or the supervisor of one of them
 * is killed at a random instant, while the machine is busy. No two jobs of one lock live at the
 * same time. */
enum rounds_engine { ROUNDS_FILE, ROUNDS_FAKE };
void rounds_wrapped(int rounds, enum rounds_engine engine);

/* On Redis, with a ttl of 30 s: snib and its supervisor, in turns, are killed while another waits.
 * The lock is the other's within a second of the job's death. */
void rounds_given_back(int rounds);

#endif

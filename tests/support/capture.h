/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_TESTS_CAPTURE_H
#define SNIB_TESTS_CAPTURE_H

/*
 * A command run to its end, and what it said.
 *
 *     const struct capture *said = capture("status", "report");
 *     CHECK_INT(said->status, ==, 0);
 *
 * stdin is empty. Fails the case when the command does not end.
 */

struct capture {
    int status; /* its exit status, or 128 + the signal that ended it */
    char out[65536];
    char err[16384];
};

/* The snib that was built, with these arguments. Valid until the next call. */
#define capture(...) capture_command((const char *const[]){CAPTURE_SNIB, __VA_ARGS__, NULL})
#define CAPTURE_SNIB TEST_BUILD_DIR "/snib"

/* Any command, found by PATH. */
const struct capture *capture_command(const char *const argv[]);

/* The same, with a terminal for stdin, stdout and stderr; all it said is in `out`. */
const struct capture *capture_on_terminal(const char *const argv[]);

#endif

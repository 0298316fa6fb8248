/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_CLI_SAY_H
#define SNIB_CLI_SAY_H

#include <stdbool.h>
#include <stdint.h>

/* One line "snib: ..." on stderr. */
void say(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The same, and answers `status`: return fail(STATUS_USAGE, "..."). */
int fail(int status, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The same, if -v was given. */
void tell(const char *format, ...) __attribute__((format(printf, 1, 2)));
void tell_all(bool verbose);
bool telling(void);

/* A time for people: "850 ms", "12.3 s", "4 min". Answers `out`. */
#define SPAN_SIZE 32
const char *span_text(char out[SPAN_SIZE], int64_t ms);

#endif

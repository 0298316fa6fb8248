/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_CLI_VALUE_H
#define SNIB_CLI_VALUE_H

#include <stdbool.h>
#include <stdint.h>

/* All answer false for what they do not understand, and never round silently. */

/* "500ms", "30s", "1.5m", "2h", "1d"; at most a year. A bare number has no meaning but 0. */
bool value_duration_ms(int64_t *out, const char *text);

/* Seconds as flock(1) has them, "5" or "0.25", or a duration. What is finer than a millisecond
 * is rounded up: a short wait must not become none. */
bool value_seconds_ms(int64_t *out, const char *text);

bool value_count(unsigned *out, const char *text, unsigned min, unsigned max);

#endif

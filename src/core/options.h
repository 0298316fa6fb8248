/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_OPTIONS_H
#define SNIB_OPTIONS_H

#include "snib.h"

/* A user's options, checked and completed: ttl and max_hold are what will be used. `in` NULL means
 * SNIB_OPTIONS; one of an older header is shorter, and what it does not have is as in SNIB_OPTIONS.
 */
int snib__options_read(snib_options *out, const snib *client, const snib_options *in,
                       snib_error *err);

/* May a lock of this client have that ttl? */
int snib__ttl_check(const snib *client, int64_t ttl_ms, snib_error *err);

#endif

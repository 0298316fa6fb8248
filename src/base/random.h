/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_BASE_RANDOM_H
#define SNIB_BASE_RANDOM_H

#include <stddef.h>
#include <stdint.h>

#pragma GCC visibility push(default)

/* Random bytes from the kernel; never fails, never repeats in a forked child. */
void snib__random(void *out, size_t size);

/* Between three and five quarters of `span`, so that many who came together do not come back
 * together. */
int64_t snib__jitter(int64_t span);

#pragma GCC visibility pop

/* Where random bytes come from. The simulation replaces it; NULL is the kernel. */
void snib__random_replace(void (*source)(void *out, size_t size));

#endif

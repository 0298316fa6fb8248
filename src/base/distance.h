/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_BASE_DISTANCE_H
#define SNIB_BASE_DISTANCE_H

#include <stddef.h>

#define SNIB__DISTANCE_MOST 64 /* of letters in a word that is compared */

#pragma GCC visibility push(default)

/* Letters to insert, delete or change to make one word of the other; SIZE_MAX for words that are
 * too long to be a slip of the finger. */
size_t snib__distance(const char *a, const char *b);

#pragma GCC visibility pop

#endif

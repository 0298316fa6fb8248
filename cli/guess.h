/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_CLI_GUESS_H
#define SNIB_CLI_GUESS_H

/* The one of these words (ended by NULL) that was probably meant; NULL if none is near. */
const char *guess(const char *typed, const char *const words[]);

#endif

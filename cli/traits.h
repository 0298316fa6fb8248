/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_CLI_TRAITS_H
#define SNIB_CLI_TRAITS_H

#include "snib.h"

/* "fair,cross-host" added to *out. Answers 0 or, having said why, an exit status. */
int traits_read(unsigned *out, const char *text);

/* Does the engine promise them all? Answers 0 or, having said what is missing, an exit status. */
int traits_check(const snib *client, unsigned wanted);

#endif

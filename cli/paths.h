/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_CLI_PATHS_H
#define SNIB_CLI_PATHS_H

#include "options.h"

/* Names that are paths at this engine get their one spelling, in place. A status: the same lock may
 * not be given twice. */
int paths_settle(struct options *o, const char *url);

/* Do two URLs, as the library shows them, lead to the same locks? Of directories it is known. */
bool paths_same_place(const char *url, const char *other);

#endif

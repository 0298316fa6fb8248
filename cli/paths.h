/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_CLI_PATHS_H
#define SNIB_CLI_PATHS_H

#include "options.h"

/* Names that are paths at this engine get their one spelling, in place. A status: the same lock may
 * not be given twice. */
int paths_settle(struct options *o, const char *url);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_REDLOCK_SETTINGS_H
#define SNIB_REDLOCK_SETTINGS_H

#include "engines/redlock/session.h"

/* What the URL says: where the servers are, and who we are there. */
int snib__redlock_settings(struct snib__redlock *, snib_error *);
void snib__redlock_settings_free(struct snib__redlock *);

#endif

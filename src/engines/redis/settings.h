/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_REDIS_SETTINGS_H
#define SNIB_REDIS_SETTINGS_H

#include "engines/redis/session.h"

/* What the URL says: where the server is, and who we are there. */
int snib__settings_read(struct snib__redis *, snib_error *);
void snib__settings_free(struct snib__redis *);

#endif

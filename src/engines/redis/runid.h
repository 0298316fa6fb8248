/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_REDIS_RUNID_H
#define SNIB_REDIS_RUNID_H

#include <stdbool.h>

/* A run of a server: from its start to its end. */
struct snib__run {
    char id[48];  /* "": none */
    bool durable; /* it was seen to keep whatever it answered */
};

/* Which run was here last time. `folder` NULL: the user's own. `where`: "host:port". */
struct snib__run snib__runid_recall(const char *folder, const char *where);
void snib__runid_note(const char *folder, const char *where, const struct snib__run *);

#endif

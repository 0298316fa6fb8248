/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_SQL_JOINING_H
#define SNIB_SQL_JOINING_H

/* Connecting and greeting, on a thread: client libraries block there, whatever they say. */

#include "sql/driver.h"

struct sql_joining {
    const struct snib__session *session;
    const struct sql_dialect *dialect;
    struct sql_target target;
    int64_t due_ns;
    void *connection; /* taken by whoever sets it to NULL */
    struct sql_welcome welcome;
};

/* NULL: no memory or no thread. */
struct snib__work *sql_join(struct snib__session *, struct sql_joining **out,
                            const struct sql_dialect *, const struct sql_target *, int64_t due_ns);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_SQL_LEASES_H
#define SNIB_SQL_LEASES_H

#include "engines/sql/strands.h"

/* The slots, with mode=lease. */
void sql_lease_attempt(struct snib__claim *);
void sql_lease_renew(struct snib__claim *const claims[], size_t n);
void sql_lease_release(struct snib__claim *);

extern const struct sql_strand_upcalls sql_lease_upcalls;
int64_t sql_leases_keep_time(struct sql *, int64_t now_ns);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_SQL_RENEWALS_H
#define SNIB_SQL_RENEWALS_H

#include "engines/sql/session.h"

/* `strand` NULL: as soon as there is one. */
void sql_renewals_start(struct sql *, struct sql_strand *, struct snib__claim *const claims[],
                        size_t n);
void sql_renewals_send(struct sql_strand *); /* those that were kept: here is one */
bool sql_renewals_kept(const struct sql *);

/* Somebody wants something of it: renew it, and see. */
void sql_renewals_look(struct sql_strand *, struct sql_bid *);

void sql_renewals_forget(struct sql_bid *); /* it goes */
int64_t sql_renewals_keep_time(struct sql *, int64_t now_ns);
void sql_renewals_close(struct sql *);

#endif

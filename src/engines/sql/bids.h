/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_SQL_BIDS_H
#define SNIB_SQL_BIDS_H

#include "engines/sql/session.h"

/* The slots. */
void sql_attempt(struct snib__claim *);
void sql_renew(struct snib__claim *const claims[], size_t n);
void sql_release(struct snib__claim *);

int64_t sql_bids_keep_time(struct sql *, int64_t now_ns);
void sql_bids_close(struct sql *);

#endif

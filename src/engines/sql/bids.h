/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_SQL_BIDS_H
#define SNIB_SQL_BIDS_H

#include "engines/sql/strands.h"

/* The slots, with mode=session. */
void sql_session_attempt(struct snib__claim *);
void sql_session_release(struct snib__claim *);

extern const struct sql_strand_upcalls sql_session_upcalls;
int64_t sql_bids_keep_time(struct sql *, int64_t now_ns);

#endif

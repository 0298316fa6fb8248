/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_SQL_ASKING_H
#define SNIB_SQL_ASKING_H

/* Between the slots, the link and time: what sql.c calls of claims.c. */

#include "sql/sql.h"

void sql_claims_mind(struct sql *);          /* attend, as long as there is need */
void sql_claims_look(struct sql *);          /* ask again for places whose time has come */
int64_t sql_claims_next(const struct sql *); /* when the next one's time comes */
void sql_claims_rung(struct sql *, const char *owner);
void sql_claims_joined(struct sql *); /* to a server that may be in quarantine */
void sql_claims_parted(struct sql *, const char *why);
void sql_claims_drop(struct sql *);

#endif

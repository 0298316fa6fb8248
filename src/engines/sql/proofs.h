/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_SQL_PROOFS_H
#define SNIB_SQL_PROOFS_H

#include "engines/sql/strands.h"

/* The slot, with mode=session. */
void sql_session_renew(struct snib__claim *const claims[], size_t n);

/* To a renewal, if its claim is still there. */
void sql_proof_answer(struct sql_bid *, const struct snib__result *);

/* Somebody wants something of this link: look what. */
void sql_proof_rung(struct sql_strand *, const char *text);

int64_t sql_proofs_keep_time(struct sql *, int64_t now_ns);

#endif

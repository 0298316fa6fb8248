/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_SQL_LOOP_H
#define SNIB_SQL_LOOP_H

#include "engines/sql/session.h"

/* s->session, ->driver, ->settings, ->name, ->where, ->hosts and ->max_extra are set. */
void sql_open(struct sql *);
void sql_close(struct sql *);

/* The slot. */
void sql_drive(struct snib__session *, int64_t until_ns);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_SQL_LOOP_H
#define SNIB_SQL_LOOP_H

#include "engines/sql/session.h"

/* s->session, ->driver, ->settings, ->name, ->where, ->hosts, ->max_extra and ->lease are
 * set. */
void sql_open(struct sql *);
void sql_close(struct sql *);

/* The slots, in either mode. */
void sql_attempt(struct snib__claim *);
void sql_renew(struct snib__claim *const claims[], size_t n);
void sql_release(struct snib__claim *);
void sql_drive(struct snib__session *, int64_t until_ns);

#endif

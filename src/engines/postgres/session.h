/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_POSTGRES_SESSION_H
#define SNIB_POSTGRES_SESSION_H

#include "engines/postgres/settings.h"
#include "engines/sql/session.h"

/* In session->state. */
struct pg_session {
    struct sql sql; /* first: see sql_of */
    struct pg_settings settings;
};

#endif

/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_MYSQL_SESSION_H
#define SNIB_MYSQL_SESSION_H

#include "engines/mysql/settings.h"
#include "engines/sql/session.h"

/* In session->state. */
struct mysql_session {
    struct sql sql; /* first: see sql_of */
    struct mysql_settings settings;
};

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What PostgreSQL's refusals mean to a lock.
 *
 * libpq keeps no SQLSTATE of a connection that was refused, so these are told by their words; a
 * server that speaks another language is taken to be unreachable, with its own words as the reason.
 */
#include "engines/postgres/errors.h"

#include <stdio.h>
#include <string.h>

static bool begins(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

enum sql_outcome pg_error_outcome(const char *state, int *code)
{
    *code = SNIB_EPROTO;
    if (begins(state, "3F") || begins(state, "42P01") || begins(state, "42883")) {
        return SQL_ABSENT; /* no schema, no table, no function */
    }
    if (begins(state, "40") || begins(state, "55P03") || begins(state, "57014") ||
        begins(state, "23505") || begins(state, "42P06") || begins(state, "42P07") ||
        begins(state, "26000")) {
        return SQL_AGAIN; /* a deadlock, a cancelled statement, a table made by two at once; a
                           * statement whose preparation failed in front of another */
    }
    if (begins(state, "42501") || begins(state, "28")) {
        *code = SNIB_EDENIED;
    } else if (begins(state, "25006") || begins(state, "SN001")) {
        *code = SNIB_EUNSAFE; /* read-only; not our schema */
    } else if (begins(state, "53")) {
        *code = SNIB_EUNREACH; /* no room, no memory, no connections */
    } else if (begins(state, "22") || begins(state, "54")) {
        *code = SNIB_EINVAL;
    }
    return SQL_REFUSED;
}

int pg_error_of_connection(const char *message)
{
    static const char *const denied[] = {"authentication failed", "no password supplied",
                                         "no pg_hba.conf entry",  "role \"",
                                         "database \"",           "permission denied"};
    for (size_t i = 0; i < sizeof denied / sizeof denied[0]; i++) {
        if (strstr(message, denied[i])) {
            return SNIB_EDENIED;
        }
    }
    return SNIB_EUNREACH;
}

void pg_error_line(char *out, size_t size, const char *message)
{
    static const char *const prefixes[] = {"ERROR:  ", "FATAL:  ", "ERROR: ", "FATAL: "};
    const char *fatal = strstr(message, "FATAL:");
    message = fatal ? fatal : message;
    for (size_t i = 0; i < sizeof prefixes / sizeof prefixes[0]; i++) {
        if (begins(message, prefixes[i])) {
            message += strlen(prefixes[i]);
        }
    }
    size_t used = 0;
    bool gap = false;
    for (; *message && used + 1 < size; message++) {
        if (*message == '\n' || *message == '\t' || *message == ' ') {
            gap = used > 0;
            continue;
        }
        if (gap && used + 2 < size) {
            out[used++] = ' ';
        }
        gap = false;
        out[used++] = *message;
    }
    out[used] = '\0';
}

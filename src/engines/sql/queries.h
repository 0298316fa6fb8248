/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_SQL_QUERIES_H
#define SNIB_SQL_QUERIES_H

#include "engines/sql/session.h"

/* In query->state. */
struct sql_query {
    struct snib__query *query;
    struct snib__list place;
    struct sql_asked *asked; /* under way; NULL: nothing is */
    int64_t due_ns, look_ns; /* the end; a break: the next look */
    bool began, marked, there;
    int64_t left_ms;
    char who[200];
    _Alignas(16) char others[400];
    /* A dialect's own: its statements are sent one after the other; see sql_examine. */
    const struct sql_examination *examination;
    int step;
    bool failed;
};

/* What a dialect looks at: texts, each with what is made of its rows. */
struct sql_examination {
    const enum sql_statement *statements; /* ended by SQL_STATEMENTS */
    void (*row)(struct snib__query *, int step, const char *const columns[SQL_COLUMNS]);
    /* A step's end; REFUSED: why is in the request. */
    void (*ended)(struct snib__query *, int step, enum sql_outcome, const struct sql_request *);
    void (*unreachable)(struct snib__query *, int code, const char *why);
};

/* The slots. */
void sql_inspect(struct snib__query *);
void sql_evict(struct snib__query *);
void sql_examine(struct snib__query *, const struct sql_examination *);

int64_t sql_queries_keep_time(struct sql *, int64_t now_ns);
void sql_queries_close(struct sql *);
void sql_queries_drop(struct sql_link *); /* it is about to be closed: what nobody waits for */

#endif

/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_REDLOCK_QUERIES_H
#define SNIB_REDLOCK_QUERIES_H

#include "engines/redlock/session.h"

struct snib__view; /* what one server says about one name */

/* How far a server is. */
enum snib__survey_state { SNIB__SURVEY_ASKED, SNIB__SURVEY_DONE, SNIB__SURVEY_FAILED };

/* The engine's part of a query: inspect, list or evict. */
struct snib__survey {
    struct snib__query *query;
    struct snib__list in_session;
    bool evicts;
    bool scans; /* the names are not known yet */
    char **names;
    size_t count, room;
    size_t first, batch;      /* of the names: those that are being looked at */
    struct snib__view *views; /* batch × servers */
    unsigned char state[SNIB__SERVERS_MOST];
    unsigned under_way[SNIB__SERVERS_MOST];
    unsigned scanned[SNIB__SERVERS_MOST]; /* replies to SCAN */
    uint32_t turn;                        /* answers to what was asked before do not count */
    int64_t late_ns;                      /* those who have not answered are not waited for if the
                                           * others are a majority, */
    int64_t due_ns;                       /* or in any case */
    int64_t check_ns;                     /* evict: ask again then; NEVER */
    int64_t give_up_ns; /* evict: its holder was asked; until then. 0: it was not */
    unsigned asked, gone, strange, answered; /* evict: servers */
    int64_t left_ms;
    int code; /* of a server that refused */
    char why[520];
};

void snib__survey_inspect(struct snib__query *);
void snib__survey_evict(struct snib__query *);
void snib__survey_reply(struct snib__server *, struct snib__redis_call *,
                        const struct snib__reply *);
void snib__survey_lost(struct snib__server *, struct snib__redis_call *, enum snib__loss);
int64_t snib__survey_keep_time(struct snib__redlock *, int64_t now_ns);
void snib__survey_close(struct snib__redlock *); /* ends all of them */

int snib__survey_rights(const struct snib__session *, char *out, size_t size);

#endif

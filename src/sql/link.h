/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_SQL_LINK_H
#define SNIB_SQL_LINK_H

/*
 * One connection, and what is asked through it: one request after the other, each a packet of
 * statements. Made when something is asked, and again when something is left to be asked.
 */

#include "base/list.h"
#include "sql/driver.h"
#include "sql/joining.h"

struct sql_request;

/* What becomes of a request. It is out of the list when one of these is called, and its maker's. */
struct sql_fate {
    void (*answered)(struct sql_request *, const struct sql_answer *);
    void (*refused)(struct sql_request *, const struct sql_error *);
    /* Its time is up, or its connection lost or not to be had. `sent` says whether it may have been
     * heard. */
    void (*abandoned)(struct sql_request *, int code, int sys, const char *why);
};

struct sql_request {
    struct snib__list place;
    const struct sql_fate *fate;
    struct sql_words words;
    int64_t due_ns;        /* the end of its time */
    int64_t not_before_ns; /* 0: at once */
    bool sent;
    struct snib__instant since; /* before it was sent */
};

enum sql_link_state { SQL_APART, SQL_RESOLVING, SQL_JOINING, SQL_JOINED };

struct sql_link {
    struct snib__session *session;
    const struct sql_dialect *dialect;
    struct sql_target target;
    /* Told when a session of ours begins and ends, and when it is rung. */
    void (*joined)(struct sql_link *, const struct sql_welcome *);
    void (*parted)(struct sql_link *, const char *why);
    void (*rung)(struct sql_link *, const char *owner);

    /* Private. */
    enum sql_link_state state;
    struct snib__lookup *lookup;
    struct snib__work *work;
    struct sql_joining *joining;
    void *connection;
    int64_t me;
    struct snib__list requests;
    struct sql_request *flying; /* first of the list, sent */
    bool draining;              /* an answer is on its way that nobody wants */
    struct snib__instant flew;  /* when that was sent which is under way */
    int64_t heard_ns;
    int64_t again_ns;   /* not to be connected before */
    int64_t soonest_ns; /* nothing of the requests is due before */
    bool joined_before;
    short ready[SQL_POLLS];
    bool listening;
};

void sql_link_init(struct sql_link *, struct snib__session *, const struct sql_dialect *,
                   const struct sql_target *);
void sql_link_close(struct sql_link *); /* requests are the caller's to drop, before */

/* Words that failed for lack of memory are abandoned with ENOMEM, from a later step. */
void sql_link_ask(struct sql_link *, struct sql_request *);
void sql_link_withdraw(struct sql_link *, struct sql_request *);

void sql_link_step(struct sql_link *);
/* What to poll for, and when to step at the latest; then tell what was ready. */
size_t sql_link_poll(const struct sql_link *, struct pollfd out[SQL_POLLS], int64_t *until_ns);
void sql_link_ready(struct sql_link *, const struct pollfd polled[], size_t n);
void sql_link_listen(struct sql_link *, bool wanted);

#endif

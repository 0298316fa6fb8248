/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_SQL_DRIVER_H
#define SNIB_SQL_DRIVER_H

/*
 * What a SQL engine brings: how its client library is used (struct sql_driver), and what its server
 * is asked (struct sql_dialect). All the rest is the same for all of them.
 */

#include "engines/engine.h"
#include "sql/rows.h"
#include "sql/text.h"

#include <netinet/in.h>
#include <poll.h>

enum { SQL_ADDRESSES = 8, SQL_WHY = 400, SQL_POLLS = 2 };

enum sql_tls { SQL_TLS_AUTO, SQL_TLS_VERIFY, SQL_TLS_NO };

/* Where, and as whom. A copy goes to the thread that connects. */
struct sql_target {
    char host[256]; /* as it was given, for certificates; "": the library's own choice */
    char addresses[SQL_ADDRESSES][INET6_ADDRSTRLEN];
    size_t address_count;
    int port; /* 0: the library's own choice */
    char socket[256];
    char user[128], password[1024], database[128];
    enum sql_tls tls;
    char ca[512];
    bool leased;      /* mode=lease */
    bool pooled;      /* pooler=session: the user says that it pins sessions */
    bool quarantines; /* honours one */
    int64_t ttl_ms, max_lease_ms, timeout_ms;
    int64_t me; /* the number of the session to be */
};

struct sql_error {
    int sys;
    char state[6];   /* SQLSTATE */
    unsigned number; /* MySQL's own */
    char text[SQL_WHY];
};

enum sql_turn { SQL_GOING, SQL_DONE, SQL_REFUSED, SQL_BROKEN };

/* A connection is a void pointer here. But for `open`, nothing blocks. */
struct sql_driver {
    /* On a thread of its own, until due_ns (CLOCK_BOOTTIME). `address` may be "". */
    void *(*open)(const struct sql_target *, const char *address, int64_t due_ns,
                  const struct snib__work *, struct sql_error *);
    /* Silently: in a forked child, whose parent goes on using it. */
    void (*close)(void *, bool silently);
    bool (*send)(void *, const char *text, size_t size);
    /* Of what was sent: SQL_DONE fills the answer, SQL_REFUSED and SQL_BROKEN the error. */
    enum sql_turn (*turn)(void *, short ready, struct sql_answer *, struct sql_error *);
    /* While nothing is under way: SQL_GOING or SQL_BROKEN. */
    enum sql_turn (*watch)(void *, struct sql_error *);
    /* The next message for this session, an owner id in hexadecimal digits; false: none. `ready` is
     * of the second descriptor. */
    bool (*hint)(void *, short ready, char out[40]);
    /* Messages are wanted from now on, or no longer. */
    void (*listen)(void *, bool wanted);
    /* How many descriptors: the first is for what was sent, a second one for messages. */
    size_t (*poll)(void *, struct pollfd out[SQL_POLLS]);
};

/* What was found when a connection was made. */
struct sql_welcome {
    int code; /* SNIB_OK: fit to be used */
    int sys;
    char why[SQL_WHY];
    int64_t usable_ms; /* of a quarantine: what is left */
};

/* What an error means for what was asked. */
enum sql_sense { SQL_AGAIN, SQL_DENIED, SQL_READ_ONLY, SQL_BAD };

struct sql_dialect {
    const char *name; /* "postgres" */
    const struct sql_driver *driver;
    struct sql_style style;
    const char *remedy; /* what to do where the tables cannot be made */
    /* On the thread: all that comes before the first claim. */
    void (*greet)(void *connection, const struct sql_target *, int64_t due_ns,
                  struct sql_welcome *);
    enum sql_sense (*sense)(const struct sql_error *);
    const char *examination; /* statements for `examine` */
    void (*examined)(struct snib__query *, const struct sql_target *, const struct sql_answer *,
                     int64_t took_us);
};

/* One statement, from end to end, on a thread. */
enum sql_turn sql_ask(const struct sql_driver *, void *connection, const char *text, int64_t due_ns,
                      struct sql_answer *, struct sql_error *);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_SQL_DRIVER_H
#define SNIB_SQL_DRIVER_H

/*
 * A link is one connection to a database server; a driver is how one kind of server is spoken to.
 *
 * What is in sql/ knows links, requests and what a statement of this list means; a dialect
 * (postgres/, mysql/) knows a library, how a connection is made and greeted, and the texts. Nothing
 * here blocks. The client's mutex is held in every call and every upcall.
 *
 * Life of a link
 * --------------
 *   open   ->  opened, or lost
 *       Connects, sets whatever this session needs on *every* link (isolation, time-outs, a
 *       server-side idle time-out of link->idle_ms) and looks where it is: a pooler, a standby, a
 *       server that is too old is `lost` with a code and a sentence. `opened` means that requests
 *       may be sent; link->quarantine_ns says until when nothing may be granted (0: at once).
 *   send   ->  rows, then ended; once per request, in the order they were sent
 *       Never from inside send. A driver that can send the next one before the last was answered
 *       does so, else it keeps it.
 *   lost
 *       Comes once, by itself or after a failed open, and not after close. Before it every request
 *       on the link was ended: LOST if any byte of it may have left, else UNSENT.
 *   close
 *       Frees all, without an upcall: the requests on it are the caller's to end. With `forked` the
 *       server must not hear anything: /dev/null over the descriptor first.
 * What the server does with a link that is closed: its locks go, a statement that waits is ended
 * soon (seconds at most), and nothing that was sent by it and not begun is ever executed later than
 * that.
 *
 * Upcalls may send on this or any other link; they may not close the link they are about, only mark
 * it (link->doomed), and whoever drives closes it after `step` has returned.
 */

#include "base/clock.h"
#include "base/list.h"
#include "engines/engine.h"

#include <poll.h>
#include <stdbool.h>

#define SQL_PARAMETERS 10
#define SQL_COLUMNS 12

/*
 * Statements: what they are given (all texts; "" is an empty text, NULL is NULL), what each row
 * has. Flags are "1" and "0" or, in rows, "t" and "f". `key` is what the dialect makes of a name
 * (driver->key). `mode`: "0" exclusive, "1" shared, as enum snib_mode. A column that is not known
 * is NULL.
 *
 * An answer that says that tables are missing (SQL_ABSENT) makes the core send SQL_SETUP, once, and
 * then the request again, if it was one of a claim; one of a query is finished as "nothing there".
 */
enum sql_statement {
    /* mode=session */
    SQL_TRY,   /* key, name, mode, who, label, ttl_ms -> got, token, holder, holder's token.
                * Takes the lock if it is free, draws the token and notes the holder, all in one.
                * got and no token: the key is another name's: the core gives the lock back. */
    SQL_ENTER, /* key, name, mode, who, label, ttl_ms: notes who is about to wait */
    SQL_WAIT,  /* as SQL_TRY -> noted, token: returns when the lock is this link's. Noted: the token
                * was drawn with it (none: as in SQL_TRY); else SQL_TOOK follows. */
    SQL_STANDS, /* link number -> a row, if that link's SQL_WAIT is in the server's queue by now.
                 * Only asked if sql->looks. */
    SQL_TOOK,   /* as SQL_TRY -> token: after a wait: draws the token, notes the holder */
    SQL_UNLOCK, /* key, mode -> freed: false: this link did not have it */
    SQL_PROVE,  /* none -> key, token, by whom: a row for each lock of this link that somebody has
                 * asked it to give up. The answer alone proves the link. */
    SQL_SIGHT,  /* name, prefix flag, limit -> name, mode, place (0 holds), token, who, label, since
                 * (Unix ms), left (ms), permits, link number, broken by; sorted */
    SQL_MARK,   /* key, token, by whom -> a row if it holds: who, how many ms its lease may last;
                 * asks the holder to give it up, and rings its link */
    SQL_SEVER,  /* key, token -> who, other locks of that session (a text): ends the session */

    /* mode=lease; `owner`: 32 hexadecimal digits, `session`: this client's number, growing. */
    SQL_ENLIST,  /* -> session: makes this link the one whose life is the client's */
    SQL_ATTEMPT, /* key, name, mode, permits, owner, session, who, label, ttl_ms, queue flag -> what
                  * ("held", "busy", "queued", "late", "kinds", "taken": the key is another name's),
                  * token, holder, holder's token, left ms, place. What is held already is renewed.
                  */
    SQL_RENEW,   /* session, keys separated by commas, owners likewise, ttls likewise -> owner, what
                  * ("held", "lost", "broken"), token, by whom */
    SQL_RELEASE, /* key, owner, session, unsure flag, ttl_ms -> freed. Unsure: an attempt of an
                  * earlier session may still come, for ttl_ms, and must not be granted. */
    SQL_LOOK,    /* as SQL_SIGHT */
    SQL_ASK,     /* key, token, by whom, force flag -> a row for each that holds with it:
                  * what ("gone", "asked"), who, left ms */

    SQL_EXAMINE, /* -> what, value: the dialect's own, for doctor */
    SQL_SETUP,   /* makes what is missing: schema, tables, functions */
    SQL_STATEMENTS
};

enum sql_outcome {
    SQL_ANSWERED, /* rows have come, as many as there are */
    SQL_ABSENT,   /* the tables are not there */
    SQL_AGAIN,    /* not executed, and worth another try at once: a deadlock, a serialization */
    SQL_REFUSED,  /* not executed: request->code and ->reason */
    SQL_UNSENT,   /* the server has not seen it */
    SQL_LOST      /* it may have been executed, now or later as long as the link lives */
};

struct sql_link;

struct sql_request {
    struct snib__list place; /* among those of its link, oldest first; the driver's */
    struct sql_link *link;
    enum sql_statement statement;
    int count;
    const char *parameters[SQL_PARAMETERS]; /* until it ends */

    /* Upcalls. Columns are borrowed. `ended` is the last word; the request is the caller's then. */
    void (*row)(struct sql_request *, const char *const columns[SQL_COLUMNS]);
    void (*ended)(struct sql_request *, enum sql_outcome);

    struct snib__instant sent; /* before its first byte was handed over */
    bool away;                 /* a byte of it may have left */
    int code;                  /* SQL_REFUSED: enum snib_code */
    char reason[240];
};

struct sql_upcalls {
    void (*opened)(struct sql_link *);
    void (*lost)(struct sql_link *); /* link->code, ->sys, ->why */
    /* Somebody rang (a notification): "" or what was said, borrowed. */
    void (*rung)(struct sql_link *, const char *text);
};

struct sql_link {
    const struct sql_driver *driver;
    const struct sql_upcalls *upcalls;
    struct snib__session *session;
    void *settings;   /* the dialect's, of the whole session */
    void *connection; /* the driver's; NULL: closed, or never opened */
    void *owner;      /* the core's */
    int64_t idle_ms;  /* the server ends this link when it was silent for so long; 0: never */
    bool waits;       /* it is for waiting, not for many requests */
    bool doomed;      /* to be closed by whoever drives */
    struct snib__list requests;

    int64_t quarantine_ns;      /* since it opened: nothing is to be granted before; 0: no */
    const char *unfit;          /* nothing is to be granted by it at all, and why; NULL: it may */
    struct snib__instant heard; /* when the last answered request was sent */
    unsigned long number;       /* the server's: a pid, a connection id */
    int code, sys;              /* lost: enum snib_code */
    char why[240];
};

struct sql_driver {
    void (*open)(struct sql_link *);
    void (*send)(struct sql_request *); /* request->link is open */
    /* The descriptor and what to wait for; false: none now. */
    bool (*poll)(const struct sql_link *, struct pollfd *out);
    void (*step)(struct sql_link *);                  /* whatever is ready */
    int64_t (*keep_time)(struct sql_link *, int64_t); /* whatever is due; when to come back */
    void (*close)(struct sql_link *, bool forked);
    /* What the server calls a lock: a text of at most SQL_KEY_MAX bytes, 0 included. */
    void (*key)(const struct sql_link *, const char *name, char *out);
};

#define SQL_KEY_MAX 72

#endif

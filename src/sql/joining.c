/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libmariadb blocks inside a TLS handshake for as long as the server is silent, and libpq does in
 * the name look-ups of its own. So a connection is made, and greeted, on a thread that nobody waits
 * for; names are looked up before, and what is tried here are addresses.
 */
#include "sql/joining.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum sql_turn sql_ask(const struct sql_driver *driver, void *connection, const char *text,
                      int64_t due_ns, struct sql_answer *answer, struct sql_error *error)
{
    short ready = 0;
    *answer = (struct sql_answer){0};
    *error = (struct sql_error){0};
    if (!driver->send(connection, text, strlen(text))) {
        snprintf(error->text, sizeof error->text, "cannot be sent");
        return SQL_BROKEN;
    }
    for (;;) {
        enum sql_turn turn = driver->turn(connection, ready, answer, error);
        if (turn != SQL_GOING) {
            return turn;
        }
        int64_t left_ns = due_ns - snib__now().boot_ns;
        struct pollfd p[SQL_POLLS] = {{.fd = -1}};
        driver->poll(connection, p);
        if (left_ns <= 0) {
            error->sys = ETIMEDOUT;
            snprintf(error->text, sizeof error->text, "no answer in time");
            return SQL_BROKEN;
        }
        int n = poll(p, 1, (int)(left_ns / SNIB__MS) + 1);
        ready = n > 0 ? p[0].revents : 0;
    }
}

static void fail(struct sql_welcome *w, int code, const struct sql_error *error)
{
    w->code = code;
    w->sys = error->sys;
    snprintf(w->why, sizeof w->why, "%s", error->text);
}

static void run(struct snib__work *work, void *arg)
{
    struct sql_joining *j = arg;
    const struct sql_driver *driver = j->dialect->driver;
    struct sql_error error = {0};
    size_t count = j->target.address_count ? j->target.address_count : 1;
    for (size_t i = 0; i < count && !j->connection && !snib__work_abandoned(work); i++) {
        int64_t now = snib__now().boot_ns;
        int64_t share = (j->due_ns - now) / (int64_t)(count - i);
        if (share <= 0) {
            break;
        }
        const char *address = j->target.address_count ? j->target.addresses[i] : "";
        j->connection = driver->open(&j->target, address, now + share, work, &error);
    }
    if (!j->connection) {
        fail(&j->welcome, j->dialect->sense(&error) == SQL_DENIED ? SNIB_EDENIED : SNIB_EUNREACH,
             &error);
        return;
    }
    j->dialect->greet(j->connection, &j->target, j->due_ns, &j->welcome);
}

static void drop(void *arg)
{
    struct sql_joining *j = arg;
    if (j->connection) {
        j->dialect->driver->close(j->connection, snib__forked(j->session));
    }
    explicit_bzero(j, sizeof *j);
    free(j);
}

struct snib__work *sql_join(struct snib__session *session, struct sql_joining **out,
                            const struct sql_dialect *dialect, const struct sql_target *target,
                            int64_t due_ns)
{
    struct sql_joining *j = calloc(1, sizeof *j);
    if (!j) {
        return NULL;
    }
    j->session = session;
    j->dialect = dialect;
    j->target = *target;
    j->due_ns = due_ns;
    struct snib__work *work = snib__work_begin(session, run, drop, j);
    if (!work) {
        explicit_bzero(j, sizeof *j);
        free(j);
        return NULL;
    }
    *out = j;
    return work;
}

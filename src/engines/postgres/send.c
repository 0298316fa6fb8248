/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What leaves by a link, and the end of one. A statement is prepared in front of its first use on a
 * link, in the same flight; behind a failure all are prepared anew, by other names.
 */
#include "engines/postgres/link.h"
#include "engines/postgres/settings.h"
#include "engines/postgres/statements.h"

#include <stdio.h>

enum { TEXT_OID = 25 };

static struct pg_settings *settings_of(const struct sql_link *link)
{
    return link->settings;
}

static void end_all(struct sql_link *link)
{
    while (!snib__list_empty(&link->requests)) {
        struct sql_request *r = SNIB__OF(link->requests.after, struct sql_request, place);
        snib__list_remove(&r->place);
        r->ended(r, r->away ? SQL_LOST : SQL_UNSENT);
    }
}

void pg_lose(struct sql_link *link, int code, int sys, const char *why)
{
    struct pg_settings *s = settings_of(link);
    struct pg_connection *c = link->connection;
    if (link->doomed) {
        return;
    }
    link->doomed = true;
    link->code = code;
    link->sys = sys;
    snprintf(link->why, sizeof link->why, "%s", why);
    if (c && c->state != PG_READY && s->host_count > 1 &&
        !link->waits) { /* those go with the main */
        s->at = (s->at + 1) % s->host_count;
    }
    end_all(link);
    link->upcalls->lost(link);
}

int pg_keepalive_s(int64_t ttl_ms, int *probes)
{
    int ttl_s = (int)(ttl_ms / 1000), silent_s = ttl_s < 6 ? 1 : ttl_s / 3;
    int left = ttl_s - 1 - silent_s;
    *probes = left < 1 ? 1 : left > 3 ? 3 : left;
    return silent_s;
}

void pg_flush(struct pg_connection *c)
{
    c->unwritten = PQflush(c->db) != 0; /* an error shows when it is read */
}

static void append(struct sql_link *link, struct sql_request *r)
{
    r->link = link;
    snib__list_append(&link->requests, &r->place);
    r->away = true;
    r->sent = snib__now();
    r->code = 0;
    r->reason[0] = '\0';
}

void pg_send(struct sql_request *r)
{
    struct sql_link *link = r->link;
    struct pg_connection *c = link->connection;
    int number;
    char name[32];
    static const Oid types[SQL_PARAMETERS] = {TEXT_OID, TEXT_OID, TEXT_OID, TEXT_OID, TEXT_OID,
                                              TEXT_OID, TEXT_OID, TEXT_OID, TEXT_OID, TEXT_OID};
    const char *text = pg_statement(settings_of(link), r, &number);
    append(link, r);
    snprintf(name, sizeof name, "snib%d_%u", number, c->generation);
    bool ok = true;
    if (!(c->prepared & (UINT64_C(1) << number))) {
        ok = PQsendPrepare(c->db, name, text, r->count, types) == 1;
    }
    ok = ok && PQsendQueryPrepared(c->db, name, r->count, r->parameters, NULL, NULL, 0) == 1 &&
         PQpipelineSync(c->db) == 1;
    if (ok) {
        c->prepared |= UINT64_C(1) << number;
    }
    pg_flush(c);
}

void pg_send_text(struct sql_link *link, struct sql_request *r, const char *const ahead[],
                  const char *text)
{
    struct pg_connection *c = link->connection;
    append(link, r);
    for (; ahead && *ahead; ahead++) {
        PQsendQueryParams(c->db, *ahead, 0, NULL, NULL, NULL, NULL, 0);
    }
    PQsendQueryParams(c->db, text, r->count, NULL, r->parameters, NULL, NULL, 0);
    PQpipelineSync(c->db);
    pg_flush(c);
}

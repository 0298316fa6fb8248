/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What decides the promises, for `snib doctor`.
 */
#include "engines/postgres/postgres.h"

#include "sql/queries.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { VERSION, FSYNC, SYNCHRONOUS, STANDBYS, NAMED, CLOCK_MS, CONNECTIONS, MOST, USER };

const char postgres_examination[] =
    "SELECT current_setting('server_version'), current_setting('fsync'),"
    " current_setting('synchronous_commit'), (SELECT count(*) FROM pg_stat_replication),"
    " current_setting('synchronous_standby_names') <> '',"
    " floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint,"
    " (SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'),"
    " current_setting('max_connections'), current_user;";

static void tell_durability(struct snib__query *q, const struct sql_answer *a)
{
    if (strcmp(sql_text(a, 0, 0, FSYNC), "off") == 0) {
        sql_found(q, SNIB_BAD, "durability", "set fsync = on",
                  "fsync is off: a crash takes leases and tokens back");
    } else {
        sql_found(q, SNIB_GOOD, "durability", NULL, "fsync is on, synchronous_commit is %s",
                  sql_text(a, 0, 0, SYNCHRONOUS));
    }
    if (sql_number(a, 0, 0, STANDBYS) > 0 && sql_text(a, 0, 0, NAMED)[0] != 't') {
        sql_found(q, SNIB_WARNING, "replication",
                  "name the standbys in synchronous_standby_names if one of them may be promoted",
                  "%s standbys that may lag: one that is promoted may have lost the last leases "
                  "and tokens",
                  sql_text(a, 0, 0, STANDBYS));
    }
}

static void tell_session(struct snib__query *q, const struct sql_target *t,
                         const struct sql_answer *a)
{
    if (t->leased) {
        int64_t off = llabs(sql_number(a, 0, 0, CLOCK_MS) - snib__wall_us() / 1000);
        sql_found(q, SNIB_GOOD, "mode", NULL,
                  "leases in rows: they end by the server's clock, and outlive its restart");
        sql_found(q, off > 1000 ? SNIB_WARNING : SNIB_GOOD, "clock",
                  off > 1000 ? "let the server's clock be kept by NTP" : NULL,
                  "the server's clock and ours differ by %" PRId64 " ms", off);
    } else {
        sql_found(q, SNIB_GOOD, "mode", NULL,
                  "locks of sessions: free at once when their process ends, %" PRId64
                  " ms after a host is lost; all of them are lost when the server restarts",
                  t->ttl_ms);
        sql_found(q, t->quarantines ? SNIB_GOOD : SNIB_WARNING, "quarantine",
                  t->quarantines ? NULL : "leave quarantine=no out of the URL",
                  t->quarantines ? "a server that was started anew grants nothing until leases of "
                                   "before are over"
                                 : "switched off: a holder that is cut off while the server "
                                   "restarts is not alone");
    }
    if (t->pooled) {
        sql_found(q, SNIB_WARNING, "pooler", "connect to the server itself",
                  "pooler=session: taken on trust that it keeps a session for each client");
    }
}

void postgres_examined(struct snib__query *q, const struct sql_target *t,
                       const struct sql_answer *a, int64_t took_us)
{
    int64_t used = sql_number(a, 0, 0, CONNECTIONS), most = sql_number(a, 0, 0, MOST);
    sql_found(q, SNIB_GOOD, "reach", NULL, "PostgreSQL %s answers in %" PRId64 " us as %s",
              sql_text(a, 0, 0, VERSION), took_us, sql_text(a, 0, 0, USER));
    tell_session(q, t, a);
    tell_durability(q, a);
    sql_found(q, used * 10 > most * 9 ? SNIB_WARNING : SNIB_GOOD, "connections",
              used * 10 > most * 9 ? "raise max_connections" : NULL,
              "%" PRId64 " of %" PRId64 " in use", used, most);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What decides the promises, for `snib doctor`.
 */
#include "engines/mysql/mysql.h"

#include "sql/queries.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { VERSION, CLOCK_MS, USER };

const char mysql_examination[] =
    "SELECT VERSION(), FLOOR(UNIX_TIMESTAMP(SYSDATE(6)) * 1000), CURRENT_USER();"
    "SHOW GLOBAL VARIABLES WHERE Variable_name IN ('innodb_flush_log_at_trx_commit', 'sync_binlog',"
    " 'log_bin', 'max_connections');";

static void tell_durability(struct snib__query *q, const struct sql_answer *a)
{
    const char *flush = mysql_variable(a, 1, "innodb_flush_log_at_trx_commit");
    if (strcmp(flush, "1") != 0) {
        sql_found(q, SNIB_BAD, "durability", "set innodb_flush_log_at_trx_commit = 1",
                  "innodb_flush_log_at_trx_commit is %s: a crash takes leases and tokens back",
                  flush);
    } else {
        sql_found(q, SNIB_GOOD, "durability", NULL, "commits are flushed to disk");
    }
    if (strcmp(mysql_variable(a, 1, "log_bin"), "ON") == 0) {
        sql_found(q, SNIB_WARNING, "replication",
                  "fail over to a replica only when it has applied all that was committed",
                  "a binary log is written: a replica that lags and is promoted has lost the last "
                  "leases and tokens");
    }
}

static void tell_mode(struct snib__query *q, const struct sql_target *t, const struct sql_answer *a)
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
                  " s after a host is lost; all of them are lost when the server restarts",
                  (t->ttl_ms + 999) / 1000);
        sql_found(q, t->quarantines ? SNIB_GOOD : SNIB_WARNING, "quarantine",
                  t->quarantines ? NULL : "leave quarantine=no out of the URL",
                  t->quarantines ? "a server that was started anew grants nothing until leases of "
                                   "before are over"
                                 : "switched off: a holder that is cut off while the server "
                                   "restarts is not alone");
    }
    if (t->pooled) {
        sql_found(q, SNIB_WARNING, "pooler", "connect to the server itself",
                  "pooler=session: taken on trust that it keeps a connection for each client");
    }
}

void mysql_examined(struct snib__query *q, const struct sql_target *t, const struct sql_answer *a,
                    int64_t took_us)
{
    sql_found(q, SNIB_GOOD, "reach", NULL, "%s answers in %" PRId64 " us as %s",
              sql_text(a, 0, 0, VERSION), took_us, sql_text(a, 0, 0, USER));
    tell_mode(q, t, a);
    tell_durability(q, a);
}

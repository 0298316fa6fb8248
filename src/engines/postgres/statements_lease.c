/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What mode=lease is to PostgreSQL: two tables and a few functions, each call one transaction.
 *
 * locks: a row per name, which whoever changes anything about the name locks first; so for one name
 * everything is one after the other, by the server's clock. stakes: who holds, who waits, and who
 * must not come back. A stake ends with its time; one that waits also ends with its session, which
 * is asked for by the advisory lock that each session has of its own number. One that holds does
 * not: a connection that broke says nothing about its holder.
 *
 * Sessions have growing numbers. A stake keeps the number of whoever touched it last, and nobody
 * with a smaller one changes it: a request that arrives late, by a connection that its client has
 * left, is answered "late". Who gives back without knowing what became of an attempt leaves a stake
 * that is over ("gone"), by which that attempt is late.
 *
 * Waiters go in the order of their places. A release rings those who may go (NOTIFY, to one session
 * each), and they ask again; nobody else can go in between, since those before count as far as they
 * live. Dead ones are swept a few at a time.
 *
 * A renewal does not lock the name's row. One that was begun in time and is not committed yet looks
 * like a stake that is over; deleting that waits for it, so those who hold are counted again behind
 * every deletion.
 */
#include "engines/postgres/statements.h"

/* Is the session of stake w (of stake s) there? One's own lock would not be in one's own way. */
#define ALIVE_W                                                                                    \
    "(w.pid = pg_backend_pid() OR NOT pg_try_advisory_xact_lock_shared(hashtext('^'), "            \
    "(w.session % 2147483647)::int))"
#define ALIVE_S                                                                                    \
    "(s.pid = pg_backend_pid() OR NOT pg_try_advisory_xact_lock_shared(hashtext('^'), "            \
    "(s.session % 2147483647)::int))"

#define WHO_S "s.who || CASE WHEN s.label = '' THEN '' ELSE ' ' || s.label END"

/* Ring those who may go now. */
#define WAKE                                                                                       \
    "CREATE OR REPLACE FUNCTION @.wake(k bigint, now timestamptz) RETURNS void LANGUAGE "          \
    "plpgsql SET search_path = pg_catalog, pg_temp AS $f$ DECLARE w record; held int; alone "      \
    "bool; rung int := 0; swept int := 0; "                                                        \
    "BEGIN SELECT count(*), coalesce(bool_or(mode = 0), false) INTO held, alone FROM @.stakes "    \
    "WHERE key = k AND state = 1 AND until > now; FOR w IN SELECT * FROM @.stakes WHERE key = "    \
    "k AND state = 0 ORDER BY place LOOP EXIT WHEN alone OR swept > 50; IF w.until <= now OR "     \
    "NOT " ALIVE_W                                                                                 \
    " THEN DELETE FROM @.stakes WHERE key = k AND owner = w.owner; swept := swept + 1; "           \
    "CONTINUE; END IF; EXIT WHEN w.mode = 0 AND held + rung > 0; EXIT WHEN w.mode = 2 AND held "   \
    "+ rung >= w.permits; PERFORM pg_notify('^_' || w.pid, k::text); rung := rung + 1; EXIT "      \
    "WHEN w.mode = 0; END LOOP; END $f$; "

#define ATTEMPT                                                                                    \
    "CREATE OR REPLACE FUNCTION @.attempt(k bigint, n text, m int, p int, o text, sess bigint, "   \
    "wh text, la text, t bigint, q bool, OUT what text, OUT tok bigint, OUT holder text, OUT "     \
    "holder_token bigint, OUT left_ms bigint, OUT spot int) LANGUAGE plpgsql SET search_path = "   \
    "pg_catalog, pg_temp AS $f$ DECLARE l "                                                        \
    "record; mine record; w record; h record; now timestamptz; held int; ahead int := 0; stop "    \
    "bool := false; swept int := 0; fits bool; BEGIN LOOP SELECT * INTO l FROM @.locks WHERE "     \
    "key = k FOR UPDATE; EXIT WHEN FOUND; INSERT INTO @.locks (key, name) VALUES (k, n) ON "       \
    "CONFLICT DO NOTHING; END LOOP; now := clock_timestamp(); IF l.name <> n THEN what := "        \
    "'taken'; RETURN; END IF; SELECT * INTO mine FROM @.stakes WHERE key = k AND owner = o; IF "   \
    "mine.session > sess OR mine.state = 2 THEN what := 'late'; RETURN; END IF; IF mine.state "    \
    "= 1 AND mine.until > now AND mine.broken IS NULL THEN UPDATE @.stakes SET until = now + t "   \
    "* interval '1 ms', ttl = t, session = sess, pid = pg_backend_pid() WHERE key = k AND "        \
    "owner = o; what := 'held'; tok := mine.token; RETURN; END IF; FOR pass IN 1..2 LOOP "         \
    "SELECT count(*) FILTER (WHERE alive) AS n, coalesce(bool_or(mode = 0) FILTER (WHERE "         \
    "alive), false) AS alone, coalesce(bool_or((mode = 2) <> (m = 2) OR permits <> p) FILTER "     \
    "(WHERE alive), false) AS strange, count(*) FILTER (WHERE NOT alive AND state <> 0) AS "       \
    "old, count(*) FILTER (WHERE state = 0 AND owner <> o) AS waits INTO h FROM (SELECT *, "       \
    "state = 1 AND until > now AND owner <> o AS alive FROM @.stakes WHERE key = k) x; held := "   \
    "h.n; EXIT WHEN h.old = 0 OR pass = 2; DELETE FROM @.stakes WHERE key = k AND state <> 0 "     \
    "AND (until <= now OR owner = o); END LOOP; IF h.strange THEN what := 'kinds'; RETURN; END "   \
    "IF; IF h.waits > 0 THEN FOR w IN SELECT * FROM @.stakes WHERE key = k AND state = 0 AND "     \
    "(mine.place IS NULL OR place < mine.place) AND owner <> o ORDER BY place LOOP IF w.until "    \
    "<= now OR NOT " ALIVE_W                                                                       \
    " THEN DELETE FROM @.stakes WHERE key = k AND owner = w.owner; swept := swept + 1; EXIT "      \
    "WHEN swept > 50; CONTINUE; END IF; IF (w.mode = 2) <> (m = 2) OR w.permits <> p THEN what "   \
    ":= 'kinds'; RETURN; END IF; ahead := ahead + 1; stop := stop OR m = 0 OR w.mode = 0; EXIT "   \
    "WHEN ahead > 20; END LOOP; END IF; fits := CASE m WHEN 0 THEN held = 0 WHEN 1 THEN NOT "      \
    "h.alone ELSE held + ahead < p END; IF fits AND NOT (stop AND m <> 2) AND swept <= 50 THEN "   \
    "IF m = 1 THEN tok := coalesce(l.token, nextval('@.token')); ELSE tok := "                     \
    "nextval('@.token'); END IF; IF m <> 2 AND tok IS DISTINCT FROM l.token THEN UPDATE "          \
    "@.locks SET token = tok WHERE key = k; END IF; INSERT INTO @.stakes (key, owner, state, "     \
    "mode, permits, session, pid, who, label, ttl, token, since, until) VALUES (k, o, 1, m, p, "   \
    "sess, pg_backend_pid(), wh, la, t, tok, now, now + t * interval '1 ms') ON CONFLICT (key, "   \
    "owner) DO UPDATE SET state = 1, session = sess, pid = pg_backend_pid(), ttl = t, token = "    \
    "excluded.token, since = now, until = excluded.until, broken = NULL; what := 'held'; IF m "    \
    "= 1 AND mine.state = 0 THEN PERFORM @.wake(k, now); END IF; RETURN; END IF; SELECT " WHO_S    \
    " AS who, s.token, (extract(epoch FROM s.until - now) * 1000)::bigint AS left_ms INTO w "      \
    "FROM @.stakes s WHERE s.key = k AND s.state = 1 ORDER BY s.until LIMIT 1; holder := "         \
    "w.who; holder_token := w.token; left_ms := w.left_ms; IF swept > 50 THEN left_ms := 0; "      \
    "END IF; spot := ahead + 1; IF NOT q THEN what := 'busy'; IF mine.state = 0 THEN DELETE "      \
    "FROM @.stakes WHERE key = k AND owner = o; END IF; RETURN; END IF; what := 'queued'; "        \
    "INSERT INTO @.stakes (key, owner, state, mode, permits, session, pid, who, label, ttl, "      \
    "place, since, until) VALUES (k, o, 0, m, p, sess, pg_backend_pid(), wh, la, t, "              \
    "nextval('@.token'), now, now + t * interval '1 ms') ON CONFLICT (key, owner) DO UPDATE "      \
    "SET session = sess, pid = pg_backend_pid(), ttl = t, until = excluded.until; END $f$; "

#define RELEASE                                                                                    \
    "CREATE OR REPLACE FUNCTION @.release(k bigint, o text, sess bigint, unsure bool, t "          \
    "bigint) RETURNS bool LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $f$ DECLARE "  \
    "now timestamptz; mine record; BEGIN "                                                         \
    "PERFORM FROM @.locks WHERE key = k FOR UPDATE; now := clock_timestamp(); DELETE FROM "        \
    "@.stakes WHERE key = k AND owner = o AND session <= sess RETURNING * INTO mine; IF unsure "   \
    "THEN INSERT INTO @.stakes (key, owner, state, mode, permits, session, who, label, ttl, "      \
    "until) VALUES (k, o, 2, 0, 1, sess, '', '', t, now + t * interval '1 ms') ON CONFLICT DO "    \
    "NOTHING; END IF; IF mine.state IS NOT NULL AND EXISTS (SELECT FROM @.stakes WHERE key = k "   \
    "AND state = 0) THEN PERFORM @.wake(k, now); END IF; RETURN coalesce(mine.state = 0 OR "       \
    "mine.state = 1 AND mine.until > now, false); END $f$; "

#define RENEW                                                                                      \
    "CREATE OR REPLACE FUNCTION @.renew(sess bigint, keys text, owners text, ttls text) "          \
    "RETURNS TABLE (o text, what text, tok bigint, by text) LANGUAGE plpgsql SET search_path = "   \
    "pg_catalog, pg_temp AS $f$ BEGIN "                                                            \
    "RETURN QUERY WITH a AS (SELECT * FROM unnest(string_to_array(keys, ',')::bigint[], "          \
    "string_to_array(owners, ','), string_to_array(ttls, ',')::bigint[]) AS x (k, ow, t)), "       \
    "u AS (UPDATE @.stakes s SET until = clock_timestamp() + a.t * interval '1 ms', ttl = a.t, "   \
    "session = sess, pid = pg_backend_pid() FROM a WHERE s.key = a.k AND s.owner = a.ow AND "      \
    "s.state = 1 AND s.until > clock_timestamp() AND s.broken IS NULL AND s.session <= sess "      \
    "RETURNING s.owner, s.token) "                                                                 \
    "SELECT a.ow, CASE WHEN u.owner IS NOT NULL THEN 'held' WHEN b.broken IS NOT NULL THEN "       \
    "'broken' ELSE 'lost' END, u.token, b.broken FROM a LEFT JOIN u ON u.owner = a.ow "            \
    "LEFT JOIN @.stakes b ON b.key = a.k AND b.owner = a.ow AND b.state <> 0; END $f$; "

#define ASK                                                                                        \
    "CREATE OR REPLACE FUNCTION @.ask(k bigint, t bigint, by text, force bool) "                   \
    "RETURNS TABLE (what text, holder text, left_ms bigint) LANGUAGE plpgsql SET search_path = "   \
    "pg_catalog, pg_temp AS $f$ "                                                                  \
    "DECLARE now timestamptz; s record; BEGIN "                                                    \
    "PERFORM FROM @.locks WHERE key = k FOR UPDATE; now := clock_timestamp(); "                    \
    "FOR s IN SELECT * FROM @.stakes WHERE key = k AND state = 1 AND token = t AND until > now "   \
    "LOOP IF force THEN UPDATE @.stakes SET state = 2, broken = by WHERE key = k AND owner = "     \
    "s.owner; what := 'gone'; "                                                                    \
    "ELSE UPDATE @.stakes SET broken = by WHERE key = k AND owner = s.owner; what := 'asked'; "    \
    "END IF; PERFORM pg_notify('^_' || s.pid, k::text); "                                          \
    "holder := " WHO_S "; left_ms := (extract(epoch FROM s.until - now) * 1000)::bigint; "         \
    "RETURN NEXT; END LOOP; "                                                                      \
    "IF what = 'gone' THEN PERFORM @.wake(k, now); END IF; END $f$; "

const char *const pg_lease_statements[SQL_STATEMENTS] = {
    [SQL_ENLIST] = "SELECT x.n, pg_advisory_lock(hashtext('^'), (x.n % 2147483647)::int) "
                   "FROM (SELECT nextval('@.token') AS n OFFSET 0) x, "
                   "(SELECT count(*) FROM pg_class WHERE oid = '@.stakes'::regclass) y",
    [SQL_ATTEMPT] = "SELECT * FROM @.attempt($1::bigint, $2, $3::int, $4::int, $5, $6::bigint, $7, "
                    "$8, $9::bigint, $10 = '1')",
    [SQL_RENEW] = "SELECT * FROM @.renew($1::bigint, $2, $3, $4)",
    [SQL_RELEASE] = "SELECT @.release($1::bigint, $2, $3::bigint, $4 = '1', $5::bigint)",
    [SQL_ASK] = "SELECT * FROM @.ask($1::bigint, $2::bigint, $3, $4 = '1')",
    [SQL_LOOK] =
        "SELECT l.name, s.mode, CASE WHEN s.state = 1 THEN 0 ELSE row_number() OVER (PARTITION BY "
        "l.name, s.state ORDER BY s.place) END AS spot, CASE WHEN s.state = 1 THEN s.token END, "
        "s.who, s.label, (extract(epoch FROM s.since) * 1000)::bigint, "
        "CASE WHEN s.state = 1 THEN (extract(epoch FROM s.until - clock_timestamp()) * "
        "1000)::bigint END, s.permits, s.pid, s.broken FROM @.locks l JOIN @.stakes s USING (key) "
        "WHERE CASE WHEN $2 = '1' THEN starts_with(l.name, $1) ELSE l.name = $1 END AND "
        "s.until > clock_timestamp() AND (s.state = 1 OR s.state = 0 AND " ALIVE_S ") "
        "ORDER BY l.name COLLATE \"C\", spot",
};

const char *const pg_lease_tables[] = {
    PG_NOT_BESIDE("seats", "session"),
    "IF to_regclass('@.locks') IS NULL THEN "
    "CREATE TABLE @.locks (key bigint PRIMARY KEY, name text NOT NULL, token bigint) "
    "WITH (fillfactor = 70); END IF; "
    "IF to_regclass('@.stakes') IS NULL THEN "
    "CREATE TABLE @.stakes (key bigint NOT NULL, owner text NOT NULL, state integer NOT NULL, "
    "mode integer NOT NULL, permits integer NOT NULL, session bigint NOT NULL, pid integer, "
    "who text NOT NULL, label text NOT NULL, ttl bigint NOT NULL, token bigint, place bigint, "
    "since timestamptz, until timestamptz NOT NULL, broken text, PRIMARY KEY (key, owner)) "
    "WITH (fillfactor = 50); END IF; ",
    WAKE,
    ATTEMPT,
    RELEASE,
    RENEW,
    ASK,
    NULL,
};

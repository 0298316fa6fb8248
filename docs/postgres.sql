-- SPDX-License-Identifier: Apache-2.0
-- What the PostgreSQL engine of snib makes by itself at the first acquire, for those who let nobody make
-- tables but themselves. A schema is one mode's: snib for mode=session, and snib_lease for
-- mode=lease&schema=snib_lease. Twice does no harm. Do it as a role that all who lock may trust, since
-- they execute what its owner writes there: a superuser, the owner of the database, or a role that they
-- are members of. `snib doctor --acl` prints what a user needs then.

-- mode=session
DO $snib$ BEGIN
PERFORM pg_advisory_xact_lock(hashtextextended('snib', 8313480218417128786));
IF to_regnamespace('snib') IS NULL THEN
CREATE SCHEMA snib;
END IF;
IF to_regclass('snib.token') IS NULL THEN
EXECUTE format('CREATE SEQUENCE snib.token START %s', (extract(epoch FROM clock_timestamp()) *
    1000000)::bigint);
END IF;
IF to_regclass('snib.seats') IS NULL THEN
CREATE UNLOGGED TABLE snib.seats (key bigint NOT NULL, seat integer NOT NULL, name text NOT NULL,
    mode integer NOT NULL, token bigint, pid integer, who text, label text, since timestamptz, ttl
    bigint, broken text, PRIMARY KEY (key, seat)) WITH (fillfactor = 50);
CREATE INDEX ON snib.seats (key) WHERE broken IS NOT NULL;
END IF;
IF to_regclass('snib.life') IS NULL THEN
CREATE UNLOGGED TABLE snib.life (born timestamptz NOT NULL, since timestamptz);
INSERT INTO snib.life (born) VALUES (pg_postmaster_start_time());
END IF;
CREATE OR REPLACE FUNCTION snib.revive() RETURNS void LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $f$ BEGIN
PERFORM pg_advisory_xact_lock(hashtextextended('snib', 8313480218417128786));
IF NOT EXISTS (SELECT FROM snib.life) THEN
PERFORM setval('snib.token', (SELECT last_value FROM snib.token) + 1000000);
INSERT INTO snib.life VALUES (pg_postmaster_start_time(), clock_timestamp());
END IF;
END $f$;
END $snib$;

-- mode=lease
DO $snib$ BEGIN
PERFORM pg_advisory_xact_lock(hashtextextended('snib_lease', 8313480218417128786));
IF to_regnamespace('snib_lease') IS NULL THEN
CREATE SCHEMA snib_lease;
END IF;
IF to_regclass('snib_lease.token') IS NULL THEN
EXECUTE format('CREATE SEQUENCE snib_lease.token START %s', (extract(epoch FROM clock_timestamp()) *
    1000000)::bigint);
END IF;
IF to_regclass('snib_lease.locks') IS NULL THEN
CREATE TABLE snib_lease.locks (key bigint PRIMARY KEY, name text NOT NULL, token bigint) WITH (fillfactor
    = 70);
END IF;
IF to_regclass('snib_lease.stakes') IS NULL THEN
CREATE TABLE snib_lease.stakes (key bigint NOT NULL, owner text NOT NULL, state integer NOT NULL, mode
    integer NOT NULL, permits integer NOT NULL, session bigint NOT NULL, pid integer, who text NOT
    NULL, label text NOT NULL, ttl bigint NOT NULL, token bigint, place bigint, since timestamptz,
    until timestamptz NOT NULL, broken text, PRIMARY KEY (key, owner)) WITH (fillfactor = 50);
END IF;
CREATE OR REPLACE FUNCTION snib_lease.wake(k bigint, now timestamptz) RETURNS void LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS
    $f$ DECLARE w record;
held int;
alone bool;
rung int := 0;
swept int := 0;
BEGIN
SELECT count(*), coalesce(bool_or(mode = 0), false) INTO held, alone FROM snib_lease.stakes WHERE key = k
    AND state = 1 AND until > now;
FOR w IN SELECT * FROM snib_lease.stakes WHERE key = k AND state = 0 ORDER BY place LOOP
EXIT WHEN alone OR swept > 50;
IF w.until <= now OR NOT (w.pid = pg_backend_pid() OR NOT
    pg_try_advisory_xact_lock_shared(hashtext('snib_lease'), (w.session % 2147483647)::int)) THEN
DELETE FROM snib_lease.stakes WHERE key = k AND owner = w.owner;
swept := swept + 1;
CONTINUE;
END IF;
EXIT WHEN w.mode = 0 AND held + rung > 0;
EXIT WHEN w.mode = 2 AND held + rung >= w.permits;
PERFORM pg_notify('snib_lease_' || w.pid, k::text);
rung := rung + 1;
EXIT WHEN w.mode = 0;
END LOOP;
END $f$;
CREATE OR REPLACE FUNCTION snib_lease.attempt(k bigint, n text, m int, p int, o text, sess bigint, wh
    text, la text, t bigint, q bool, OUT what text, OUT tok bigint, OUT holder text, OUT
    holder_token bigint, OUT left_ms bigint, OUT spot int) LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $f$ DECLARE l record;
mine record;
w record;
h record;
now timestamptz;
held int;
ahead int := 0;
stop bool := false;
swept int := 0;
fits bool;
BEGIN
LOOP
SELECT * INTO l FROM snib_lease.locks WHERE key = k FOR UPDATE;
EXIT WHEN FOUND;
INSERT INTO snib_lease.locks (key, name) VALUES (k, n) ON CONFLICT DO NOTHING;
END LOOP;
now := clock_timestamp();
IF l.name <> n THEN
what := 'taken';
RETURN;
END IF;
SELECT * INTO mine FROM snib_lease.stakes WHERE key = k AND owner = o;
IF mine.session > sess OR mine.state = 2 THEN
what := 'late';
RETURN;
END IF;
IF mine.state = 1 AND mine.until > now AND mine.broken IS NULL THEN
UPDATE snib_lease.stakes SET until = now + t * interval '1 ms', ttl = t, session = sess, pid =
    pg_backend_pid() WHERE key = k AND owner = o;
what := 'held';
tok := mine.token;
RETURN;
END IF;
FOR pass IN 1..2 LOOP
SELECT count(*) FILTER (WHERE alive) AS n, coalesce(bool_or(mode = 0) FILTER (WHERE alive), false)
    AS alone, coalesce(bool_or((mode = 2) <> (m = 2) OR permits <> p) FILTER (WHERE alive), false)
    AS strange, count(*) FILTER (WHERE NOT alive AND state <> 0) AS old, count(*) FILTER (WHERE
    state = 0 AND owner <> o) AS waits INTO h FROM (SELECT *, state = 1 AND until > now AND owner
    <> o AS alive FROM snib_lease.stakes WHERE key = k) x;
held := h.n;
EXIT WHEN h.old = 0 OR pass = 2;
DELETE FROM snib_lease.stakes WHERE key = k AND state <> 0 AND (until <= now OR owner = o);
END LOOP;
IF h.strange THEN
what := 'kinds';
RETURN;
END IF;
IF h.waits > 0 THEN
FOR w IN SELECT * FROM snib_lease.stakes WHERE key = k AND state = 0 AND (mine.place IS NULL OR place <
    mine.place) AND owner <> o ORDER BY place LOOP
IF w.until <= now OR NOT (w.pid = pg_backend_pid() OR NOT
    pg_try_advisory_xact_lock_shared(hashtext('snib_lease'), (w.session % 2147483647)::int)) THEN
DELETE FROM snib_lease.stakes WHERE key = k AND owner = w.owner;
swept := swept + 1;
EXIT WHEN swept > 50;
CONTINUE;
END IF;
IF (w.mode = 2) <> (m = 2) OR w.permits <> p THEN
what := 'kinds';
RETURN;
END IF;
ahead := ahead + 1;
stop := stop OR m = 0 OR w.mode = 0;
EXIT WHEN ahead > 20;
END LOOP;
END IF;
fits := CASE m WHEN 0 THEN
held = 0 WHEN 1 THEN
NOT h.alone ELSE held + ahead < p END;
IF fits AND NOT (stop AND m <> 2) AND swept <= 50 THEN
IF m = 1 THEN
tok := coalesce(l.token, nextval('snib_lease.token'));
ELSE tok := nextval('snib_lease.token');
END IF;
IF m <> 2 AND tok IS DISTINCT FROM l.token THEN
UPDATE snib_lease.locks SET token = tok WHERE key = k;
END IF;
INSERT INTO snib_lease.stakes (key, owner, state, mode, permits, session, pid, who, label, ttl, token,
    since, until) VALUES (k, o, 1, m, p, sess, pg_backend_pid(), wh, la, t, tok, now, now + t *
    interval '1 ms') ON CONFLICT (key, owner) DO UPDATE SET state = 1, session = sess, pid =
    pg_backend_pid(), ttl = t, token = excluded.token, since = now, until = excluded.until, broken
    = NULL;
what := 'held';
IF m = 1 AND mine.state = 0 THEN
PERFORM snib_lease.wake(k, now);
END IF;
RETURN;
END IF;
SELECT s.who || CASE WHEN s.label = '' THEN
'' ELSE ' ' || s.label END AS who, s.token, (extract(epoch FROM s.until - now) * 1000)::bigint AS
    left_ms INTO w FROM snib_lease.stakes s WHERE s.key = k AND s.state = 1 ORDER BY s.until LIMIT 1;
holder := w.who;
holder_token := w.token;
left_ms := w.left_ms;
IF swept > 50 THEN
left_ms := 0;
END IF;
spot := ahead + 1;
IF NOT q THEN
what := 'busy';
IF mine.state = 0 THEN
DELETE FROM snib_lease.stakes WHERE key = k AND owner = o;
END IF;
RETURN;
END IF;
what := 'queued';
INSERT INTO snib_lease.stakes (key, owner, state, mode, permits, session, pid, who, label, ttl, place,
    since, until) VALUES (k, o, 0, m, p, sess, pg_backend_pid(), wh, la, t, nextval('snib_lease.token'),
    now, now + t * interval '1 ms') ON CONFLICT (key, owner) DO UPDATE SET session = sess, pid =
    pg_backend_pid(), ttl = t, until = excluded.until;
END $f$;
CREATE OR REPLACE FUNCTION snib_lease.release(k bigint, o text, sess bigint, unsure bool, t bigint)
    RETURNS bool LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $f$ DECLARE now timestamptz;
mine record;
BEGIN
PERFORM FROM snib_lease.locks WHERE key = k FOR UPDATE;
now := clock_timestamp();
DELETE FROM snib_lease.stakes WHERE key = k AND owner = o AND session <= sess RETURNING * INTO mine;
IF unsure THEN
INSERT INTO snib_lease.stakes (key, owner, state, mode, permits, session, who, label, ttl, until) VALUES
    (k, o, 2, 0, 1, sess, '', '', t, now + t * interval '1 ms') ON CONFLICT DO NOTHING;
END IF;
IF mine.state IS NOT NULL AND EXISTS (SELECT FROM snib_lease.stakes WHERE key = k AND state = 0) THEN
PERFORM snib_lease.wake(k, now);
END IF;
RETURN coalesce(mine.state = 0 OR mine.state = 1 AND mine.until > now, false);
END $f$;
CREATE OR REPLACE FUNCTION snib_lease.renew(sess bigint, keys text, owners text, ttls text) RETURNS TABLE
    (o text, what text, tok bigint, by text) LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $f$ BEGIN
RETURN QUERY WITH a AS (SELECT * FROM unnest(string_to_array(keys, ',')::bigint[],
    string_to_array(owners, ','), string_to_array(ttls, ',')::bigint[]) AS x (k, ow, t)), u AS
    (UPDATE snib_lease.stakes s SET until = clock_timestamp() + a.t * interval '1 ms', ttl = a.t, session
    = sess, pid = pg_backend_pid() FROM a WHERE s.key = a.k AND s.owner = a.ow AND s.state = 1 AND
    s.until > clock_timestamp() AND s.broken IS NULL AND s.session <= sess RETURNING s.owner,
    s.token) SELECT a.ow, CASE WHEN u.owner IS NOT NULL THEN
'held' WHEN b.broken IS NOT NULL THEN
'broken' ELSE 'lost' END, u.token, b.broken FROM a LEFT JOIN u ON u.owner = a.ow LEFT JOIN
    snib_lease.stakes b ON b.key = a.k AND b.owner = a.ow AND b.state <> 0;
END $f$;
CREATE OR REPLACE FUNCTION snib_lease.ask(k bigint, t bigint, by text, force bool) RETURNS TABLE (what
    text, holder text, left_ms bigint) LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $f$ DECLARE now timestamptz;
s record;
BEGIN
PERFORM FROM snib_lease.locks WHERE key = k FOR UPDATE;
now := clock_timestamp();
FOR s IN SELECT * FROM snib_lease.stakes WHERE key = k AND state = 1 AND token = t AND until > now LOOP
IF force THEN
UPDATE snib_lease.stakes SET state = 2, broken = by WHERE key = k AND owner = s.owner;
what := 'gone';
ELSE UPDATE snib_lease.stakes SET broken = by WHERE key = k AND owner = s.owner;
what := 'asked';
END IF;
PERFORM pg_notify('snib_lease_' || s.pid, k::text);
holder := s.who || CASE WHEN s.label = '' THEN
'' ELSE ' ' || s.label END;
left_ms := (extract(epoch FROM s.until - now) * 1000)::bigint;
RETURN NEXT;
END LOOP;
IF what = 'gone' THEN
PERFORM snib_lease.wake(k, now);
END IF;
END $f$;
END $snib$;

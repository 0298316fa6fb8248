-- What snib needs in a PostgreSQL database. snib makes it by itself where it may; else run this once,
-- as the owner of the database, and grant the rights that the end of this file names.
--
-- One row per claim: somebody who holds a name, waits for it, or gave it back while an attempt was
-- still on its way. The routines take a lock of their own around a name (two numbers, ended by the
-- transaction), sweep what is over, and decide. Whatever they decide is one commit.
--
-- The routines are made twice, for lease mode and for session mode. In lease mode a row is over when its
-- time is, by this server's clock. In session mode it is over when the session that wrote it is: a
-- session holds an advisory lock on its own number, and whoever gets that lock knows that the session
-- has ended. Tables of session mode are unlogged: a crash of the server ends all sessions, too.

CREATE SCHEMA IF NOT EXISTS @SCHEMA@;
CREATE SEQUENCE IF NOT EXISTS @SCHEMA@.token;
CREATE TABLE IF NOT EXISTS @SCHEMA@.used (since timestamptz NOT NULL);
CREATE UNLOGGED TABLE IF NOT EXISTS @SCHEMA@.boot (start timestamptz NOT NULL, usable timestamptz NOT NULL);

-- To be called once per connection. The table is empty after a crash and tells another start after a
-- restart: then tokens run ahead, since the last few may not have been flushed, and whoever honours a
-- quarantine waits until leases of before are over. Answers how long that is, in milliseconds.
CREATE OR REPLACE FUNCTION @SCHEMA@.boot(_max_lease_ms bigint) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
    _usable timestamptz;
BEGIN
    SELECT b.usable INTO _usable FROM @SCHEMA@.boot b WHERE b.start = pg_postmaster_start_time();
    IF NOT FOUND THEN
        PERFORM pg_advisory_xact_lock(1936615778, 0);
        SELECT b.usable INTO _usable FROM @SCHEMA@.boot b WHERE b.start = pg_postmaster_start_time();
    END IF;
    IF _usable IS NULL THEN
        DELETE FROM @SCHEMA@.boot;
        IF EXISTS (SELECT 1 FROM @SCHEMA@.used) THEN
            PERFORM setval('@SCHEMA@.token', nextval('@SCHEMA@.token') + 1048576);
            _usable := clock_timestamp() + _max_lease_ms * interval '1 millisecond';
        ELSE
            INSERT INTO @SCHEMA@.used VALUES (clock_timestamp());
            _usable := clock_timestamp();
        END IF;
        INSERT INTO @SCHEMA@.boot VALUES (pg_postmaster_start_time(), _usable);
    END IF;
    RETURN greatest(0, ceil(extract(epoch FROM _usable - clock_timestamp()) * 1000));
END $$;

--@EACH@ from here on for each mode

-- The token of the last grant of a name that was not shared.
CREATE @UNLOGGED@ TABLE IF NOT EXISTS @SCHEMA@.@MODE@_name (
    space bytea NOT NULL,
    name bytea NOT NULL,
    token bigint NOT NULL,
    PRIMARY KEY (space, name)
) WITH (fillfactor = 50);

CREATE @UNLOGGED@ TABLE IF NOT EXISTS @SCHEMA@.@MODE@_claim (
    space bytea NOT NULL,
    name bytea NOT NULL,
    owner bytea NOT NULL,
    place bigint NOT NULL,          -- 0: holds; above: in line; -1: gave back; -2: was taken away
    kind smallint NOT NULL,         -- 0 exclusive, 1 shared, 2 counted
    permits integer NOT NULL,
    token bigint NOT NULL,
    ttl_ms bigint NOT NULL,
    until timestamptz NOT NULL,
    session bigint NOT NULL,        -- 0: none that could be asked
    since timestamptz NOT NULL,
    who bytea NOT NULL,
    label bytea NOT NULL,
    asked bytea,                    -- who wants the holder to give up
    PRIMARY KEY (space, name, owner)
) WITH (fillfactor = 50);

CREATE OR REPLACE FUNCTION @SCHEMA@.@MODE@_until(_ttl_ms bigint) RETURNS timestamptz
LANGUAGE sql VOLATILE AS $$
    SELECT CASE WHEN @LEASED@ THEN clock_timestamp() + _ttl_ms * interval '1 millisecond'
                ELSE 'infinity' END
$$;

-- -1: not known, as long as the session lives.
CREATE OR REPLACE FUNCTION @SCHEMA@.@MODE@_left(_until timestamptz) RETURNS bigint
LANGUAGE sql VOLATILE AS $$
    SELECT CASE WHEN _until = 'infinity' THEN -1
                ELSE greatest(0, floor(extract(epoch FROM _until - clock_timestamp()) * 1000))::bigint END
$$;

-- Alone with a name until the end of the transaction, and rid of what is over. Nobody asks about the
-- session that it is itself.
CREATE OR REPLACE FUNCTION @SCHEMA@.@MODE@_enter(_space bytea, _name bytea, _me bigint) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    _session bigint;
BEGIN
    PERFORM pg_advisory_xact_lock(1936615778, hashtext('@MODE@' || encode(_space, 'hex') || '/' || encode(_name, 'hex')));
    DELETE FROM @SCHEMA@.@MODE@_claim c
     WHERE c.space = _space AND c.name = _name AND c.until <= clock_timestamp();
    FOR _session IN
        SELECT DISTINCT c.session FROM @SCHEMA@.@MODE@_claim c
         WHERE c.space = _space AND c.name = _name AND c.session NOT IN (_me, 0)
           AND (NOT @LEASED@ OR c.place > 0)
    LOOP
        IF pg_try_advisory_xact_lock_shared(_session) THEN
            DELETE FROM @SCHEMA@.@MODE@_claim c
             WHERE c.space = _space AND c.name = _name AND c.session = _session
               AND (NOT @LEASED@ OR c.place > 0);
        END IF;
    END LOOP;
END $$;

CREATE OR REPLACE FUNCTION @SCHEMA@.@MODE@_fits(_space bytea, _name bytea, _kind integer, _permits integer)
RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    RETURN CASE _kind
        WHEN 0 THEN NOT EXISTS (SELECT 1 FROM @SCHEMA@.@MODE@_claim c
                                 WHERE c.space = _space AND c.name = _name AND c.place = 0)
        WHEN 1 THEN NOT EXISTS (SELECT 1 FROM @SCHEMA@.@MODE@_claim c
                                 WHERE c.space = _space AND c.name = _name AND c.place = 0 AND c.kind <> 1)
        ELSE (SELECT count(*) FROM @SCHEMA@.@MODE@_claim c
               WHERE c.space = _space AND c.name = _name AND c.place = 0) < _permits END;
END $$;

CREATE OR REPLACE FUNCTION @SCHEMA@.@MODE@_draw(_space bytea, _name bytea, _kind integer) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
    _token bigint;
BEGIN
    IF _kind = 1 THEN
        SELECT n.token INTO _token FROM @SCHEMA@.@MODE@_name n WHERE n.space = _space AND n.name = _name;
        IF FOUND THEN
            RETURN _token;
        END IF;
    END IF;
    _token := nextval('@SCHEMA@.token');
    INSERT INTO @SCHEMA@.@MODE@_name AS n VALUES (_space, _name, _token)
        ON CONFLICT (space, name) DO UPDATE SET token = _token;
    RETURN _token;
END $$;

-- Those at the head of the line, as far as there is room. They are rung: their own session listens to
-- a channel with its number.
CREATE OR REPLACE FUNCTION @SCHEMA@.@MODE@_promote(_space bytea, _name bytea, _owner bytea) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    _next @SCHEMA@.@MODE@_claim;
BEGIN
    LOOP
        SELECT * INTO _next FROM @SCHEMA@.@MODE@_claim c
         WHERE c.space = _space AND c.name = _name AND c.place > 0 ORDER BY c.place LIMIT 1;
        EXIT WHEN NOT FOUND OR NOT @SCHEMA@.@MODE@_fits(_space, _name, _next.kind, _next.permits);
        UPDATE @SCHEMA@.@MODE@_claim c
           SET place = 0, token = @SCHEMA@.@MODE@_draw(_space, _name, _next.kind),
               until = @SCHEMA@.@MODE@_until(_next.ttl_ms), since = clock_timestamp()
         WHERE c.space = _space AND c.name = _name AND c.owner = _next.owner;
        IF _next.owner <> _owner AND _next.session <> 0 THEN
            PERFORM pg_notify('snib_' || to_hex(_next.session), encode(_next.owner, 'hex'));
        END IF;
    END LOOP;
END $$;

-- status: 1 held, 2 in line, 3 busy, 4 in use as another kind, 5 was given back already
CREATE OR REPLACE FUNCTION @SCHEMA@.@MODE@_attempt(
    _space bytea, _name bytea, _owner bytea, _session bigint, _kind integer, _permits integer,
    _ttl_ms bigint, _queue boolean, _who bytea, _label bytea,
    OUT status integer, OUT token bigint, OUT left_ms bigint, OUT place bigint,
    OUT holder bytea, OUT holder_token bigint, OUT holder_left_ms bigint)
LANGUAGE plpgsql AS $$
DECLARE
    _mine @SCHEMA@.@MODE@_claim;
    _other @SCHEMA@.@MODE@_claim;
    _waits boolean;
BEGIN
    PERFORM @SCHEMA@.@MODE@_enter(_space, _name, _session);
    SELECT * INTO _mine FROM @SCHEMA@.@MODE@_claim c
     WHERE c.space = _space AND c.name = _name AND c.owner = _owner;
    IF _mine.place = -1 THEN
        status := 5;
        RETURN;
    ELSIF _mine.place = -2 THEN -- before anybody here knew that it was ours
        DELETE FROM @SCHEMA@.@MODE@_claim c
         WHERE c.space = _space AND c.name = _name AND c.owner = _owner;
        _mine := NULL;
    END IF;
    IF _mine.place IS NULL THEN
        SELECT * INTO _other FROM @SCHEMA@.@MODE@_claim c
         WHERE c.space = _space AND c.name = _name AND c.place >= 0
         ORDER BY c.place LIMIT 1;
        IF FOUND AND ((_other.kind = 2) <> (_kind = 2) OR (_kind = 2 AND _other.permits <> _permits)) THEN
            status := 4;
            holder := _other.who;
            RETURN;
        END IF;
        SELECT EXISTS (SELECT 1 FROM @SCHEMA@.@MODE@_claim c
                        WHERE c.space = _space AND c.name = _name AND c.place > 0) INTO _waits;
        IF _waits THEN
            PERFORM @SCHEMA@.@MODE@_promote(_space, _name, _owner);
            SELECT EXISTS (SELECT 1 FROM @SCHEMA@.@MODE@_claim c
                            WHERE c.space = _space AND c.name = _name AND c.place > 0) INTO _waits;
        END IF;
        IF NOT _waits AND @SCHEMA@.@MODE@_fits(_space, _name, _kind, _permits) THEN
            token := @SCHEMA@.@MODE@_draw(_space, _name, _kind);
            INSERT INTO @SCHEMA@.@MODE@_claim VALUES (
                _space, _name, _owner, 0, _kind, _permits, token, _ttl_ms,
                @SCHEMA@.@MODE@_until(_ttl_ms), _session, clock_timestamp(), _who, _label, NULL);
            status := 1;
            left_ms := _ttl_ms;
            RETURN;
        END IF;
        IF _queue THEN
            INSERT INTO @SCHEMA@.@MODE@_claim VALUES (
                _space, _name, _owner,
                (SELECT greatest(max(c.place), 0) + 1 FROM @SCHEMA@.@MODE@_claim c
                  WHERE c.space = _space AND c.name = _name),
                _kind, _permits, 0, _ttl_ms,
                @SCHEMA@.@MODE@_until(_ttl_ms), _session, clock_timestamp(), _who, _label, NULL)
            RETURNING * INTO _mine;
        END IF;
    ELSIF _mine.place > 0 THEN
        PERFORM @SCHEMA@.@MODE@_promote(_space, _name, _owner);
        SELECT * INTO _mine FROM @SCHEMA@.@MODE@_claim c
         WHERE c.space = _space AND c.name = _name AND c.owner = _owner;
    END IF;
    -- A place in line is kept by asking again, and follows its client to another session.
    IF _mine.place > 0 AND _mine.until < clock_timestamp() + _ttl_ms * interval '0.7 milliseconds'
       OR _mine.session <> _session THEN
        UPDATE @SCHEMA@.@MODE@_claim c
           SET session = _session,
               until = CASE WHEN c.place > 0 THEN @SCHEMA@.@MODE@_until(_ttl_ms) ELSE c.until END
         WHERE c.space = _space AND c.name = _name AND c.owner = _owner;
    END IF;
    IF _mine.place = 0 THEN
        status := 1;
        token := _mine.token;
        left_ms := @SCHEMA@.@MODE@_left(_mine.until);
        IF left_ms < 0 THEN
            left_ms := _ttl_ms;
        END IF;
        RETURN;
    END IF;
    status := CASE WHEN _mine.place > 0 THEN 2 ELSE 3 END;
    SELECT count(*) INTO place FROM @SCHEMA@.@MODE@_claim c
     WHERE c.space = _space AND c.name = _name AND c.place > 0 AND c.place <= _mine.place;
    SELECT * INTO _other FROM @SCHEMA@.@MODE@_claim c
     WHERE c.space = _space AND c.name = _name AND c.place >= 0 AND c.owner <> _owner
     ORDER BY c.place, c.until DESC LIMIT 1;
    holder := _other.who || CASE WHEN _other.label = '' THEN '' ELSE ' ('::bytea || _other.label || ')'::bytea END;
    holder_token := _other.token;
    holder_left_ms := greatest(0, @SCHEMA@.@MODE@_left(_other.until));
END $$;

-- status: 1 still held, 0 not; then asked is who wanted it, if somebody did
CREATE OR REPLACE FUNCTION @SCHEMA@.@MODE@_renew(
    _space bytea, _name bytea, _owner bytea, _session bigint, _ttl_ms bigint,
    OUT status integer, OUT token bigint, OUT asked bytea)
LANGUAGE plpgsql AS $$
DECLARE
    _mine @SCHEMA@.@MODE@_claim;
BEGIN
    IF @LEASED@ THEN
        UPDATE @SCHEMA@.@MODE@_claim c
           SET until = @SCHEMA@.@MODE@_until(_ttl_ms), ttl_ms = _ttl_ms, session = _session
         WHERE c.space = _space AND c.name = _name AND c.owner = _owner
           AND c.place = 0 AND c.asked IS NULL AND c.until > clock_timestamp()
        RETURNING * INTO _mine;
    ELSE
        SELECT * INTO _mine FROM @SCHEMA@.@MODE@_claim c
         WHERE c.space = _space AND c.name = _name AND c.owner = _owner
           AND c.place = 0 AND c.asked IS NULL;
        IF _mine.session <> _session THEN
            UPDATE @SCHEMA@.@MODE@_claim c SET session = _session
             WHERE c.space = _space AND c.name = _name AND c.owner = _owner
               AND c.place = 0 AND c.asked IS NULL
            RETURNING * INTO _mine;
        END IF;
    END IF;
    status := CASE WHEN _mine.token IS NULL THEN 0 ELSE 1 END;
    token := _mine.token;
    IF status = 0 THEN
        SELECT c.asked INTO asked FROM @SCHEMA@.@MODE@_claim c
         WHERE c.space = _space AND c.name = _name AND c.owner = _owner;
    END IF;
END $$;

-- status: 1 was held, 2 was in line, 0 was not there. _bury: an attempt may still come; it is refused.
CREATE OR REPLACE FUNCTION @SCHEMA@.@MODE@_release(
    _space bytea, _name bytea, _owner bytea, _session bigint, _bury_ms bigint, OUT status integer)
LANGUAGE plpgsql AS $$
DECLARE
    _place bigint;
BEGIN
    PERFORM @SCHEMA@.@MODE@_enter(_space, _name, _session);
    DELETE FROM @SCHEMA@.@MODE@_claim c
     WHERE c.space = _space AND c.name = _name AND c.owner = _owner AND c.place <> -1
    RETURNING c.place INTO _place;
    status := CASE WHEN _place = 0 THEN 1 WHEN _place > 0 THEN 2 ELSE 0 END;
    IF _bury_ms > 0 THEN
        INSERT INTO @SCHEMA@.@MODE@_claim VALUES (
            _space, _name, _owner, -1, 0, 1, 0, _bury_ms,
            clock_timestamp() + _bury_ms * interval '1 millisecond', 0, clock_timestamp(), '', '', NULL)
        ON CONFLICT (space, name, owner) DO NOTHING;
    END IF;
    IF status > 0 THEN
        PERFORM @SCHEMA@.@MODE@_promote(_space, _name, _owner);
    END IF;
END $$;

-- status: 0 that token holds nothing, 1 taken away, 2 asked: who holds it still, and for how long
CREATE OR REPLACE FUNCTION @SCHEMA@.@MODE@_evict(
    _space bytea, _name bytea, _token bigint, _session bigint, _force boolean, _who bytea,
    OUT status integer, OUT holder bytea, OUT left_ms bigint)
LANGUAGE plpgsql AS $$
DECLARE
    _one @SCHEMA@.@MODE@_claim;
BEGIN
    PERFORM @SCHEMA@.@MODE@_enter(_space, _name, _session);
    status := 0;
    FOR _one IN
        SELECT * FROM @SCHEMA@.@MODE@_claim c
         WHERE c.space = _space AND c.name = _name AND c.place = 0 AND c.token = _token
    LOOP
        IF _force THEN
            UPDATE @SCHEMA@.@MODE@_claim c
               SET place = -2, asked = _who, until = clock_timestamp() + c.ttl_ms * interval '1 millisecond'
             WHERE c.space = _space AND c.name = _name AND c.owner = _one.owner;
            status := 1;
        ELSE
            UPDATE @SCHEMA@.@MODE@_claim c
               SET asked = _who,
                   until = least(c.until, clock_timestamp() + c.ttl_ms * interval '1 millisecond')
             WHERE c.space = _space AND c.name = _name AND c.owner = _one.owner AND c.asked IS NULL
            RETURNING * INTO _one;
            status := 2;
        END IF;
        IF FOUND AND _one.session <> 0 THEN
            PERFORM pg_notify('snib_' || to_hex(_one.session), encode(_one.owner, 'hex'));
        END IF;
    END LOOP;
    IF status = 1 THEN
        PERFORM @SCHEMA@.@MODE@_promote(_space, _name, '');
    ELSIF status = 2 THEN
        SELECT c.who, @SCHEMA@.@MODE@_left(c.until) INTO holder, left_ms FROM @SCHEMA@.@MODE@_claim c
         WHERE c.space = _space AND c.name = _name AND c.place = 0 AND c.token = _token
         ORDER BY c.until DESC LIMIT 1;
    END IF;
END $$;

CREATE OR REPLACE FUNCTION @SCHEMA@.@MODE@_look(_space bytea, _name bytea, _prefix boolean, _session bigint)
RETURNS TABLE (name bytea, place bigint, kind smallint, permits integer, token bigint, left_ms bigint,
               since_ms bigint, who bytea, label bytea)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    WITH seen AS MATERIALIZED (
        SELECT c.* FROM @SCHEMA@.@MODE@_claim c
         WHERE c.space = _space AND c.place >= 0 AND c.until > clock_timestamp()
           AND (CASE WHEN _prefix THEN substr(c.name, 1, length(_name)) ELSE c.name END) = _name
           AND (_prefix OR c.name = _name)
    ), sessions AS MATERIALIZED (
        SELECT d.session, d.session NOT IN (_session, 0) AND pg_try_advisory_xact_lock_shared(d.session) AS over
          FROM (SELECT DISTINCT s.session FROM seen s WHERE NOT @LEASED@ OR s.place > 0) d
    )
    SELECT s.name,
           CASE WHEN s.place = 0 THEN 0
                ELSE row_number() OVER (PARTITION BY s.name, s.place > 0 ORDER BY s.place) END,
           s.kind, s.permits, s.token, @SCHEMA@.@MODE@_left(s.until),
           floor(extract(epoch FROM s.since) * 1000)::bigint, s.who, s.label
      FROM seen s
     WHERE NOT EXISTS (SELECT 1 FROM sessions d
                        WHERE d.session = s.session AND d.over AND (NOT @LEASED@ OR s.place > 0))
     ORDER BY s.name, s.place, s.since;
END $$;
--@END@

-- The last thing to be made: its presence says that all of it is there.
CREATE OR REPLACE FUNCTION @SCHEMA@.schema_1() RETURNS integer LANGUAGE sql AS 'SELECT 1';

-- For another role than the one that ran this:
--   GRANT USAGE ON SCHEMA snib TO role;
--   GRANT ALL ON ALL TABLES IN SCHEMA snib TO role;
--   GRANT ALL ON ALL SEQUENCES IN SCHEMA snib TO role;

-- What snib needs in a MySQL or MariaDB database. snib makes it by itself where it may; else run this
-- once in that database, as somebody who may, and grant the rights that the end of this file names.
--
-- One row per claim: somebody who holds a name, waits for it, or gave it back while an attempt was
-- still on its way. The routines lock the row of the name first, sweep what is over, and decide.
-- Whatever they decide is one commit. Times are microseconds since 1970, by SYSDATE in UTC: NOW would
-- be the beginning of the statement, however long it then waited.
--
-- The routines are made twice, for lease mode and for session mode. In lease mode a row is over when its
-- time is, by this server's clock. In session mode it is over when the session that wrote it is: a
-- session holds a GET_LOCK of its own number, and where nobody does the session has ended.
--
-- An error undoes everything. What KILL QUERY interrupts runs no handler: so each routine begins by
-- undoing what may have been left.

CREATE TABLE IF NOT EXISTS snib_used (since BIGINT NOT NULL) ENGINE=InnoDB;
-- Empty after a restart.
CREATE TABLE IF NOT EXISTS snib_boot (usable BIGINT NOT NULL) ENGINE=MEMORY;

DROP PROCEDURE IF EXISTS snib_boot;
DROP PROCEDURE IF EXISTS snib_ring;
DELIMITER //
-- To be called once per connection: milliseconds until leases of before a restart are over.
CREATE PROCEDURE snib_boot(_max_lease_ms BIGINT)
BEGIN
    DECLARE _now BIGINT DEFAULT CAST(UNIX_TIMESTAMP(SYSDATE(6)) * 1000000 AS SIGNED);
    DECLARE _usable BIGINT DEFAULT NULL;
    SELECT b.usable INTO _usable FROM snib_boot b LIMIT 1;
    IF _usable IS NULL AND GET_LOCK('snib.boot', 10) = 1 THEN
        SELECT b.usable INTO _usable FROM snib_boot b LIMIT 1;
        IF _usable IS NULL THEN
            SET _usable = _now;
            IF EXISTS (SELECT 1 FROM snib_used) THEN
                SET _usable = _now + _max_lease_ms * 1000;
            ELSE
                INSERT INTO snib_used VALUES (_now);
            END IF;
            INSERT INTO snib_boot VALUES (_usable);
        END IF;
        DO RELEASE_LOCK('snib.boot');
    END IF;
    SELECT GREATEST(0, CEIL((_usable - _now) / 1000));
END
//
-- Who was let in sleeps on a connection of its client that holds a lock of its own: that sleep is ended.
-- A client that let somebody of its own in looks without being rung. Who may not do that, or comes too early, leaves it to the other to look again.
CREATE PROCEDURE snib_ring(_but BIGINT)
BEGIN
    DECLARE _id, _session BIGINT DEFAULT NULL;
    DECLARE CONTINUE HANDLER FOR SQLEXCEPTION BEGIN END;
    WHILE @snib_rings <> '' DO
        SET _session = SUBSTRING_INDEX(@snib_rings, ',', 1);
        SET _id = IF(_session = _but, NULL, IS_USED_LOCK(CONCAT('snib.e.', _session)));
        SET @snib_rings = SUBSTR(@snib_rings, LOCATE(',', @snib_rings) + 1);
        IF _id IS NOT NULL THEN
            KILL QUERY _id;
        END IF;
    END WHILE;
END
//
DELIMITER ;

--@EACH@ from here on for each mode

-- The token of the last grant of a name: the last one plus 1 or the clock, so that it also grows over a
-- failover that lost some. Its row is also what a routine is alone with.
CREATE TABLE IF NOT EXISTS snib_@MODE@_name (
    space VARBINARY(64) NOT NULL,
    name VARBINARY(200) NOT NULL,
    token BIGINT NOT NULL,
    PRIMARY KEY (space, name)
) ENGINE=InnoDB;

CREATE TABLE IF NOT EXISTS snib_@MODE@_claim (
    space VARBINARY(64) NOT NULL,
    name VARBINARY(200) NOT NULL,
    owner BINARY(16) NOT NULL,
    place BIGINT NOT NULL,          -- 0: holds; above: in line; -1: gave back; -2: was taken away
    kind INT NOT NULL,              -- 0 exclusive, 1 shared, 2 counted
    permits INT NOT NULL,
    token BIGINT NOT NULL,
    ttl_ms BIGINT NOT NULL,
    until BIGINT NOT NULL,
    session BIGINT NOT NULL,        -- 0: none that could be asked
    since BIGINT NOT NULL,
    who VARBINARY(200) NOT NULL,
    label VARBINARY(60) NOT NULL,
    asked VARBINARY(200),           -- who wants the holder to give up
    news BIGINT NOT NULL,           -- when it was let in by another, or asked; 0: never
    PRIMARY KEY (space, name, owner),
    KEY (session, news)
) ENGINE=InnoDB;

DROP PROCEDURE IF EXISTS snib_@MODE@_enter;
DROP PROCEDURE IF EXISTS snib_@MODE@_fits;
DROP PROCEDURE IF EXISTS snib_@MODE@_draw;
DROP PROCEDURE IF EXISTS snib_@MODE@_promote;
DROP PROCEDURE IF EXISTS snib_@MODE@_attempt;
DROP PROCEDURE IF EXISTS snib_@MODE@_renew;
DROP PROCEDURE IF EXISTS snib_@MODE@_release;
DROP PROCEDURE IF EXISTS snib_@MODE@_evict;
DROP PROCEDURE IF EXISTS snib_@MODE@_look;

DELIMITER //
-- Alone with a name until the end of the transaction, and rid of what is over. Nobody asks about the
-- session that it is itself.
CREATE PROCEDURE snib_@MODE@_enter(_space VARBINARY(64), _name VARBINARY(200), _me BIGINT, OUT _now BIGINT)
BEGIN
    DECLARE _token BIGINT DEFAULT NULL;
    ROLLBACK;
    SET @snib_rings = '';
    START TRANSACTION;
    SELECT n.token INTO _token FROM snib_@MODE@_name n WHERE n.space = _space AND n.name = _name FOR UPDATE;
    IF _token IS NULL THEN
        INSERT INTO snib_@MODE@_name VALUES (_space, _name, 0) ON DUPLICATE KEY UPDATE token = token;
    END IF;
    SET _now = CAST(UNIX_TIMESTAMP(SYSDATE(6)) * 1000000 AS SIGNED);
    -- To look costs less than a DELETE, which locks what it passes.
    IF EXISTS (SELECT 1 FROM snib_@MODE@_claim c WHERE c.space = _space AND c.name = _name
                  AND (c.until <= _now OR (c.session NOT IN (_me, 0) AND (NOT @LEASED@ OR c.place > 0)
                                           AND IS_USED_LOCK(CONCAT('snib.s.', c.session)) IS NULL))) THEN
        DELETE FROM snib_@MODE@_claim
         WHERE space = _space AND name = _name
           AND (until <= _now OR (session NOT IN (_me, 0) AND (NOT @LEASED@ OR place > 0)
                                  AND IS_USED_LOCK(CONCAT('snib.s.', session)) IS NULL));
    END IF;
END
//
CREATE PROCEDURE snib_@MODE@_fits(_space VARBINARY(64), _name VARBINARY(200), _kind INT, _permits INT, OUT _fits BOOLEAN)
BEGIN
    DECLARE _all, _alone INT;
    SELECT COUNT(*), COALESCE(SUM(c.kind <> 1), 0) INTO _all, _alone FROM snib_@MODE@_claim c
     WHERE c.space = _space AND c.name = _name AND c.place = 0;
    SET _fits = CASE _kind WHEN 0 THEN _all = 0 WHEN 1 THEN _alone = 0 ELSE _all < _permits END;
END
//
CREATE PROCEDURE snib_@MODE@_draw(_space VARBINARY(64), _name VARBINARY(200), _kind INT, _now BIGINT, OUT _token BIGINT)
BEGIN
    SELECT n.token INTO _token FROM snib_@MODE@_name n WHERE n.space = _space AND n.name = _name FOR UPDATE;
    IF _kind <> 1 OR _token = 0 THEN
        SET _token = GREATEST(_token + 1, _now);
        UPDATE snib_@MODE@_name SET token = _token WHERE space = _space AND name = _name;
    END IF;
END
//
-- Those at the head of the line, as far as there is room.
CREATE PROCEDURE snib_@MODE@_promote(_space VARBINARY(64), _name VARBINARY(200), _now BIGINT)
BEGIN
    DECLARE _owner BINARY(16);
    DECLARE _kind, _permits INT;
    DECLARE _token, _ttl_ms, _session BIGINT;
    DECLARE _fits BOOLEAN DEFAULT true;
    WHILE _fits DO
        SET _owner = NULL;
        SELECT c.owner, c.kind, c.permits, c.ttl_ms, c.session INTO _owner, _kind, _permits, _ttl_ms, _session
          FROM snib_@MODE@_claim c
         WHERE c.space = _space AND c.name = _name AND c.place > 0 ORDER BY c.place LIMIT 1;
        SET _fits = _owner IS NOT NULL;
        IF _fits THEN
            CALL snib_@MODE@_fits(_space, _name, _kind, _permits, _fits);
        END IF;
        IF _fits THEN
            CALL snib_@MODE@_draw(_space, _name, _kind, _now, _token);
            UPDATE snib_@MODE@_claim
               SET place = 0, token = _token, since = _now, news = _now,
                   until = IF(@LEASED@, _now + _ttl_ms * 1000, 9223372036854775807)
             WHERE space = _space AND name = _name AND owner = _owner;
            SET @snib_rings = CONCAT(@snib_rings, _session, ',');
        END IF;
    END WHILE;
END
//
-- status: 1 held, 2 in line, 3 busy, 4 in use as another kind, 5 was given back already
CREATE PROCEDURE snib_@MODE@_attempt(
    _space VARBINARY(64), _name VARBINARY(200), _owner BINARY(16), _session BIGINT, _kind INT, _permits INT,
    _ttl_ms BIGINT, _queue BOOLEAN, _who VARBINARY(200), _label VARBINARY(60))
BEGIN
    DECLARE _now, _until, _place, _token, _mine_session, _mine_until, _rank, _holder_token, _holder_until BIGINT DEFAULT NULL;
    DECLARE _other_kind, _other_permits, _status INT DEFAULT NULL;
    DECLARE _waits, _fits BOOLEAN DEFAULT false;
    DECLARE _holder VARBINARY(300) DEFAULT NULL;
    DECLARE EXIT HANDLER FOR SQLEXCEPTION
    BEGIN
        ROLLBACK;
        RESIGNAL;
    END;
    CALL snib_@MODE@_enter(_space, _name, _session, _now);
    SET _until = IF(@LEASED@, _now + _ttl_ms * 1000, 9223372036854775807);
    SELECT c.place, c.token, c.session, c.until INTO _place, _token, _mine_session, _mine_until
      FROM snib_@MODE@_claim c WHERE c.space = _space AND c.name = _name AND c.owner = _owner;
    IF _place = -2 THEN -- before anybody here knew that it was ours
        DELETE FROM snib_@MODE@_claim WHERE space = _space AND name = _name AND owner = _owner;
        SET _place = NULL, _token = NULL;
    END IF;
    IF _place = -1 THEN
        SET _status = 5;
    ELSEIF _place IS NULL THEN
        SELECT c.kind, c.permits, c.who INTO _other_kind, _other_permits, _holder FROM snib_@MODE@_claim c
         WHERE c.space = _space AND c.name = _name AND c.place >= 0 ORDER BY c.place LIMIT 1;
        IF _other_kind IS NOT NULL
           AND ((_other_kind = 2) <> (_kind = 2) OR (_kind = 2 AND _other_permits <> _permits)) THEN
            SET _status = 4;
        ELSE
            IF _other_kind IS NOT NULL THEN
                CALL snib_@MODE@_promote(_space, _name, _now);
                SELECT COUNT(*) > 0 INTO _waits FROM snib_@MODE@_claim c
                 WHERE c.space = _space AND c.name = _name AND c.place > 0;
            END IF;
            SET _fits = _other_kind IS NULL;
            IF NOT _waits AND NOT _fits THEN
                CALL snib_@MODE@_fits(_space, _name, _kind, _permits, _fits);
            END IF;
            IF NOT _waits AND _fits THEN
                CALL snib_@MODE@_draw(_space, _name, _kind, _now, _token);
                INSERT INTO snib_@MODE@_claim VALUES (_space, _name, _owner, 0, _kind, _permits, _token,
                    _ttl_ms, _until, _session, _now, _who, _label, NULL, 0);
                SET _place = 0;
            ELSEIF _queue THEN
                SELECT GREATEST(COALESCE(MAX(c.place), 0), 0) + 1 INTO _place FROM snib_@MODE@_claim c
                 WHERE c.space = _space AND c.name = _name;
                INSERT INTO snib_@MODE@_claim VALUES (_space, _name, _owner, _place, _kind, _permits, 0,
                    _ttl_ms, _until, _session, _now, _who, _label, NULL, 0);
            END IF;
        END IF;
    ELSE
        IF _place > 0 THEN
            CALL snib_@MODE@_promote(_space, _name, _now);
            SELECT c.place, c.token INTO _place, _token FROM snib_@MODE@_claim c
             WHERE c.space = _space AND c.name = _name AND c.owner = _owner;
        END IF;
        -- A place in line is kept by asking again, and follows its client to another session.
        IF (_place > 0 AND _mine_until < _now + _ttl_ms * 700) OR _mine_session <> _session THEN
            UPDATE snib_@MODE@_claim SET session = _session, until = IF(place > 0, _until, until)
             WHERE space = _space AND name = _name AND owner = _owner;
        END IF;
        SELECT c.until INTO _until FROM snib_@MODE@_claim c
         WHERE c.space = _space AND c.name = _name AND c.owner = _owner;
    END IF;
    IF _status IS NULL THEN
        SET _status = CASE WHEN _place = 0 THEN 1 WHEN _place > 0 THEN 2 ELSE 3 END;
    END IF;
    IF _status IN (2, 3) THEN
        SELECT COUNT(*) INTO _rank FROM snib_@MODE@_claim c
         WHERE c.space = _space AND c.name = _name AND c.place > 0 AND c.place <= _place;
        SELECT CONCAT(c.who, IF(c.label = '', '', CONCAT(' (', c.label, ')'))), c.token, c.until
          INTO _holder, _holder_token, _holder_until FROM snib_@MODE@_claim c
         WHERE c.space = _space AND c.name = _name AND c.place >= 0 AND c.owner <> _owner
         ORDER BY c.place, c.until DESC LIMIT 1;
    END IF;
    COMMIT;
    IF @snib_rings <> '' THEN
        CALL snib_ring(0);
    END IF;
    SELECT _status, _token, LEAST(_ttl_ms, FLOOR((_until - _now) / 1000)), _rank, HEX(_holder), _holder_token,
           IF(_holder_until = 9223372036854775807, 0, GREATEST(0, FLOOR((_holder_until - _now) / 1000)));
END
//
-- status: 1 still held, 0 not; then asked is who wanted it, if somebody did. Several go in one
-- transaction, which is the caller's.
CREATE PROCEDURE snib_@MODE@_renew(
    _space VARBINARY(64), _name VARBINARY(200), _owner BINARY(16), _session BIGINT, _ttl_ms BIGINT)
BEGIN
    DECLARE _now, _place, _token, _until, _mine_session BIGINT DEFAULT NULL;
    DECLARE _asked VARBINARY(200) DEFAULT NULL;
    DECLARE _held BOOLEAN;
    SELECT c.place, c.token, c.until, c.session, c.asked INTO _place, _token, _until, _mine_session, _asked
      FROM snib_@MODE@_claim c
     WHERE c.space = _space AND c.name = _name AND c.owner = _owner @LEASE(FOR UPDATE)@;
    SET _now = CAST(UNIX_TIMESTAMP(SYSDATE(6)) * 1000000 AS SIGNED);
    SET _held = COALESCE(_place = 0 AND _asked IS NULL AND _until > _now, false);
    IF _held AND (@LEASED@ OR _mine_session <> _session) THEN
        UPDATE snib_@MODE@_claim
           SET session = _session, ttl_ms = _ttl_ms, until = IF(@LEASED@, _now + _ttl_ms * 1000, until)
         WHERE space = _space AND name = _name AND owner = _owner AND place = 0 AND asked IS NULL;
        SET _held = ROW_COUNT() > 0 OR @LEASED@;
    END IF;
    SELECT _held, _token, HEX(_asked);
END
//
-- status: 1 was held, 2 was in line, 0 was not there. _bury_ms: an attempt may still come; it is refused.
CREATE PROCEDURE snib_@MODE@_release(
    _space VARBINARY(64), _name VARBINARY(200), _owner BINARY(16), _session BIGINT, _bury_ms BIGINT)
BEGIN
    DECLARE _now, _place BIGINT DEFAULT NULL;
    DECLARE EXIT HANDLER FOR SQLEXCEPTION
    BEGIN
        ROLLBACK;
        RESIGNAL;
    END;
    CALL snib_@MODE@_enter(_space, _name, _session, _now);
    SELECT c.place INTO _place FROM snib_@MODE@_claim c
     WHERE c.space = _space AND c.name = _name AND c.owner = _owner AND c.place <> -1;
    IF _place IS NOT NULL THEN
        DELETE FROM snib_@MODE@_claim WHERE space = _space AND name = _name AND owner = _owner;
        CALL snib_@MODE@_promote(_space, _name, _now);
    END IF;
    IF _bury_ms > 0 THEN
        INSERT IGNORE INTO snib_@MODE@_claim VALUES (
            _space, _name, _owner, -1, 0, 1, 0, _bury_ms, _now + _bury_ms * 1000, 0, _now, '', '', NULL, 0);
    END IF;
    COMMIT;
    IF @snib_rings <> '' THEN
        CALL snib_ring(_session);
    END IF;
    SELECT CASE WHEN _place = 0 THEN 1 WHEN _place > 0 THEN 2 ELSE 0 END;
END
//
-- status: 0 that token holds nothing, 1 taken away, 2 asked: who holds it still, and for how long
CREATE PROCEDURE snib_@MODE@_evict(
    _space VARBINARY(64), _name VARBINARY(200), _token BIGINT, _session BIGINT, _force BOOLEAN, _who VARBINARY(200))
BEGIN
    DECLARE _now, _until BIGINT DEFAULT NULL;
    DECLARE _status INT DEFAULT 0;
    DECLARE _holder VARBINARY(200) DEFAULT NULL;
    DECLARE EXIT HANDLER FOR SQLEXCEPTION
    BEGIN
        ROLLBACK;
        RESIGNAL;
    END;
    CALL snib_@MODE@_enter(_space, _name, _session, _now);
    IF _force THEN
        SELECT COALESCE(CONCAT(GROUP_CONCAT(c.session), ','), '') INTO @snib_rings FROM snib_@MODE@_claim c
         WHERE c.space = _space AND c.name = _name AND c.place = 0 AND c.token = _token;
        UPDATE snib_@MODE@_claim SET place = -2, asked = _who, news = _now, until = _now + ttl_ms * 1000
         WHERE space = _space AND name = _name AND place = 0 AND token = _token;
        SET _status = ROW_COUNT() > 0;
        CALL snib_@MODE@_promote(_space, _name, _now);
    ELSE
        UPDATE snib_@MODE@_claim SET asked = _who, news = _now, until = LEAST(until, _now + ttl_ms * 1000)
         WHERE space = _space AND name = _name AND place = 0 AND token = _token AND asked IS NULL;
        SELECT COALESCE(CONCAT(GROUP_CONCAT(c.session), ','), '') INTO @snib_rings FROM snib_@MODE@_claim c
         WHERE c.space = _space AND c.name = _name AND c.place = 0 AND c.token = _token;
        SELECT 2, c.who, c.until INTO _status, _holder, _until FROM snib_@MODE@_claim c
         WHERE c.space = _space AND c.name = _name AND c.place = 0 AND c.token = _token
         ORDER BY c.until DESC LIMIT 1;
    END IF;
    COMMIT;
    IF @snib_rings <> '' THEN
        CALL snib_ring(0);
    END IF;
    SELECT _status, HEX(_holder), FLOOR((_until - _now) / 1000);
END
//
CREATE PROCEDURE snib_@MODE@_look(_space VARBINARY(64), _name VARBINARY(200), _prefix BOOLEAN, _session BIGINT)
BEGIN
    DECLARE _now BIGINT DEFAULT CAST(UNIX_TIMESTAMP(SYSDATE(6)) * 1000000 AS SIGNED);
    SELECT HEX(c.name),
           IF(c.place = 0, 0, ROW_NUMBER() OVER (PARTITION BY c.name, c.place > 0 ORDER BY c.place)),
           c.kind, c.permits, c.token,
           IF(c.until = 9223372036854775807, -1, FLOOR((c.until - _now) / 1000)),
           FLOOR(c.since / 1000), HEX(c.who), HEX(c.label)
      FROM snib_@MODE@_claim c
     WHERE c.space = _space AND c.place >= 0 AND c.until > _now
       AND IF(_prefix, SUBSTR(c.name, 1, LENGTH(_name)), c.name) = _name
       AND (c.session IN (_session, 0) OR (@LEASED@ AND c.place = 0)
            OR IS_USED_LOCK(CONCAT('snib.s.', c.session)) IS NOT NULL)
     ORDER BY c.name, c.place, c.since;
END
//
DELIMITER ;
--@END@

-- The last thing to be made: its presence says that all of it is there.
DROP PROCEDURE IF EXISTS snib_schema_1;
CREATE PROCEDURE snib_schema_1() SELECT 1;

-- For another user than the one that ran this: GRANT SELECT, INSERT, UPDATE, DELETE, EXECUTE ON
-- database.* TO user; routines run with the rights of who made them.

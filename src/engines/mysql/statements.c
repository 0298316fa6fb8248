/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is said to a MySQL or MariaDB server.
 *
 * A text is one packet of statements, executed one after the other; the first that fails ends it. A
 * parameter never is part of a statement's grammar: texts go in as hexadecimal literals, made by
 * the library, which no character set, SQL mode or quote can end early; numbers are looked at.
 *
 *   $1 ... $9, $0   a parameter (the tenth is $0) as x'...', or NULL
 *   #1 ... #9, #0   one that must be a number
 *   {p}             the prefix of the tables
 *   {l}             what this link calls itself
 *   {us}, {ms}      the server's clock, in microseconds and milliseconds; links are at UTC
 *   {idle}, {patience}   seconds
 *
 * The lock of a name is GET_LOCK of its key. Its row in the table of names has the last token and
 * who drew it, by the number of its connection; whoever holds the lock now is its holder if the
 * numbers agree, and nobody is if the lock is free: giving back writes nothing. The row is written
 * only by who has the lock, on the same link, so that tokens have the order of grants; it is
 * committed, with the server's usual settings to disk, before anybody hears of the grant.
 *
 * A waiter has a row in the table of waits and, as long as it waits, a lock of its own named after
 * its link: a row without that lock is of the past, whatever became of its link. That lock is taken
 * in the packet that waits: who is seen to wait is in the server's queue, whatever its client does.
 * Rows of the past are used again by their links, and deleted by others after a minute.
 *
 * INSERT ... SELECT GET_LOCK() would take the lock twice; so it is a statement of its own, and what
 * follows looks at its answer in a variable. DO would hide that a statement was killed.
 *
 * A KILL QUERY that comes between two statements of a packet ends the packet, and the server says
 * nothing: whoever reads on waits for ever. In MariaDB the statements therefore are one, a block,
 * which is ended with an error like any other. MySQL has no such thing outside of procedures: there
 * the link is silent then, and given up like any other that is.
 */
#include "engines/mysql/statements.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KEY "CONVERT($1 USING ascii)"
#define WAITING "CONCAT('snib:w:',link)"
#define OWN_WAITING "'snib:w:{l}'"

/* $1 key, $2 name, $4 who, $5 label, $6 ttl; `CONDITION` says whether the lock is ours. */
#define DRAW(CONDITION)                                                                            \
    "INSERT INTO {p}_names (k,name,token,conn,who,label,since,ttl,broken) "                        \
    "SELECT " KEY ",$2,LAST_INSERT_ID({us}),CONNECTION_ID(),$4,$5,{ms},#6,'' "                     \
    "FROM DUAL WHERE " CONDITION " ON DUPLICATE KEY UPDATE "                                       \
    "token=LAST_INSERT_ID(GREATEST(token+1,{us})),conn=CONNECTION_ID(),who=$4,label=$5,"           \
    "since={ms},ttl=#6,broken='';"

#define HOLDER "conn=IS_USED_LOCK(k)"

#define SIGHT(CONDITION)                                                                           \
    "SELECT name,'0',waits,token,who,label,since,NULL,'1',conn,broken FROM ("                      \
    "SELECT name,0 AS waits,token,who,label,since,conn,broken,0 AS line FROM {p}_names "           \
    "WHERE " CONDITION " AND " HOLDER " UNION ALL "                                                \
    "SELECT name,1,NULL,who,label,since DIV 1000,conn,'',since FROM {p}_waits "                    \
    "WHERE " CONDITION " AND IS_USED_LOCK(" WAITING ")=conn) AS seen "                             \
    "ORDER BY name,waits,line"

static const char setup[] =
    "CREATE TABLE IF NOT EXISTS {p}_names ("
    "k VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL PRIMARY KEY,"
    "name VARBINARY(200) NOT NULL,token BIGINT UNSIGNED NOT NULL,conn BIGINT UNSIGNED NOT NULL,"
    "who VARBINARY(255) NOT NULL,label VARBINARY(255) NOT NULL,since BIGINT NOT NULL,"
    "ttl BIGINT NOT NULL,broken VARBINARY(255) NOT NULL,"
    "KEY by_conn (conn),KEY by_name (name)) ENGINE=InnoDB;"
    "CREATE TABLE IF NOT EXISTS {p}_waits ("
    "link VARCHAR(32) CHARACTER SET ascii COLLATE ascii_bin NOT NULL PRIMARY KEY,"
    "k VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,name VARBINARY(200) NOT NULL,"
    "conn BIGINT UNSIGNED NOT NULL,who VARBINARY(255) NOT NULL,label VARBINARY(255) NOT NULL,"
    "since BIGINT NOT NULL,KEY by_key (k),KEY by_name (name)) ENGINE=InnoDB;";

static const char *const texts[SQL_STATEMENTS] = {
    [SQL_TRY] = "SELECT CONCAT(who,IF(label='','',' '),label),token FROM {p}_names WHERE k=" KEY
                " AND " HOLDER ";"
                "SET @snib_got=GET_LOCK(" KEY
                ",0);" DRAW("@snib_got=1") "SELECT @snib_got,IF(@snib_got=1,LAST_INSERT_ID(),NULL)",
    [SQL_ENTER] = "DELETE FROM {p}_waits WHERE k=" KEY " AND IS_USED_LOCK(" WAITING ") IS NULL "
                  "AND since<{us}-60000000 LIMIT 10;"
                  "INSERT INTO {p}_waits (link,k,name,conn,who,label,since) VALUES "
                  "('{l}'," KEY ",$2,CONNECTION_ID(),$4,$5,{us}) ON DUPLICATE KEY UPDATE "
                  "k=" KEY ",name=$2,conn=CONNECTION_ID(),who=$4,label=$5,since={us}",
    [SQL_WAIT] =
        "SET @snib_w=IF(IS_USED_LOCK(" OWN_WAITING ")<=>CONNECTION_ID(),1,GET_LOCK(" OWN_WAITING
        ",0));SELECT GET_LOCK(" KEY ",31536000)",
    [SQL_TOOK] =
        "SET @snib_w=RELEASE_LOCK(" OWN_WAITING ");"
        "SET @snib_got=IS_USED_LOCK(" KEY
        ")<=>CONNECTION_ID();" DRAW("@snib_got=1") "SELECT IF(@snib_got=1,LAST_INSERT_ID(),NULL)",
    [SQL_UNLOCK] = "SET @snib_w=RELEASE_LOCK(" OWN_WAITING ");SELECT RELEASE_LOCK(" KEY ")",
    [SQL_PROVE] = "SELECT k,token,broken FROM {p}_names WHERE conn=CONNECTION_ID() AND "
                  "broken<>'' AND " HOLDER,
    [SQL_SIGHT] = NULL, /* two of them: below */
    [SQL_MARK] = "UPDATE {p}_names SET broken=$3 WHERE k=" KEY " AND token=#2 AND " HOLDER ";"
                 "SELECT who,ttl FROM {p}_names WHERE k=" KEY " AND token=#2 AND " HOLDER,
    [SQL_SEVER] =
        "SET @snib_conn=(SELECT conn FROM {p}_names WHERE k=" KEY " AND token=#2 AND " HOLDER ");"
        "SELECT h.who,(SELECT GROUP_CONCAT(o.name SEPARATOR ', ') FROM {p}_names o WHERE "
        "o.conn=@snib_conn AND o.k<>h.k AND IS_USED_LOCK(o.k)=o.conn) FROM {p}_names h "
        "WHERE h.k=" KEY " AND h.token=#2 AND h.conn=@snib_conn;"
        "KILL CONNECTION IFNULL(@snib_conn,0)",
    [SQL_SETUP] = setup,
    /* The last ones change nothing: they ask whether they may. */
    [SQL_EXAMINE] =
        "SELECT 'version',VERSION() UNION ALL SELECT 'flush',@@innodb_flush_log_at_trx_commit "
        "UNION ALL SELECT 'idle',@@wait_timeout UNION ALL SELECT 'most',@@max_connections "
        "UNION ALL SELECT 'clock',{ms};"
        "SHOW GLOBAL STATUS WHERE Variable_name IN ('Threads_connected','Uptime');"
        "INSERT INTO {p}_names SELECT * FROM {p}_names WHERE 1=0;"
        "UPDATE {p}_names SET ttl=ttl WHERE 1=0;"
        "INSERT INTO {p}_waits SELECT * FROM {p}_waits WHERE 1=0;"
        "UPDATE {p}_waits SET since=since WHERE 1=0;DELETE FROM {p}_waits WHERE 1=0",
};

static const char sight_name[] = SIGHT("name=$1");
static const char sight_prefix[] = SIGHT("LEFT(name,LENGTH($1))=$1");

/* Whatever the server's defaults are. The library's own word is the version. */
static const char greeting[] =
    "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED;"
    "SET SESSION autocommit=1,time_zone='+00:00',sql_mode='STRICT_TRANS_TABLES',"
    "wait_timeout={idle},lock_wait_timeout={patience},innodb_lock_wait_timeout={patience},"
    "group_concat_max_len=400,{limit}=0;"
    "SELECT CONNECTION_ID();"
    "SHOW VARIABLES WHERE Variable_name IN ('read_only','super_read_only','innodb_read_only',"
    "'wsrep_on','wsrep_provider');"
    "SHOW GLOBAL STATUS LIKE 'Uptime'";

static const char undo[] = "SELECT RELEASE_LOCK(" KEY ")";

/* ---- Filling in ------------------------------------------------------------------------- */

struct filling {
    char *text;
    size_t used, room;
    bool failed;
};

static char *grow(struct filling *f, size_t more)
{
    if (f->failed || f->used + more + 1 > f->room) {
        size_t room = (f->used + more + 1) * 2;
        char *text = f->failed ? NULL : realloc(f->text, room);
        if (!text) {
            f->failed = true;
            return NULL;
        }
        f->text = text;
        f->room = room;
    }
    return f->text + f->used;
}

static void put(struct filling *f, const char *text, size_t size)
{
    char *at = grow(f, size);
    if (at) {
        memcpy(at, text, size);
        f->used += size;
    }
}

static void put_text(struct filling *f, const char *text)
{
    put(f, text, strlen(text));
}

static void put_literal(struct filling *f, const char *value)
{
    if (!value) {
        put_text(f, "NULL");
        return;
    }
    size_t size = strlen(value);
    put_text(f, "x'");
    char *at = grow(f, 2 * size + 1);
    if (at) {
        f->used += mysql_hex_string(at, value, size);
    }
    put_text(f, "'");
}

static void put_number(struct filling *f, const char *value)
{
    size_t size = value ? strlen(value) : 0;
    if (size == 0 || size > 20 || strspn(value, "0123456789") != size) {
        f->failed = true;
        return;
    }
    put(f, value, size);
}

static void put_integer(struct filling *f, int64_t number)
{
    char text[24];
    snprintf(text, sizeof text, "%lld", (long long)number);
    put_text(f, text);
}

static const char microseconds[] = "CAST(UNIX_TIMESTAMP(SYSDATE(6))*1000000 AS UNSIGNED)";
static const char milliseconds[] = "CAST(UNIX_TIMESTAMP(SYSDATE(6))*1000 AS SIGNED)";

static void put_word(struct filling *f, const struct mysql_text_place *place, const char *word,
                     size_t size)
{
    if (size == 1 && word[0] == 'p') {
        put_text(f, place->settings->prefix);
    } else if (size == 1 && word[0] == 'l') {
        put_text(f, place->link);
    } else if (strncmp(word, "us", size) == 0) {
        put_text(f, microseconds);
    } else if (strncmp(word, "ms", size) == 0) {
        put_text(f, milliseconds);
    } else if (strncmp(word, "idle", size) == 0) {
        put_integer(f, place->idle_s);
    } else if (strncmp(word, "patience", size) == 0) {
        put_integer(f, place->patience_s);
    } else if (strncmp(word, "limit", size) == 0) {
        put_text(f, place->maria ? "max_statement_time" : "max_execution_time");
    } else {
        f->failed = true;
    }
}

static char *fill(const struct mysql_text_place *place, const char *text,
                  const char *const parameters[], size_t *size, bool block)
{
    struct filling f = {.room = strlen(text) + 512};
    f.text = malloc(f.room);
    f.failed = !f.text;
    put_text(&f, block ? "BEGIN NOT ATOMIC " : "");
    while (*text) {
        size_t plain = strcspn(text, "$#{");
        put(&f, text, plain);
        text += plain;
        if (*text == '{') {
            size_t word = strcspn(text, "}") - 1;
            put_word(&f, place, text + 1, word);
            text += word + 2;
        } else if (*text) {
            const char *value = parameters[(text[1] - '0' + 9) % 10];
            if (*text == '$') {
                put_literal(&f, value);
            } else {
                put_number(&f, value);
            }
            text += 2;
        }
    }
    put(&f, block ? ";END" : "", block ? 5 : 1); /* with its 0 */
    if (f.failed) {
        free(f.text);
        return NULL;
    }
    *size = f.used - 1;
    return f.text;
}

char *mysql_text(const struct mysql_text_place *place, enum sql_statement statement,
                 const char *const parameters[], size_t *size)
{
    const char *text = texts[statement];
    if (statement == SQL_SIGHT) {
        text = parameters[1][0] == '1' ? sight_prefix : sight_name;
    }
    bool block = place->maria && statement != SQL_SETUP && statement != SQL_EXAMINE;
    return text ? fill(place, text, parameters, size, block) : NULL;
}

char *mysql_text_greeting(const struct mysql_text_place *place, size_t *size)
{
    return fill(place, greeting, NULL, size, false);
}

char *mysql_text_undo(const struct mysql_text_place *place, const char *const parameters[],
                      size_t *size)
{
    return fill(place, undo, parameters, size, false);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the tests of the engine for MySQL and MariaDB share.
 */
#ifndef SNIB_TESTS_MYSQL_WORLD_H
#define SNIB_TESTS_MYSQL_WORLD_H

#include "check.h"
#include "server_mariadb.h"

#include <snib.h>
#include <stdio.h>
#include <stdlib.h>

enum { LONG_MS = 20000 };

static inline int try_open(snib **client, const char *url, snib_error *error)
{
    setenv("SNIB_MODULES", TEST_BUILD_DIR "/engines", 1);
    return snib_open(client, url, error);
}

static inline snib *client_of(const char *url)
{
    snib *client;
    snib_error error;
    CHECK_OK(try_open(&client, url, &error), error.message);
    return client;
}

static inline const char *url_at(int port, const char *parameters)
{
    static char urls[4][300];
    static int next;
    char *url = urls[next++ % 4];
    snprintf(url, sizeof urls[0], "mysql://snib:secret@127.0.0.1:%d/snib?%s", port, parameters);
    return url;
}

static inline snib *client_at(int port, const char *parameters)
{
    return client_of(url_at(port, parameters));
}

static inline snib_lease *take(snib *client, const char *name)
{
    snib_lease *lease;
    snib_error error;
    snib_options patient = SNIB_OPTIONS;
    patient.wait_ms = check_ms(LONG_MS);
    CHECK_OK(snib_acquire(&lease, client, name, &patient, &error), error.message);
    return lease;
}

static inline int try_take(snib *client, const char *name, int64_t wait_ms, snib_error *error)
{
    snib_lease *lease;
    snib_options options = SNIB_OPTIONS;
    options.wait_ms = wait_ms;
    int code = snib_acquire(&lease, client, name, &options, error);
    if (code == SNIB_OK) {
        CHECK_INT(snib_release(&lease, NULL), ==, SNIB_OK);
    }
    return code;
}

static inline void give(snib_lease *lease)
{
    snib_error error;
    CHECK_OK(snib_release(&lease, &error), error.message);
}

static inline bool is_lost(void *lease)
{
    return snib_state(lease) == SNIB_LOST;
}

/* A number that root's statement prints. */
#define ASK_NUMBER(...) strtoull(server_mariadb_ask(__VA_ARGS__), NULL, 10)

/* The connection that holds this name; 0: none. */
static inline unsigned long long holder_of(struct server *mariadb, const char *name)
{
    return ASK_NUMBER(mariadb,
                      "SELECT IFNULL(MAX(conn),0) FROM snib_names WHERE name='%s' AND "
                      "IS_USED_LOCK(k)=conn",
                      name);
}

/* How many wait in the server. */
static inline unsigned long long waits_at(struct server *mariadb)
{
    return ASK_NUMBER(mariadb, "SELECT COUNT(*) FROM information_schema.processlist "
                               "WHERE state='User lock'");
}

#endif

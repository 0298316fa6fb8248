/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the tests of the SQL engines share: a server of either kind, its URL in either mode, and
 * ways to do things behind snib's back.
 */
#ifndef SNIB_TESTS_SQL_WORLD_H
#define SNIB_TESTS_SQL_WORLD_H

#include "check.h"
#include "overlap.h"
#include "proxy.h"
#include "server_sql.h"

#include <snib.h>

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define MAY_BE_UNUSED __attribute__((unused))

enum { PATIENCE_MS = 20000 };

struct world {
    const char *scheme;
    const char *mode;
    struct server server;
};

MAY_BE_UNUSED static bool is_postgres(const struct world *w)
{
    return strcmp(w->scheme, "postgres") == 0;
}

MAY_BE_UNUSED static bool is_leased(const struct world *w)
{
    return strcmp(w->mode, "lease") == 0;
}

MAY_BE_UNUSED static struct world *world_new(const char *scheme, const char *mode,
                                             const char *const extra[])
{
    static struct world w;
    setenv("SNIB_MODULES", TEST_BUILD_DIR "/engines", 1);
    w.scheme = scheme;
    w.mode = mode;
    (is_postgres(&w) ? server_postgres : server_mariadb)(&w.server, extra);
    return &w;
}

MAY_BE_UNUSED static const char *url_at(const struct world *w, int port, const char *parameters)
{
    enum { URLS = 8 };
    static char urls[URLS][512];
    static int next;
    char *url = urls[next++ % URLS];
    snprintf(url, sizeof urls[0], "%s://snib@127.0.0.1:%d/snib?mode=%s%s%s", w->scheme, port,
             w->mode, parameters[0] ? "&" : "", parameters);
    return url;
}

MAY_BE_UNUSED static snib *client_at(const char *url)
{
    snib *client = NULL;
    snib_error error = {0};
    CHECK_OK(snib_open(&client, url, &error), error.message);
    return client;
}

MAY_BE_UNUSED static snib *client_of(const struct world *w, const char *parameters)
{
    return client_at(url_at(w, w->server.port, parameters));
}

MAY_BE_UNUSED static snib_options waiting(int64_t wait_ms)
{
    snib_options options = SNIB_OPTIONS;
    options.wait_ms = wait_ms;
    return options;
}

MAY_BE_UNUSED static snib_lease *take(snib *client, const char *name)
{
    snib_lease *lease = NULL;
    snib_error error = {0};
    snib_options options = waiting(check_ms(PATIENCE_MS));
    CHECK_OK(snib_acquire(&lease, client, name, &options, &error), error.message);
    return lease;
}

MAY_BE_UNUSED static void give(snib_lease **lease)
{
    snib_error error = {0};
    CHECK_OK(snib_release(lease, &error), error.message);
}

/* Takes it at once and gives it back, or answers why not. */
MAY_BE_UNUSED static int try_it(snib *client, const char *name, snib_error *error)
{
    snib_options options = waiting(0);
    snib_lease *lease = NULL;
    int code = snib_acquire(&lease, client, name, &options, error);
    if (code == SNIB_OK) {
        give(&lease);
    }
    return code;
}

MAY_BE_UNUSED static char *sql_at(const struct world *w, const char *sql)
{
    return (is_postgres(w) ? postgres_sql : mariadb_sql)(&w->server, sql);
}

MAY_BE_UNUSED static void do_sql(const struct world *w, const char *sql)
{
    free(sql_at(w, sql));
}

MAY_BE_UNUSED static bool is_lost(void *lease)
{
    return snib_state(lease) == SNIB_LOST;
}

/* One body, a case for each engine and mode. */
#define ON_ALL(body)                                                                               \
    ON_SESSIONS(body)                                                                              \
    ON_LEASES(body)
#define ON_SESSIONS(body)                                                                          \
    TEST_LIMIT(postgres_session_##body, 120)                                                       \
    {                                                                                              \
        body(world_new("postgres", "session", NULL));                                              \
    }                                                                                              \
    TEST_LIMIT(mysql_session_##body, 120)                                                          \
    {                                                                                              \
        body(world_new("mysql", "session", NULL));                                                 \
    }
#define ON_LEASES(body)                                                                            \
    TEST_LIMIT(postgres_lease_##body, 120)                                                         \
    {                                                                                              \
        body(world_new("postgres", "lease", NULL));                                                \
    }                                                                                              \
    TEST_LIMIT(mysql_lease_##body, 120)                                                            \
    {                                                                                              \
        body(world_new("mysql", "lease", NULL));                                                   \
    }

#endif

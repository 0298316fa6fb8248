/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The engines under test: one row each.
 *
 * A row says how to make a private place and what it lacks of its engine's traits (a layout
 * without a queue, for instance). The traits are read from the library's own table, without a
 * server, because the harness asks which cases apply before it runs any.
 *
 * Not done: choosing a server's topology; that is another row.
 */
#include "conformance.h"
#include "server.h"
#include "server_zookeeper.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include <sys/stat.h>

struct engine_row {
    const char *name;   /* of --engine */
    const char *scheme; /* as the library's table has it */
    unsigned lacks;     /* traits this variant does not have */
    void (*make_place)(char *url, size_t size);
};

static void make_file_place(char *url, size_t size)
{
    char folder[256];
    snprintf(folder, sizeof folder, "%s/locks", check_tmpdir());
    CHECK(mkdir(folder, 0700) == 0);
    snprintf(url, size, "file://%s", folder);
}

static void make_redis_place(char *url, size_t size)
{
    static struct server redis;
    server_redis(&redis, NULL);
    snprintf(url, size, "redis://127.0.0.1:%d?quarantine=no", redis.port);
}

/* One server for all cases, a path of its own for each. */
static void make_zookeeper_place(char *url, size_t size)
{
    char address[64];
    unsigned long long path;
    server_zookeeper_address(address, sizeof address);
    CHECK(getrandom(&path, sizeof path, 0) == sizeof path);
    snprintf(url, size, "zookeeper://%s/snib/%016llx", address, path);
}

static const struct engine_row rows[] = {
    {.name = "file", .scheme = "file", .make_place = make_file_place},
    {.name = "redis", .scheme = "redis", .make_place = make_redis_place},
    {.name = "zookeeper",
     .scheme = "zookeeper",
     .lacks = SNIB_TRAIT_SURVIVES_SERVER_LOSS, /* one server */
     .make_place = make_zookeeper_place},
    {.name = "zookeeper-ensemble", /* wants tests/with-zookeeper --ensemble */
     .scheme = "zookeeper",
     .make_place = make_zookeeper_place},
};

static const struct engine_row *row_under_test(void)
{
    const char *name = check_option("engine");
    if (name == NULL) {
        name = "file";
    }
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (strcmp(rows[i].name, name) == 0) {
            return &rows[i];
        }
    }
    fprintf(stderr, "conformance: no engine named %s\n", name);
    exit(2);
}

/* ---- Places ----------------------------------------------------------------------------- */

const char *place(void)
{
    static char url[512];
    if (url[0] == '\0') {
        row_under_test()->make_place(url, sizeof url);
    }
    return url;
}

const char *place_with(const char *parameters)
{
    enum { PLACES = 8 };
    static char urls[PLACES][640];
    static int next;
    char *url = urls[next++ % PLACES];
    snprintf(url, sizeof urls[0], "%s%c%s", place(), strchr(place(), '?') == NULL ? '?' : '&',
             parameters);
    return url;
}

int64_t orphan_bound_ms(int64_t ttl_ms)
{
    int64_t engine = (engine_traits() & SNIB_TRAIT_AT_ONCE) != 0 ? 0 : ttl_ms;
    return engine + check_ms(5000);
}

/* ---- Traits ----------------------------------------------------------------------------- */

unsigned engine_traits(void)
{
    const struct engine_row *row = row_under_test();
    const snib_engine_info *info;
    for (size_t i = 0; (info = snib_engine_at(i)) != NULL; i++) {
        if (strcmp(info->scheme, row->scheme) == 0) {
            return info->traits & ~row->lacks;
        }
    }
    fprintf(stderr, "conformance: the library has no engine named %s\n", row->scheme);
    exit(2);
}

static bool has(unsigned traits)
{
    return (engine_traits() & traits) == traits;
}

bool on_file(void)
{
    return strcmp(row_under_test()->scheme, "file") == 0;
}

bool with_shared(void)
{
    return has(SNIB_TRAIT_SHARED);
}

bool with_counted(void)
{
    return has(SNIB_TRAIT_COUNTED);
}

bool with_fairness(void)
{
    return has(SNIB_TRAIT_FAIR);
}

bool with_fair_shared(void)
{
    return has(SNIB_TRAIT_FAIR | SNIB_TRAIT_SHARED);
}

bool with_leases(void)
{
    return has(SNIB_TRAIT_LEASED);
}

bool with_break(void)
{
    return has(SNIB_TRAIT_BREAKS);
}

bool without_break(void)
{
    return !with_break();
}

TEST(the_client_has_the_traits_its_engine_claims)
{
    snib *client = client_here();
    CHECK_UINT(snib_traits(client), ==, engine_traits());
    snib_close(client);
}

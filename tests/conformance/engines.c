/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The engines under test: one row each.
 *
 * A row says how to start what the engine needs, how to make a private place there, and what it
 * lacks of its engine's traits (a layout without a queue, for instance). The traits are read from
 * the library's own table, without a server, because the harness asks which cases apply before it
 * runs any.
 *
 * One server may serve a whole suite, since many servers take longer to start than most cases run:
 *
 *     conformance --engine redis --serve FILE the_server_serves_until_its_file_is_removed
 *     conformance --engine redis --server "$(cat FILE)"
 *
 * The first writes the server's URL to FILE when it is ready. Without --server a case starts its
 * own.
 *
 * Not done: choosing a server's topology; that is another row.
 */
#include "conformance.h"
#include "redis_cluster.h"
#include "redis_group.h"
#include "server.h"
#include "server_etcd.h"
#include "server_mariadb.h"
#include "server_postgres.h"
#include "server_zookeeper.h"
#include "tls_link.h"

#include <fcntl.h>
#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct engine_row {
    const char *name;                      /* of --engine */
    const char *scheme;                    /* as the library's table has it */
    unsigned lacks;                        /* traits this variant does not have */
    int many;                              /* of a thing, at most; 0: 20,000 */
    bool tags;                             /* a brace in a name must be part of a hash tag */
    void (*start)(char *url, size_t size); /* a server; NULL: it has none */
    /* At the server of that URL; nobody else gets the same. */
    void (*make_place)(char *url, size_t size, const char *server);
};

static void make_file_place(char *url, size_t size, const char *server)
{
    char folder[256];
    (void)server;
    snprintf(folder, sizeof folder, "%s/locks", check_tmpdir());
    CHECK(mkdir(folder, 0700) == 0);
    snprintf(url, size, "file://%s", folder);
}

static void start_redis(char *url, size_t size)
{
    static struct server redis;
    server_redis(&redis, NULL);
    snprintf(url, size, "redis://127.0.0.1:%d?quarantine=no", redis.port);
}

/* The same server by its port for TLS. Its certificate stays in the folder of this case, and is not
 * what is tried here: tests/faults/redis_tls.c has that. */
static void start_rediss(char *url, size_t size)
{
    static struct server redis;
    char port[12], file[256];
    server_init(&redis, "rediss");
    snprintf(port, sizeof port, "%d", redis.ports[1]);
    snprintf(file, sizeof file, "%s", tls_file("good.pem"));
    server_redis_prepare(&redis, (const char *const[]){"--tls-port", port, "--tls-cert-file", file,
                                                       "--tls-key-file", file, "--tls-auth-clients",
                                                       "no", NULL});
    server_start(&redis);
    snprintf(url, size, "rediss://127.0.0.1:%s?quarantine=no&ca=%s", port,
             tls_file("authority.crt"));
}

static void start_redis_cluster(char *url, size_t size)
{
    static struct redis_cluster cluster;
    redis_cluster_start(&cluster);
    redis_cluster_url(&cluster, url, size, "");
}

/* Five servers of their own. */
static void start_redlock(char *url, size_t size)
{
    static struct server servers[5];
    size_t used = (size_t)snprintf(url, size, "redlock://");
    for (int i = 0; i < 5; i++) {
        server_redis(&servers[i], NULL);
        used += (size_t)snprintf(url + used, size - used, "%s127.0.0.1:%d", i ? "," : "",
                                 servers[i].port);
    }
    snprintf(url + used, size - used, "?quarantine=no");
}

/* A name for a place that no other case has, now or earlier. */
static const char *unique(void)
{
    static char name[48];
    snprintf(name, sizeof name, "case-%d-%llx", (int)getpid(), (long long)check_now_ns());
    return name;
}

static void make_redis_place(char *url, size_t size, const char *server)
{
    snprintf(url, size, "%s&prefix=%s", server, unique());
}

static void make_redlock_place(char *url, size_t size, const char *server)
{
    snprintf(url, size, "%s&prefix=%s:", server, unique());
}

static void make_redis_plain_place(char *url, size_t size, const char *server)
{
    snprintf(url, size, "%s&layout=plain&prefix=%s:", server, unique());
}

/* As a user who has just the rights that snib_rights says, for the keys of this place. */
static void make_acl_place(char *url, size_t size, const char *server, const char *parameters)
{
    char line[SNIB_RIGHTS_SIZE], *gap, passfile[256];
    const char *name = unique();
    snprintf(passfile, sizeof passfile, "%s/passfile", check_tmpdir());
    int fd = open(passfile, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    CHECK(write(fd, "secret", 6) == 6);
    close(fd);
    snib *client = NULL;
    int port = atoi(strrchr(server, ':') + 1);
    snprintf(url, size, "redis://%s@127.0.0.1:%d?quarantine=no&prefix=%s&passfile=%s%s", name, port,
             name, passfile, parameters);
    CHECK_INT(snib_open(&client, url, NULL), ==, SNIB_OK);
    CHECK_INT(snib_rights(client, line, sizeof line, NULL), ==, SNIB_OK);
    snib_close(client);
    gap = strstr(line, ">PASSWORD");
    CHECK(gap != NULL);
    memcpy(gap, ">secret  ", strlen(">PASSWORD"));
    redisContext *c = redisConnect("127.0.0.1", port);
    redisReply *reply = redisCommand(c, line); /* NOLINT: it has no '%' */
    CHECK(reply != NULL && reply->type == REDIS_REPLY_STATUS);
    freeReplyObject(reply);
    redisFree(c);
}

static void make_redis_acl_place(char *url, size_t size, const char *server)
{
    make_acl_place(url, size, server, "");
}

static void make_redis_plain_acl_place(char *url, size_t size, const char *server)
{
    make_acl_place(url, size, server, "&layout=plain");
}

static void make_redis_redisson_place(char *url, size_t size, const char *server)
{
    snprintf(url, size, "%s&layout=redisson&prefix=%s:", server, unique());
}

static void make_redis_redisson_acl_place(char *url, size_t size, const char *server)
{
    make_acl_place(url, size, server, "&layout=redisson");
}

static void make_redis_rwlock_place(char *url, size_t size, const char *server)
{
    snprintf(url, size, "%s&layout=redisson-rw&watchdog=60s&prefix=%s:", server, unique());
}

static void make_redis_rwlock_acl_place(char *url, size_t size, const char *server)
{
    make_acl_place(url, size, server, "&layout=redisson-rw&watchdog=60s");
}

static void make_redis_plain_steps_place(char *url, size_t size, const char *server)
{
    make_acl_place(url, size, server, "&layout=plain&scripts=no");
}

static void start_redis_sentinel(char *url, size_t size)
{
    static struct redis_group group;
    group_start(&group, &(struct group_wish){.nodes = 3, .sentinels = 3});
    group_url(&group, url, size, "wait=majority");
}

/* Where the master has been one for long: each case would wait for that otherwise. */
static void make_redis_sentinel_place(char *url, size_t size, const char *server)
{
    const char *prefix = unique();
    redisReply *master =
        group_ask(atoi(strrchr(server, ':') + 1), "SENTINEL GET-MASTER-ADDR-BY-NAME m");
    CHECK(master != NULL && master->type == REDIS_REPLY_ARRAY && master->elements == 2);
    group_open_epoch(atoi(master->element[1]->str), prefix, 3, 60000);
    freeReplyObject(master);
    snprintf(url, size, "%s&prefix=%s", server, prefix);
}

static void start_zookeeper(char *url, size_t size)
{
    static struct server zookeeper;
    server_zookeeper(&zookeeper, NULL);
    snprintf(url, size, "zookeeper://127.0.0.1:%d", zookeeper.port);
}

static void start_zookeeper_ensemble(char *url, size_t size)
{
    static struct server members[ZOOKEEPER_MEMBERS];
    server_zookeeper_ensemble_init(members);
    server_zookeeper_ensemble_start(members, NULL, NULL);
    snprintf(url, size, "zookeeper://127.0.0.1:%d,127.0.0.1:%d,127.0.0.1:%d", members[0].port,
             members[1].port, members[2].port);
}

static void make_zookeeper_place(char *url, size_t size, const char *server)
{
    snprintf(url, size, "%s/snib/%s", server, unique());
}

static void start_etcd(char *url, size_t size)
{
    static const char *const in_memory[] = {"--unsafe-no-fsync", NULL}; /* no crash is tested */
    static struct server etcd;
    server_etcd(&etcd, in_memory);
    snprintf(url, size, "etcd://127.0.0.1:%d", etcd.port);
}

static void start_etcd_cluster(char *url, size_t size)
{
    static struct server members[3];
    /* so that the smallest ttl is one second */
    static const char *const quick[] = {"--heartbeat-interval=60", "--election-timeout=600",
                                        "--unsafe-no-fsync", NULL};
    server_etcd_cluster(members, 3, quick);
    snprintf(url, size, "etcd://127.0.0.1:%d,127.0.0.1:%d,127.0.0.1:%d", members[0].port,
             members[1].port, members[2].port);
}

static void make_etcd_place(char *url, size_t size, const char *server)
{
    snprintf(url, size, "%s/%s", server, unique());
}

/* No crash is tested here; tens of thousands of locks and many clients are. */
static void start_postgres(char *url, size_t size)
{
    static const char *const settings[] = {"fsync=off", "max_connections=400",
                                           "max_locks_per_transaction=128", NULL};
    static struct server postgres;
    server_postgres(&postgres, settings);
    snprintf(url, size, "postgres://snib@127.0.0.1:%d/postgres", postgres.port);
}

static void make_postgres_place(char *url, size_t size, const char *server)
{
    snprintf(url, size, "%s?schema=case_%d_%llx", server, (int)getpid(), (long long)check_now_ns());
}

static void make_postgres_lease_place(char *url, size_t size, const char *server)
{
    make_postgres_place(url, size, server);
    size_t used = strlen(url);
    snprintf(url + used, size - used, "&mode=lease");
}

static void start_mysql(char *url, size_t size)
{
    /* No crash is tested, and many clients wait on connections of their own. */
    static const char *const quick[] = {"--innodb-flush-log-at-trx-commit=0", NULL};
    static struct server mariadb;
    server_mariadb(&mariadb, quick);
    snprintf(url, size, "mysql://open@127.0.0.1:%d/snib?quarantine=no", mariadb.port);
}

static void make_mysql_place(char *url, size_t size, const char *server)
{
    snprintf(url, size, "%s&prefix=c%d_%x", server, (int)getpid(),
             (unsigned)(check_now_ns() / 1000));
}

#define LACKS_OF_PEERS                                                                             \
    (SNIB_TRAIT_FAIR | SNIB_TRAIT_SHARED | SNIB_TRAIT_COUNTED | SNIB_TRAIT_TOKEN_SPAN)

static const struct engine_row rows[] = {
    {.name = "file", .scheme = "file", .make_place = make_file_place},
    {.name = "redis", .scheme = "redis", .start = start_redis, .make_place = make_redis_place},
    {.name = "redlock", /* five times what one server does */
     .scheme = "redlock",
     .many = 2000,
     .start = start_redlock,
     .make_place = make_redlock_place},
    {.name = "redis-acl",
     .scheme = "redis",
     .start = start_redis,
     .make_place = make_redis_acl_place},
    {.name = "rediss", .scheme = "rediss", .start = start_rediss, .make_place = make_redis_place},
    {.name = "redis-cluster",
     .scheme = "redis+cluster",
     .start = start_redis_cluster,
     .make_place = make_redis_place},
    {.name = "redis-sentinel", /* with two replicas, which must acknowledge */
     .scheme = "redis+sentinel",
     .start = start_redis_sentinel,
     .make_place = make_redis_sentinel_place},
    {.name = "redis-plain",
     .scheme = "redis",
     .lacks = LACKS_OF_PEERS,
     .start = start_redis,
     .make_place = make_redis_plain_place},
    {.name = "redis-plain-acl",
     .scheme = "redis",
     .lacks = LACKS_OF_PEERS,
     .start = start_redis,
     .make_place = make_redis_plain_acl_place},
    {.name = "redis-plain-steps", /* as a user who may not run scripts */
     .scheme = "redis",
     .lacks = LACKS_OF_PEERS,
     .start = start_redis,
     .make_place = make_redis_plain_steps_place},
    {.name = "redis-redisson",
     .scheme = "redis",
     .tags = true,
     .lacks = LACKS_OF_PEERS,
     .start = start_redis,
     .make_place = make_redis_redisson_place},
    {.name = "redis-redisson-acl",
     .scheme = "redis",
     .tags = true,
     .lacks = LACKS_OF_PEERS,
     .start = start_redis,
     .make_place = make_redis_redisson_acl_place},
    {.name = "redis-redisson-rw",
     .scheme = "redis",
     .tags = true,
     .lacks = LACKS_OF_PEERS & ~(unsigned)SNIB_TRAIT_SHARED,
     .start = start_redis,
     .make_place = make_redis_rwlock_place},
    {.name = "redis-redisson-rw-acl",
     .scheme = "redis",
     .tags = true,
     .lacks = LACKS_OF_PEERS & ~(unsigned)SNIB_TRAIT_SHARED,
     .start = start_redis,
     .make_place = make_redis_rwlock_acl_place},
    {.name = "zookeeper", /* whoever joins a line reads who is in it: many are the square of it */
     .scheme = "zookeeper",
     .many = 1000,
     .lacks = SNIB_TRAIT_SURVIVES_SERVER_LOSS, /* one server */
     .start = start_zookeeper,
     .make_place = make_zookeeper_place},
    {.name = "zookeeper-ensemble",
     .scheme = "zookeeper",
     .many = 1000,
     .start = start_zookeeper_ensemble,
     .make_place = make_zookeeper_place},
    {.name = "etcd", /* each name that is held is a lease, a key and a note of its token */
     .scheme = "etcd",
     .many = 2000,
     .lacks = SNIB_TRAIT_SURVIVES_SERVER_LOSS, /* one member */
     .start = start_etcd,
     .make_place = make_etcd_place},
    {.name = "etcd-cluster",
     .scheme = "etcd",
     .many = 2000,
     .start = start_etcd_cluster,
     .make_place = make_etcd_place},
    {.name = "postgres", /* each name that is held is a lock in the server's memory, and a row */
     .scheme = "postgres",
     .many = 2000,
     .lacks = SNIB_TRAIT_COUNTED | SNIB_TRAIT_TTL_PER_LOCK,
     .start = start_postgres,
     .make_place = make_postgres_place},
    {.name = "postgres-lease",
     .scheme = "postgres",
     .many = 2000,
     .lacks = SNIB_TRAIT_AT_ONCE,
     .start = start_postgres,
     .make_place = make_postgres_lease_place},
    {.name = "mysql", /* each name has a row, written at each grant */
     .scheme = "mysql",
     .many = 2000,
     .start = start_mysql,
     .make_place = make_mysql_place},
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
        const struct engine_row *row = row_under_test();
        const char *shared = check_option("server");
        setenv("SNIB_MODULES", TEST_BUILD_DIR "/engines", 1);
        char own[256] = "";
        if (row->start != NULL && shared == NULL) {
            row->start(own, sizeof own);
        }
        row->make_place(url, sizeof url, shared != NULL ? shared : own);
    }
    return url;
}

/* ---- A server for many cases ------------------------------------------------------------ */

static bool serves(void)
{
    return check_option("serve") != NULL && row_under_test()->start != NULL;
}

static bool is_gone(void *path)
{
    return access(path, F_OK) != 0;
}

TEST_CASE(the_server_serves_until_its_file_is_removed, 3600, serves)
{
    char url[256], path[256], fresh[264];
    snprintf(path, sizeof path, "%s", check_option("serve"));
    snprintf(fresh, sizeof fresh, "%s.new", path);
    row_under_test()->start(url, sizeof url);
    FILE *file = fopen(fresh, "w");
    CHECK(file != NULL && fprintf(file, "%s\n", url) > 0 && fclose(file) == 0);
    CHECK(rename(fresh, path) == 0);
    CHECK(check_until(is_gone, path, 3500 * 1000));
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

int engine_many(void)
{
    int many = row_under_test()->many;
    return many > 0 ? many : 20000;
}

bool engine_serves(const char *name)
{
    const char *open = strchr(name, '{');
    const char *close = open != NULL ? strchr(open, '}') : NULL;
    return !row_under_test()->tags || open == NULL || (close != NULL && close > open + 1);
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

int64_t brief_ms(void)
{
    return with_leases() ? check_ms(1000) : 50;
}

int64_t brief_hold_ms(void)
{
    return check_ms(1000);
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

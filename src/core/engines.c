/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of engines, and the loader of those that are modules.
 *
 * Every scheme snib knows has a row, also where the engine is not on this machine: "known, not
 * installed" and "unknown" are different answers. Engines that drag large client libraries in
 * are modules, opened by scheme from one absolute directory, so that a program that wants a file
 * lock does not load a Kerberos client. A module has one symbol and an ABI number.
 */
#include "core/engines.h"

#include "base/distance.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifndef SNIB_MODULE_DIR
#define SNIB_MODULE_DIR "/usr/local/lib/snib"
#endif

extern const struct snib__engine snib__engine_file;
extern const struct snib__engine snib__engine_redis;
extern const struct snib__engine snib__engine_redis_cluster;
extern const struct snib__engine snib__engine_redlock;
extern const struct snib__engine snib__engine_zookeeper;

struct row {
    const char *scheme;
    const struct snib__engine *built_in; /* NULL: a module */
    const char *module;                  /* NAME of NAME.so */
    const char *package;                 /* Debian's, that has it */
    const char *summary, *promise;       /* of a module, told without loading it */
    unsigned traits;
};

#define ETCD_ROW                                                                                   \
    .module = "etcd", .package = "snib-engine-etcd",                                               \
    .summary = "an etcd cluster: a key per contender, leases, watches; with etcdctl lock and Go",  \
    .promise = "one holder while a majority of members lives and keeps its data",                  \
    .traits = SNIB_TRAIT_FAIR | SNIB_TRAIT_SHARED | SNIB_TRAIT_COUNTED | SNIB_TRAIT_LEASED |       \
              SNIB_TRAIT_TTL_PER_LOCK | SNIB_TRAIT_CROSS_HOST | SNIB_TRAIT_SURVIVES_SERVER_LOSS |  \
              SNIB_TRAIT_BREAKS | SNIB_TRAIT_LISTS

#define POSTGRES_ROW                                                                               \
    .module = "postgres", .package = "snib-engine-postgres",                                       \
    .summary = "a PostgreSQL server: advisory locks on connections that are leases, or rows",      \
    .promise = "one holder while the server lives; after a restart or failover, a quarantine",     \
    .traits = SNIB_TRAIT_FAIR | SNIB_TRAIT_SHARED | SNIB_TRAIT_COUNTED | SNIB_TRAIT_LEASED |       \
              SNIB_TRAIT_TTL_PER_LOCK | SNIB_TRAIT_CROSS_HOST | SNIB_TRAIT_AT_ONCE |               \
              SNIB_TRAIT_BREAKS | SNIB_TRAIT_LISTS

#define MYSQL_ROW                                                                                  \
    .module = "mysql", .package = "snib-engine-mysql",                                             \
    .summary = "a MySQL or MariaDB server: GET_LOCK on connections that are leases",               \
    .promise = "one holder while the server lives; after a restart, a quarantine",                 \
    .traits = SNIB_TRAIT_FAIR | SNIB_TRAIT_LEASED | SNIB_TRAIT_CROSS_HOST | SNIB_TRAIT_AT_ONCE |   \
              SNIB_TRAIT_BREAKS | SNIB_TRAIT_LISTS

static const struct row rows[] = {
    {.scheme = "file", .built_in = &snib__engine_file},
    {.scheme = "redis", .built_in = &snib__engine_redis},
    {.scheme = "rediss", .built_in = &snib__engine_redis},
    {.scheme = "redis+sentinel", .built_in = &snib__engine_redis},
    {.scheme = "rediss+sentinel", .built_in = &snib__engine_redis},
    {.scheme = "unix", .built_in = &snib__engine_redis},
    {.scheme = "redis+cluster", .built_in = &snib__engine_redis_cluster},
    {.scheme = "rediss+cluster", .built_in = &snib__engine_redis_cluster},
    {.scheme = "redlock", .built_in = &snib__engine_redlock},
    {.scheme = "redlocks", .built_in = &snib__engine_redlock},
    {.scheme = "zookeeper", .built_in = &snib__engine_zookeeper},
    {.scheme = "zookeepers", .built_in = &snib__engine_zookeeper},
    {.scheme = "etcd", ETCD_ROW},
    {.scheme = "etcds", ETCD_ROW},
    {.scheme = "postgres", POSTGRES_ROW},
    {.scheme = "postgresql", POSTGRES_ROW},
    {.scheme = "mysql", MYSQL_ROW},
    {.scheme = "mariadb", MYSQL_ROW},
};

#define ROWS (sizeof rows / sizeof rows[0])

static const struct row *find_row(const char *scheme)
{
    for (size_t i = 0; i < ROWS; i++) {
        if (strcmp(rows[i].scheme, scheme) == 0) {
            return &rows[i];
        }
    }
    return NULL;
}

/* ---- Modules ---------------------------------------------------------------------------- */

/* Where modules are. Another place may be named for tests and trial builds, never by whoever
 * starts a set-uid program. */
static const char *module_directory(void)
{
    const char *named = secure_getenv("SNIB_MODULES");
    return named && named[0] == '/' ? named : SNIB_MODULE_DIR;
}

static bool module_path(char *out, size_t size, const char *name)
{
    int n = snprintf(out, size, "%s/%s.so", module_directory(), name);
    return n > 0 && (size_t)n < size;
}

static bool installed(const char *name)
{
    char path[4096];
    return module_path(path, sizeof path, name) && access(path, F_OK) == 0;
}

/* Is it one of the words of the list? */
static bool listed(const char *words, const char *word)
{
    size_t size = strlen(word);
    for (const char *p = words; p && *p; p += strcspn(p, " ")) {
        p += strspn(p, " ");
        if (strncmp(p, word, size) == 0 && (p[size] == ' ' || p[size] == '\0')) {
            return true;
        }
    }
    return false;
}

/* A module stays loaded: another client, or a thread of its library, may be inside it. */
static int load(const struct snib__engine **out, const char *name, const char *scheme,
                snib_error *err)
{
    char path[4096];
    if (!module_path(path, sizeof path, name)) {
        return snib__fail(err, SNIB_EINVAL, 0, "the path of module %s is too long", name);
    }
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (!handle) {
        return snib__fail(err, SNIB_ENOTSUP, 0,
                          "%s: cannot be loaded; it must be built for snib %s (engine ABI %u): %s",
                          scheme, snib_version(), SNIB__ENGINE_ABI, dlerror());
    }
    const struct snib__engine *engine = dlsym(handle, "snib_engine_module");
    int rc = SNIB_OK;
    if (!engine || engine->abi != SNIB__ENGINE_ABI) {
        rc = snib__fail(err, SNIB_ENOTSUP, 0,
                        "%s: %s is of another version of snib (%s wants engine ABI %u)", scheme,
                        path, snib_version(), SNIB__ENGINE_ABI);
    } else if (strcmp(engine->scheme, scheme) != 0 && !listed(engine->aliases, scheme)) {
        rc = snib__fail(err, SNIB_ENOTSUP, 0, "%s: %s does not have this scheme", scheme, path);
    }
    if (rc < 0) {
        dlclose(handle);
        return rc;
    }
    *out = engine;
    return SNIB_OK;
}

/* A scheme without a row may still be a module of somebody's own, named like the scheme, like what
 * stands before its '+', or like it without the 's' of TLS: `tcp+quick:` and `tcps:` are tcp.so. */
static bool module_of(char *out, size_t size, const char *scheme)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyz0123456789+-.";
    size_t length = strlen(scheme);
    if (length == 0 || length >= size || strspn(scheme, letters) != length || scheme[0] == '.') {
        return false;
    }
    strcpy(out, scheme);
    if (installed(out)) {
        return true;
    }
    if (out[length - 1] == 's') {
        out[length - 1] = '\0';
        if (installed(out)) {
            return true;
        }
    }
    strcpy(out, scheme);
    char *plus = strchr(out, '+');
    if (plus) {
        *plus = '\0';
    }
    return plus && plus > out && installed(out);
}

/* ---- Finding one ------------------------------------------------------------------------ */

static int unknown(const char *scheme, snib_error *err)
{
    char known[400] = "";
    const char *nearest = NULL;
    size_t distance = 3;
    for (size_t i = 0; i < ROWS; i++) {
        size_t used = strlen(known);
        snprintf(known + used, sizeof known - used, "%s%s:", i ? ", " : "", rows[i].scheme);
        size_t apart = snib__distance(scheme, rows[i].scheme);
        if (apart < distance && apart < strlen(rows[i].scheme)) {
            distance = apart;
            nearest = rows[i].scheme;
        }
    }
    return snib__fail(err, SNIB_EINVAL, 0, "unknown scheme '%s:'%s%s%s (known: %s)", scheme,
                      nearest ? "; did you mean '" : "", nearest ? nearest : "",
                      nearest ? ":'?" : "", known);
}

int snib__engine_find(const struct snib__engine **out, const char *scheme, snib_error *err)
{
    char module[64];
    const struct row *row = find_row(scheme);
    if (row && row->built_in) {
        *out = row->built_in;
        return SNIB_OK;
    }
    if (row && !installed(row->module)) {
        const char *named = secure_getenv("SNIB_MODULES");
        bool relative = named && named[0] && named[0] != '/';
        return snib__fail(err, SNIB_ENOTSUP, 0, "%s: not installed here; install %s%s", scheme,
                          row->package,
                          relative ? " (SNIB_MODULES does not count: it is no absolute path)" : "");
    }
    if (row) {
        return load(out, row->module, scheme, err);
    }
    return module_of(module, sizeof module, scheme) ? load(out, module, scheme, err)
                                                    : unknown(scheme, err);
}

/* ---- For people ------------------------------------------------------------------------- */

static snib_engine_info infos[ROWS];
static char hints[ROWS][80];
static pthread_once_t filled = PTHREAD_ONCE_INIT;

static void fill_infos(void)
{
    for (size_t i = 0; i < ROWS; i++) {
        const struct row *row = &rows[i];
        const struct snib__engine *e = row->built_in;
        bool built = e || installed(row->module);
        if (!built) {
            snprintf(hints[i], sizeof hints[i], "install %s", row->package);
        }
        infos[i] = (snib_engine_info){
            .size = sizeof infos[i],
            .scheme = row->scheme,
            .summary = e ? e->summary : row->summary,
            .promise = e ? e->promise : row->promise,
            .missing = hints[i],
            .traits = e ? e->traits : row->traits,
            .built = built,
            .variants = e && e->variants ? e->variants : "",
        };
    }
}

const snib_engine_info *snib_engine_at(size_t index)
{
    pthread_once(&filled, fill_infos);
    return index < ROWS ? &infos[index] : NULL;
}

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

struct row {
    const char *scheme;
    const struct snib__engine *built_in; /* NULL: a module */
    const char *module;                  /* NAME of NAME.so */
    const char *package;
    const char *summary, *promise; /* of a module, told without loading it */
    unsigned traits;
};

static const struct row rows[] = {
    {.scheme = "file", .built_in = &snib__engine_file, .package = "libsnib0"},
    {.scheme = "redis", .built_in = &snib__engine_redis, .package = "libsnib0"},
    {.scheme = "unix", .built_in = &snib__engine_redis, .package = "libsnib0"},
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

/* Where modules are. Another place may be named for tests and trial builds, never by whoever
 * starts a set-uid program. */
static const char *module_directory(void)
{
    const char *named = secure_getenv("SNIB_MODULES");
    return named && named[0] == '/' ? named : SNIB_MODULE_DIR;
}

/* A module stays loaded: another client, or a thread of its library, may be inside it. */
static int load(const struct snib__engine **out, const char *name, const char *package,
                snib_error *err)
{
    char path[4096];
    int n = snprintf(path, sizeof path, "%s/%s.so", module_directory(), name);
    if (n < 0 || (size_t)n >= sizeof path) {
        return snib__fail(err, SNIB_EINVAL, 0, "the path of module %s is too long", name);
    }
    if (access(path, F_OK) < 0) {
        return snib__fail(err, SNIB_ENOTSUP, 0, "%s: not installed here (%s); install %s", name,
                          path, package);
    }
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (!handle) {
        return snib__fail(err, SNIB_ENOTSUP, 0, "%s: cannot be loaded: %s", name, dlerror());
    }
    const struct snib__engine *engine = dlsym(handle, "snib_engine_module");
    if (!engine || engine->abi != SNIB__ENGINE_ABI) {
        snib__fail(err, SNIB_ENOTSUP, 0, "%s: %s is of another version of snib (%s wants ABI %u)",
                   name, path, snib_version(), SNIB__ENGINE_ABI);
        dlclose(handle);
        return SNIB_ENOTSUP;
    }
    *out = engine;
    return SNIB_OK;
}

/* A scheme without a row may still be a module of somebody's own: letters and digits only. */
static bool plain_word(const char *s)
{
    return *s && strspn(s, "abcdefghijklmnopqrstuvwxyz0123456789") == strlen(s);
}

int snib__engine_find(const struct snib__engine **out, const char *scheme, snib_error *err)
{
    const struct row *row = find_row(scheme);
    if (row && row->built_in) {
        *out = row->built_in;
        return SNIB_OK;
    }
    if (row) {
        return load(out, row->module, row->package, err);
    }
    if (plain_word(scheme)) {
        char path[4096];
        int n = snprintf(path, sizeof path, "%s/%s.so", module_directory(), scheme);
        if (n > 0 && (size_t)n < sizeof path && access(path, F_OK) == 0) {
            return load(out, scheme, "its package", err);
        }
    }
    char known[256] = "";
    for (size_t i = 0; i < ROWS; i++) {
        size_t used = strlen(known);
        snprintf(known + used, sizeof known - used, "%s%s:", i ? ", " : "", rows[i].scheme);
    }
    return snib__fail(err, SNIB_EINVAL, 0, "unknown scheme '%s:' (known: %s)", scheme, known);
}

/* ---- For people ------------------------------------------------------------------------- */

static snib_engine_info infos[ROWS];
static pthread_once_t filled = PTHREAD_ONCE_INIT;

static void fill_infos(void)
{
    for (size_t i = 0; i < ROWS; i++) {
        const struct row *row = &rows[i];
        const struct snib__engine *e = row->built_in;
        char path[4096] = "";
        if (!e) {
            snprintf(path, sizeof path, "%s/%s.so", module_directory(), row->module);
        }
        infos[i] = (snib_engine_info){
            .size = sizeof infos[i],
            .scheme = row->scheme,
            .summary = e ? e->summary : row->summary,
            .promise = e ? e->promise : row->promise,
            .package = row->package,
            .traits = e ? e->traits : row->traits,
            .built = e || access(path, R_OK) == 0,
        };
    }
}

const snib_engine_info *snib_engine_at(size_t index)
{
    pthread_once(&filled, fill_infos);
    return index < ROWS ? &infos[index] : NULL;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Is this server fit for locks?
 *
 *   a replica                           no: what it grants, its master does not know
 *   32 bits                             no: its scripts cannot print a token
 *   evicts keys when memory is short    no, unless the user says that it may
 *
 * What the server does not say is not held against it.
 */
#include "engines/redis/fitness.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The value of "field:value"; false if it is not there. */
static bool read_field(const char *info, const char *name, char *out, size_t size)
{
    size_t length = strlen(name);
    for (const char *line = info; line && *line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, name, length) == 0 && line[length] == ':') {
            const char *value = line + length + 1;
            size_t found = strcspn(value, "\r\n");
            snprintf(out, size, "%.*s", (int)(found < 200 ? found : 200), value);
            return true;
        }
    }
    return false;
}

static bool read_number(const char *info, const char *name, int64_t *out)
{
    char value[32];
    if (!read_field(info, name, value, sizeof value)) {
        return false;
    }
    *out = strtoll(value, NULL, 10);
    return true;
}

/* Valkey says so; KeyDB only by a field that nobody else has. */
static void read_product(struct snib__fitness *f, const char *info)
{
    char value[24];
    if (!read_field(info, "redis_version", f->version, sizeof f->version)) {
        return;
    }
    snprintf(f->product, sizeof f->product, "redis");
    if (read_field(info, "server_name", value, sizeof value)) {
        snprintf(f->product, sizeof f->product, "%.15s", value);
    } else if (read_field(info, "mvcc_depth", value, sizeof value)) {
        snprintf(f->product, sizeof f->product, "keydb");
    }
    if (read_field(info, "valkey_version", value, sizeof value)) {
        snprintf(f->product, sizeof f->product, "valkey");
        memcpy(f->version, value, sizeof f->version);
    }
}

void snib__fitness_info(struct snib__fitness *f, const char *info)
{
    char value[64];
    int64_t number;
    read_product(f, info);
    (void)read_field(info, "run_id", f->run_id, sizeof f->run_id);
    (void)read_field(info, "maxmemory_policy", f->policy, sizeof f->policy);
    (void)read_number(info, "uptime_in_seconds", &f->uptime_s);
    (void)read_number(info, "connected_slaves", &f->replicas);
    if (read_field(info, "arch_bits", value, sizeof value)) {
        f->narrow = strcmp(value, "32") == 0;
    }
    if (read_field(info, "redis_mode", value, sizeof value)) {
        f->cluster = strcmp(value, "cluster") == 0;
    }
    if (read_field(info, "role", value, sizeof value)) {
        f->replica = strcmp(value, "slave") == 0;
    }
    if (read_number(info, "maxmemory", &number)) {
        f->limited = number != 0;
    }
    if (read_number(info, "aof_enabled", &number)) {
        f->aof = number != 0;
    }
}

void snib__fitness_setting(struct snib__fitness *f, const char *name, const char *value)
{
    if (strcmp(name, "appendfsync") == 0) {
        snprintf(f->fsync, sizeof f->fsync, "%.15s", value);
    } else if (strcmp(name, "save") == 0) {
        snprintf(f->save, sizeof f->save, "%.99s", value);
        f->saves_known = true;
    }
}

bool snib__fitness_evicts(const struct snib__fitness *f)
{
    return f->limited && f->policy[0] && strcmp(f->policy, "noeviction") != 0;
}

bool snib__fitness_durable(const struct snib__fitness *f)
{
    return f->aof && strcmp(f->fsync, "always") == 0;
}

int snib__fitness_version(const struct snib__fitness *f)
{
    char *rest;
    long major = strtol(f->version, &rest, 10);
    long minor = *rest == '.' ? strtol(rest + 1, NULL, 10) : 0;
    bool sane = major > 0 && major < 1000 && minor >= 0 && minor < 100;
    return sane ? (int)(major * 100 + minor) : 0;
}

bool snib__fitness_judge(const struct snib__fitness *f, bool may_evict, char *why, size_t size)
{
    if (f->replica) {
        snprintf(why, size, "this server is a replica: use its master");
    } else if (f->narrow) {
        snprintf(why, size, "this is a 32-bit server: its scripts cannot print a token");
    } else if (snib__fitness_evicts(f) && !may_evict) {
        snprintf(why, size,
                 "this server evicts keys when memory is short (%s): "
                 "set maxmemory-policy noeviction, or say eviction=allow",
                 f->policy);
    } else {
        return true;
    }
    return false;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a master says about its replicas:
 *
 *   slave0:ip=10.0.0.2,port=6379,state=online,offset=4711,lag=0
 *
 * What it does not say, or says otherwise than expected, counts as far behind.
 */
#include "engines/redis/topology.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The text behind "name=" or "name:"; ends at a comma or at the end of the line. */
static bool find(const char *line, const char *name, char *out, size_t size)
{
    const char *at = strstr(line, name);
    const char *end = strpbrk(line, "\r\n");
    if (!at || (end && at > end)) {
        return false;
    }
    at += strlen(name);
    snprintf(out, size, "%.*s", (int)strcspn(at, ",\r\n"), at);
    return true;
}

static int64_t number(const char *line, const char *name)
{
    char value[32];
    return find(line, name, value, sizeof value) ? strtoll(value, NULL, 10) : 0;
}

static void read_replica(struct snib__replica *r, const char *line, int64_t offset)
{
    char host[60] = "?", state[16] = "";
    (void)find(line, "ip=", host, sizeof host);
    (void)find(line, "state=", state, sizeof state);
    snprintf(r->where, sizeof r->where, "%s:%lld", host, (long long)number(line, "port="));
    r->online = strcmp(state, "online") == 0;
    r->behind = offset - number(line, "offset=");
    r->behind = r->behind > 0 ? r->behind : 0;
    r->lag_s = number(line, "lag=");
}

/* A backup or a monitor reads along, and never acknowledges anything. */
static bool only_reads(const char *line)
{
    return number(line, "port=") == 0 && number(line, "offset=") == 0;
}

void snib__topology_info(struct snib__topology *t, const char *info)
{
    const char *at = strstr(info, "master_repl_offset:");
    t->known = true;
    t->offset = at ? number(at, "master_repl_offset:") : 0;
    at = strstr(info, "master_replid:");
    if (at) {
        (void)find(at, "master_replid:", t->rid, sizeof t->rid);
    }
    for (const char *line = info; (line = strstr(line, "\nslave")) != NULL; line++) {
        bool numbered = line[6] >= '0' && line[6] <= '9';
        if (numbered && !only_reads(line + 1) && t->count < SNIB__REPLICAS_MOST) {
            read_replica(&t->each[t->count++], line + 1, t->offset);
        }
    }
}

void snib__topology_setting(struct snib__topology *t, const char *name, const char *value)
{
    if (strcmp(name, "min-replicas-to-write") == 0) {
        t->min_known = true;
        t->min_replicas = strtoll(value, NULL, 10);
    } else if (strcmp(name, "repl-backlog-ttl") == 0) {
        t->ttl_known = true;
        t->backlog_ttl_s = strtoll(value, NULL, 10);
    }
}

int64_t snib__topology_behind(const struct snib__topology *t)
{
    int64_t most = 0;
    for (size_t i = 0; i < t->count; i++) {
        most = t->each[i].behind > most ? t->each[i].behind : most;
    }
    return most;
}

size_t snib__topology_online(const struct snib__topology *t)
{
    size_t online = 0;
    for (size_t i = 0; i < t->count; i++) {
        online += t->each[i].online;
    }
    return online;
}

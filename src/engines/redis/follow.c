/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A session that follows a master: what the finder finds, told to the node and to those who hold.
 *
 * After a failover whoever holds a lock is told DOUBTFUL: the new master may not have it. The
 * first renewal there says which.
 */
#include "engines/redis/follow.h"

#include "base/passfile.h"
#include "engines/redis/finder.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void on_moved(struct snib__finder *f)
{
    struct snib__redis *r = f->owner;
    struct snib__node_settings *s = &r->settings;
    snprintf(s->where, sizeof s->where, "%.200s:%d", s->address.host, s->address.port);
    snib__node_moved(&r->node);
}

static void on_refused(struct snib__finder *f, int code)
{
    struct snib__redis *r = f->owner;
    r->node.greeting.error = (struct snib__error){.kind = SNIB__ERROR_REFUSED, .code = code};
}

static const struct snib__finder_upcalls upcalls = {.moved = on_moved, .refused = on_refused};

static int read_password(struct snib__redis *r, snib_error *err)
{
    const char *path = r->session->values[SNIB__REDIS_SENTINEL_PASSFILE].text;
    if (path) {
        return snib__passfile_read(&r->sentinel_password, path, "redis+sentinel", err);
    }
    r->sentinel_password = strdup("");
    return r->sentinel_password ? SNIB_OK : snib__fail(err, SNIB_ENOMEM, 0, "out of memory");
}

int snib__follow_open(struct snib__redis *r, snib_error *err)
{
    const union snib__value *values = r->session->values;
    const char *user = values[SNIB__REDIS_SENTINEL_USER].text;
    if (!r->settings.address.sought) {
        bool given = user || values[SNIB__REDIS_SENTINEL_PASSFILE].text;
        return given ? snib__fail(err, SNIB_EINVAL, 0,
                                  "redis: sentinel-user= and sentinel-passfile= are for "
                                  "redis+sentinel:")
                     : SNIB_OK;
    }
    int rc = read_password(r, err);
    if (rc < 0) {
        return rc;
    }
    if (user && !r->sentinel_password[0]) {
        return snib__fail(err, SNIB_EINVAL, 0,
                          "redis+sentinel: sentinel-user= without sentinel-passfile=");
    }
    r->finder = calloc(1, sizeof *r->finder);
    if (!r->finder) {
        return snib__fail(err, SNIB_ENOMEM, 0, "out of memory");
    }
    struct snib__finder_settings settings = {
        .master = r->session->url->path + 1,
        .credentials = {.user = user ? user : "",
                        .password = r->sentinel_password,
                        .database = "0",
                        .name = values[SNIB__REDIS_NAME].text},
        .target = &r->settings.address,
        .timeout_ms = (r->session->timeout_ms + 1) / 2,
    };
    snib__finder_init(r->finder, &upcalls, &settings, r->session->url, r->tls, r);
    snib__finder_follow(r->finder, &r->node.connection);
    snib__finder_follow(r->finder, &r->node.inbox.connection);
    if (r->witness) {
        snib__finder_follow(r->finder, &r->witness->connection);
    }
    return SNIB_OK;
}

void snib__follow_close(struct snib__redis *r)
{
    if (r->finder) {
        snib__finder_close(r->finder);
        free(r->finder);
        r->finder = NULL;
    }
    if (r->sentinel_password) {
        explicit_bzero(r->sentinel_password, strlen(r->sentinel_password));
        free(r->sentinel_password);
        r->sentinel_password = NULL;
    }
}

void snib__follow_other(struct snib__redis *r)
{
    char why[400];
    if (r->finder) {
        snprintf(why, sizeof why, "the master is another server now, %.300s: is it there?",
                 r->settings.where);
        snib__report_session(r->session, SNIB_DOUBTFUL, why);
    }
}

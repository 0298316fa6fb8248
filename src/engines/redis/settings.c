/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the URL says about the server, and who we are there.
 */
#include "engines/redis/settings.h"

#include "base/passfile.h"
#include "net/tls.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int read_password(struct snib__redis *r, snib_error *err)
{
    const char *path = r->session->values[SNIB__REDIS_PASSFILE].text;
    const char *given = r->session->url->password;
    bool has = given && given[0];
    if (path && has) {
        return snib__fail(err, SNIB_EINVAL, 0, "redis: a password in the URL and passfile=");
    }
    if (path) {
        return snib__passfile_read(&r->password, path, "redis", err);
    }
    r->password = strdup(has ? given : "");
    return r->password ? SNIB_OK : snib__fail(err, SNIB_ENOMEM, 0, "out of memory");
}

static int read_db(struct snib__redis *r, const char *path, snib_error *err)
{
    int64_t number = r->session->values[SNIB__REDIS_DB].number;
    char *rest;
    if (path && path[0] == '/' && path[1]) {
        if (number >= 0) {
            return snib__fail(err, SNIB_EINVAL, 0, "redis: the database as path and as db=");
        }
        number = strtol(path + 1, &rest, 10);
        if (*rest || number < 0 || number > 65535) {
            return snib__fail(err, SNIB_EINVAL, 0, "redis: the path must be a database number");
        }
    }
    snprintf(r->database, sizeof r->database, "%d", number > 0 ? (int)number : 0);
    return SNIB_OK;
}

static bool is_with_sentinels(const char *scheme)
{
    return strstr(scheme, "+sentinel") != NULL;
}

static int read_sentinels(struct snib__redis *r, snib_error *err)
{
    const struct snib__url *url = r->session->url;
    const char *master = url->path && url->path[0] == '/' ? url->path + 1 : "";
    if (!url->host_count || !master[0] || strpbrk(master, "/ ")) {
        return snib__fail(err, SNIB_EINVAL, 0,
                          "%s: wants sentinels and the name of a master: "
                          "%s://10.0.0.1,10.0.0.2,10.0.0.3/mymaster",
                          url->scheme, url->scheme);
    }
    r->settings.address.sought = true;
    r->settings.address.host = ""; /* TCP, wherever it is */
    snprintf(r->settings.where, sizeof r->settings.where, "%.60s", master);
    return read_db(r, NULL, err);
}

static int read_place(struct snib__redis *r, snib_error *err)
{
    const struct snib__url *url = r->session->url;
    if (strcmp(url->scheme, "unix") == 0) {
        if (url->host_count || !url->path || url->path[0] != '/' || !url->path[1]) {
            return snib__fail(err, SNIB_EINVAL, 0, "unix: wants a path: unix:///run/redis.sock");
        }
        r->settings.address.path = url->path;
        snprintf(r->settings.where, sizeof r->settings.where, "%.280s", url->path);
        return read_db(r, NULL, err);
    }
    if (is_with_sentinels(url->scheme)) {
        return read_sentinels(r, err);
    }
    if (url->host_count > 1 && !strstr(url->scheme, "+cluster")) {
        return snib__fail(err, SNIB_EINVAL, 0, "redis: one server, not %zu", url->host_count);
    }
    struct snib__address *address = &r->settings.address;
    address->host = url->host_count ? url->hosts[0].name : "127.0.0.1";
    address->port = url->host_count && url->hosts[0].port ? url->hosts[0].port : 6379;
    snprintf(r->settings.where, sizeof r->settings.where, "%.260s:%d", address->host,
             address->port);
    return read_db(r, url->path, err);
}

static int read_tls(struct snib__redis *r, snib_error *err)
{
    const union snib__value *values = r->session->values;
    struct snib__tls_options options = {
        .ca = values[SNIB__REDIS_CA].text,
        .cert = values[SNIB__REDIS_CERT].text,
        .key = values[SNIB__REDIS_KEY].text,
        .insecure = values[SNIB__REDIS_TLS].number != 0,
    };
    if (strncmp(r->session->url->scheme, "rediss", 6) != 0) {
        bool given = options.ca || options.cert || options.key || options.insecure;
        return given ? snib__fail(err, SNIB_EINVAL, 0,
                                  "redis: ca=, cert=, key= and tls= are for rediss:")
                     : SNIB_OK;
    }
    int rc = snib__tls_open(&r->tls, &options, err);
    r->settings.address.tls = r->tls;
    r->settings.unverified = options.insecure;
    return rc;
}

/* CLIENT SETNAME takes printable ASCII without blanks; the prefix goes into records that are split
 * at blanks. */
static int check_texts(const struct snib__redis *r, snib_error *err)
{
    const struct snib__session *session = r->session;
    const char *refused = r->layout->refuses(r->settings.prefix, "");
    if (refused) {
        return snib__fail(err, SNIB_EINVAL, 0, "redis: %s", refused);
    }
    if (strpbrk(r->settings.prefix, " \t\r\n\v\f")) {
        return snib__fail(err, SNIB_EINVAL, 0, "redis: prefix= must not have blanks");
    }
    for (const char *p = session->values[SNIB__REDIS_NAME].text; *p; p++) {
        if (*p < '!' || *p > '~') {
            return snib__fail(err, SNIB_EINVAL, 0,
                              "redis: name= takes printable ASCII without blanks");
        }
    }
    return SNIB_OK;
}

int snib__settings_read(struct snib__redis *r, snib_error *err)
{
    const struct snib__session *session = r->session;
    struct snib__node_settings *s = &r->settings;
    const char *prefix = session->values[SNIB__REDIS_PREFIX].text;
    char root[SNIB__KEY_MAX];
    s->prefix = prefix ? prefix : r->layout->prefix;
    r->layout->root(root, s->prefix);
    snprintf(s->root, sizeof s->root, "%.119s", root);
    int rc = check_texts(r, err);
    rc = rc < 0 ? rc : read_place(r, err);
    rc = rc < 0 ? rc : read_tls(r, err);
    rc = rc < 0 ? rc : read_password(r, err);
    if (rc == SNIB_OK && session->url->user[0] && !r->password[0]) {
        rc = snib__fail(err, SNIB_EINVAL, 0,
                        "redis: a user without a password: USER:PASSWORD@, or passfile=");
    }
    s->address.timeout_ms = session->timeout_ms;
    s->credentials = (struct snib__credentials){
        .user = session->url->user,
        .password = r->password,
        .database = r->database,
        .name = session->values[SNIB__REDIS_NAME].text,
    };
    s->quarantine = (struct snib__quarantine_rule){
        .off = !session->values[SNIB__REDIS_QUARANTINE].number,
        .span_ms = session->max_lease_ms * 11 / 10 + 2000,
        .folder = session->values[SNIB__REDIS_STATE].text,
        .where = s->where,
    };
    s->may_evict = session->values[SNIB__REDIS_EVICTION].number != 0;
    return rc;
}

void snib__settings_free(struct snib__redis *r)
{
    snib__tls_close(r->tls);
    r->tls = NULL;
    if (r->password) {
        explicit_bzero(r->password, strlen(r->password));
        free(r->password);
        r->password = NULL;
    }
}

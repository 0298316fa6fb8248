/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the URL says about the servers, and who we are there: the same at all of them.
 */
#include "engines/redlock/settings.h"

#include "base/passfile.h"
#include "net/tls.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int read_password(struct snib__redlock *r, snib_error *err)
{
    const char *path = r->session->values[SNIB__REDLOCK_PASSFILE].text;
    const char *given = r->session->url->password;
    bool has = given && given[0];
    if (path && has) {
        return snib__fail(err, SNIB_EINVAL, 0, "redlock: a password in the URL and passfile=");
    }
    if (path) {
        return snib__passfile_read(&r->password, path, "redlock", err);
    }
    r->password = strdup(has ? given : "");
    return r->password ? SNIB_OK : snib__fail(err, SNIB_ENOMEM, 0, "out of memory");
}

static int read_db(struct snib__redlock *r, snib_error *err)
{
    const char *path = r->session->url->path;
    int64_t number = r->session->values[SNIB__REDLOCK_DB].number;
    char *rest;
    if (path && path[0] == '/' && path[1]) {
        if (number >= 0) {
            return snib__fail(err, SNIB_EINVAL, 0, "redlock: the database as path and as db=");
        }
        number = strtol(path + 1, &rest, 10);
        if (*rest || number < 0 || number > 65535) {
            return snib__fail(err, SNIB_EINVAL, 0, "redlock: the path must be a database number");
        }
    }
    snprintf(r->database, sizeof r->database, "%d", number > 0 ? (int)number : 0);
    return SNIB_OK;
}

/* Where each server is; the same one twice would vote twice. */
static int read_places(struct snib__redlock *r, snib_error *err)
{
    const struct snib__url *url = r->session->url;
    if (url->host_count < 3) {
        return snib__fail(err, SNIB_EINVAL, 0,
                          "redlock: %zu server%s: a majority that survives the loss of one needs "
                          "at least 3, redlock://A,B,C; for one server there is redis:",
                          url->host_count, url->host_count == 1 ? "" : "s");
    }
    r->count = (unsigned)url->host_count;
    for (unsigned i = 0; i < r->count; i++) {
        struct snib__node_settings *s = &r->servers[i].settings;
        s->address.host = url->hosts[i].name;
        s->address.port = url->hosts[i].port ? url->hosts[i].port : 6379;
        snprintf(s->where, sizeof s->where, "%.260s:%d", s->address.host, s->address.port);
        r->order[i] = i;
        for (unsigned k = 0; k < i; k++) {
            if (strcmp(s->where, r->servers[k].settings.where) == 0) {
                return snib__fail(err, SNIB_EINVAL, 0,
                                  "redlock: %s is there twice, and would vote twice", s->where);
            }
        }
    }
    return read_db(r, err);
}

/* All clients ask the same server first when there is a crowd, however their URLs are sorted. */
static void sort_order(struct snib__redlock *r)
{
    for (unsigned i = 1; i < r->count; i++) {
        for (unsigned k = i; k > 0 && strcmp(r->servers[r->order[k]].settings.where,
                                             r->servers[r->order[k - 1]].settings.where) < 0;
             k--) {
            unsigned other = r->order[k];
            r->order[k] = r->order[k - 1];
            r->order[k - 1] = other;
        }
    }
}

static int read_tls(struct snib__redlock *r, snib_error *err)
{
    const union snib__value *values = r->session->values;
    struct snib__tls_options options = {
        .ca = values[SNIB__REDLOCK_CA].text,
        .cert = values[SNIB__REDLOCK_CERT].text,
        .key = values[SNIB__REDLOCK_KEY].text,
        .insecure = values[SNIB__REDLOCK_TLS].number != 0,
    };
    if (strcmp(r->session->url->scheme, "redlocks") != 0) {
        bool given = options.ca || options.cert || options.key || options.insecure;
        return given ? snib__fail(err, SNIB_EINVAL, 0,
                                  "redlock: ca=, cert=, key= and tls= are for redlocks:")
                     : SNIB_OK;
    }
    int rc = snib__tls_open(&r->tls, &options, err);
    for (unsigned i = 0; i < r->count; i++) {
        r->servers[i].settings.address.tls = r->tls;
        r->servers[i].settings.unverified = options.insecure;
    }
    return rc;
}

/* CLIENT SETNAME takes printable ASCII without blanks; the prefix goes into records that are split
 * at blanks. */
static int check_texts(const struct snib__redlock *r, const char *prefix, snib_error *err)
{
    const char *refused = r->layout->refuses(prefix, "");
    if (refused) {
        return snib__fail(err, SNIB_EINVAL, 0, "redlock: %s", refused);
    }
    if (strpbrk(prefix, " \t\r\n\v\f")) {
        return snib__fail(err, SNIB_EINVAL, 0, "redlock: prefix= must not have blanks");
    }
    for (const char *p = r->session->values[SNIB__REDLOCK_NAME].text; *p; p++) {
        if (*p < '!' || *p > '~') {
            return snib__fail(err, SNIB_EINVAL, 0,
                              "redlock: name= takes printable ASCII without blanks");
        }
    }
    return SNIB_OK;
}

static void fill(struct snib__redlock *r, struct snib__node_settings *s, const char *prefix)
{
    const struct snib__session *session = r->session;
    char root[SNIB__KEY_MAX];
    s->prefix = prefix;
    r->layout->root(root, prefix);
    snprintf(s->root, sizeof s->root, "%.119s", root);
    s->address.timeout_ms = session->timeout_ms;
    s->credentials = (struct snib__credentials){
        .user = session->url->user,
        .password = r->password,
        .database = r->database,
        .name = session->values[SNIB__REDLOCK_NAME].text,
    };
    s->quarantine = (struct snib__quarantine_rule){
        .off = !session->values[SNIB__REDLOCK_QUARANTINE].number,
        .span_ms = session->max_lease_ms * 11 / 10 + 2000,
        .folder = session->values[SNIB__REDLOCK_STATE].text,
        .where = s->where,
    };
    s->may_evict = session->values[SNIB__REDLOCK_EVICTION].number != 0;
}

int snib__redlock_settings(struct snib__redlock *r, snib_error *err)
{
    const struct snib__session *session = r->session;
    const char *prefix = session->values[SNIB__REDLOCK_PREFIX].text;
    prefix = prefix ? prefix : r->layout->prefix;
    int rc = check_texts(r, prefix, err);
    rc = rc < 0 ? rc : read_places(r, err);
    rc = rc < 0 ? rc : read_tls(r, err);
    rc = rc < 0 ? rc : read_password(r, err);
    if (rc == SNIB_OK && session->url->user[0] && !r->password[0]) {
        rc = snib__fail(err, SNIB_EINVAL, 0,
                        "redlock: a user without a password: USER:PASSWORD@, or passfile=");
    }
    for (unsigned i = 0; rc == SNIB_OK && i < r->count; i++) {
        fill(r, &r->servers[i].settings, prefix);
    }
    sort_order(r);
    return rc;
}

void snib__redlock_settings_free(struct snib__redlock *r)
{
    snib__tls_close(r->tls);
    r->tls = NULL;
    if (r->password) {
        explicit_bzero(r->password, strlen(r->password));
        free(r->password);
        r->password = NULL;
    }
}

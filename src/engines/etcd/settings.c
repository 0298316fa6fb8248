/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the URL says: members, prefix, TLS, who we are.
 */
#include "engines/etcd/settings.h"

#include "base/passfile.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PORT = 2379 };

static int read_user(struct etcd *e, snib_error *err)
{
    const struct snib__url *url = e->session->url;
    const char *path = e->session->values[ETCD_PASSFILE].text;
    int rc = SNIB_OK;
    if (path && url->password[0]) {
        return snib__fail(err, SNIB_EINVAL, 0, "etcd: a password in the URL and passfile=");
    }
    if (path) {
        rc = snib__passfile_read(&e->password, path, "etcd", err);
    } else if (url->password[0]) {
        e->password = strdup(url->password);
    }
    if (rc == SNIB_OK && (url->user[0] != '\0') != (e->password != NULL)) {
        rc = snib__fail(err, SNIB_EINVAL, 0,
                        "etcd: a user and a password, or neither: USER:PASSWORD@, or passfile=");
    }
    e->cluster.user = url->user[0] ? url->user : NULL;
    e->cluster.password = e->password;
    return rc;
}

/* "/locks/of/ours" becomes "locks/of/ours/"; "//locks" becomes "/locks/". */
static int read_prefix(struct etcd *e, snib_error *err)
{
    const char *path = e->session->url->path;
    path += path[0] == '/';
    size_t size = strlen(path);
    if (size > ETCD_PREFIX_MAX) {
        return snib__fail(err, SNIB_EINVAL, 0, "etcd: the path has %zu bytes, %d at most", size,
                          ETCD_PREFIX_MAX);
    }
    snprintf(e->prefix, sizeof e->prefix, "%s%s", path,
             size > 0 && path[size - 1] != '/' ? "/" : "");
    return SNIB_OK;
}

static int read_tls(struct etcd *e, snib_error *err)
{
    const union snib__value *values = e->session->values;
    struct snib__tls_options options = {.ca = values[ETCD_CA].text,
                                        .cert = values[ETCD_CERT].text,
                                        .key = values[ETCD_KEY_FILE].text,
                                        .alpn = "h2",
                                        .insecure = values[ETCD_TLS].number != 0};
    if (strcmp(e->session->url->scheme, "etcds") == 0) {
        return snib__tls_open(&e->tls, &options, err);
    }
    if (options.ca || options.cert || options.key || options.insecure) {
        return snib__fail(err, SNIB_EINVAL, 0,
                          "etcd: ca=, cert=, key= and tls= are for TLS: etcds://");
    }
    return SNIB_OK;
}

int etcd_settings_read(struct etcd *e, snib_error *err)
{
    const struct snib__url *url = e->session->url;
    struct etcd_cluster *c = &e->cluster;
    int rc = read_prefix(e, err);
    rc = rc < 0 ? rc : read_user(e, err);
    rc = rc < 0 ? rc : read_tls(e, err);
    c->count = url->host_count ? url->host_count : 1;
    c->timeout_ms = e->session->timeout_ms;
    c->connect_ms = e->session->connect_ms;
    c->stall_ms = e->session->values[ETCD_STALL].number;
    size_t used = 0;
    for (size_t i = 0; i < c->count; i++) {
        struct etcd_connection *m = &c->members[i];
        m->host = url->host_count ? url->hosts[i].name : "127.0.0.1";
        m->port = url->host_count && url->hosts[i].port ? url->hosts[i].port : PORT;
        m->timeout_ms = e->session->timeout_ms;
        m->tls = e->tls;
        if (used < sizeof e->where) {
            used += (size_t)snprintf(e->where + used, sizeof e->where - used, "%s%.60s:%d",
                                     i ? "," : "", m->host, m->port);
        }
    }
    return rc;
}

void etcd_settings_free(struct etcd *e)
{
    if (e->password) {
        explicit_bzero(e->password, strlen(e->password));
        free(e->password);
        e->password = NULL;
    }
}

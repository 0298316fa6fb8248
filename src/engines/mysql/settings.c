/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the URL says: the server, who we are there, the database and the prefix of its tables.
 *
 * TLS is the rule, and verified. Two ways need none: a Unix socket, and a loopback address. Whoever
 * names an authority (ca=) wants it verified there, too.
 */
#include "engines/mysql/settings.h"

#include "base/passfile.h"
#include "engines/mysql/digest.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PORT = 3306 };

enum { TLS_AUTO = -1, TLS_VERIFY, TLS_INSECURE, TLS_NO }; /* as the choices are written */

static int read_user(struct mysql_settings *s, const struct snib__session *session, snib_error *err)
{
    const struct snib__url *url = session->url;
    const char *path = session->values[MYSQL_PASSFILE].text;
    if (path && url->password[0]) {
        return snib__fail(err, SNIB_EINVAL, 0, "mysql: a password in the URL and passfile=");
    }
    if (!url->user[0]) {
        return snib__fail(err, SNIB_EINVAL, 0, "mysql: as whom? mysql://USER@HOST/DATABASE");
    }
    s->target.user = url->user;
    s->target.password = url->password;
    if (path) {
        int rc = snib__passfile_read(&s->password, path, "mysql", err);
        s->target.password = s->password;
        return rc;
    }
    return SNIB_OK;
}

/* Letters are compared as the server may compare them: "Locks" and "locks" may be one database. */
static int read_database(struct mysql_settings *s, const struct snib__url *url, snib_error *err)
{
    static const char allowed[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-";
    const char *path = url->path[0] == '/' ? url->path + 1 : url->path;
    size_t size = strlen(path);
    if (size == 0) {
        path = "snib";
        size = 4;
    }
    if (size > MYSQL_DATABASE_MAX || strspn(path, allowed) != size) {
        return snib__fail(err, SNIB_EINVAL, 0,
                          "mysql: a database has at most %d of a-z, A-Z, 0-9, _ and -",
                          MYSQL_DATABASE_MAX);
    }
    memcpy(s->database, path, size + 1);
    s->target.database = s->database;
    return SNIB_OK;
}

static int read_prefix(struct mysql_settings *s, const char *prefix, snib_error *err)
{
    size_t size = strlen(prefix);
    if (size > MYSQL_PREFIX_MAX ||
        strspn(prefix, "abcdefghijklmnopqrstuvwxyz0123456789_") != size) {
        return snib__fail(err, SNIB_EINVAL, 0, "mysql: prefix= has at most %d of a-z, 0-9 and _",
                          MYSQL_PREFIX_MAX);
    }
    memcpy(s->prefix, prefix, size + 1);
    return SNIB_OK;
}

static int read_place(struct mysql_settings *s, const struct snib__session *session,
                      snib_error *err)
{
    const struct snib__url *url = session->url;
    const char *path = session->values[MYSQL_SOCKET].text;
    struct mysql_target *t = &s->target;
    if (url->host_count > 1) {
        return snib__fail(err, SNIB_EINVAL, 0,
                          "mysql: one server; a lock at two of them would be two locks");
    }
    if (path && url->host_count == 1 &&
        (url->hosts[0].port || strcmp(url->hosts[0].name, "localhost") != 0)) {
        return snib__fail(err, SNIB_EINVAL, 0, "mysql: socket= or a host, not both");
    }
    if (path && path[0] != '/') {
        return snib__fail(err, SNIB_EINVAL, 0, "mysql: socket= is an absolute path");
    }
    if (path) {
        t->socket = path;
        snprintf(s->where, sizeof s->where, "%.150s", path);
        return SNIB_OK;
    }
    t->host = url->host_count ? url->hosts[0].name : "127.0.0.1";
    t->port = url->host_count && url->hosts[0].port ? url->hosts[0].port : PORT;
    snprintf(s->where, sizeof s->where, "%.150s:%d", t->host, t->port);
    return SNIB_OK;
}

/* A name that begins like an address is a name. */
static bool on_this_machine(const struct mysql_target *t)
{
    unsigned char address[4];
    return t->socket || strcmp(t->host, "localhost") == 0 ||
           (inet_pton(AF_INET, t->host, address) == 1 && address[0] == 127) ||
           strcmp(t->host, "::1") == 0;
}

static int read_tls(struct mysql_settings *s, const union snib__value *values, snib_error *err)
{
    struct mysql_target *t = &s->target;
    int64_t choice = values[MYSQL_TLS].number;
    t->ca = values[MYSQL_CA].text;
    t->cert = values[MYSQL_CERT].text;
    t->key = values[MYSQL_KEY_FILE].text;
    bool files = t->ca || t->cert || t->key;
    if ((t->cert != NULL) != (t->key != NULL)) {
        return snib__fail(err, SNIB_EINVAL, 0, "mysql: cert= and key=, or neither");
    }
    if (t->socket && (files || choice == TLS_VERIFY || choice == TLS_INSECURE)) {
        return snib__fail(err, SNIB_EINVAL, 0, "mysql: no TLS over a Unix socket");
    }
    if (choice == TLS_NO && files) {
        return snib__fail(err, SNIB_EINVAL, 0, "mysql: tls=no, and ca=, cert= or key=");
    }
    if (choice == TLS_INSECURE && t->ca) {
        return snib__fail(err, SNIB_EINVAL, 0, "mysql: tls=insecure, and ca= to verify with");
    }
    t->tls = choice == TLS_VERIFY     ? MYSQL_TLS_VERIFY
             : choice == TLS_INSECURE ? MYSQL_TLS_INSECURE
             : choice == TLS_NO       ? MYSQL_TLS_NO
             : files                  ? MYSQL_TLS_VERIFY
             : on_this_machine(t)     ? MYSQL_TLS_NO
                                      : MYSQL_TLS_VERIFY;
    return SNIB_OK;
}

int mysql_settings_read(struct mysql_settings *s, struct snib__session *session, snib_error *err)
{
    const union snib__value *values = session->values;
    int rc = read_user(s, session, err);
    rc = rc < 0 ? rc : read_database(s, session->url, err);
    rc = rc < 0 ? rc : read_prefix(s, values[MYSQL_PREFIX].text, err);
    rc = rc < 0 ? rc : read_place(s, session, err);
    rc = rc < 0 ? rc : read_tls(s, values, err);
    s->pooled = values[MYSQL_POOLER].number == 1;
    s->quarantine_ms = values[MYSQL_QUARANTINE].number ? session->max_lease_ms * 11 / 10 + 2000 : 0;
    return rc;
}

void mysql_settings_free(struct mysql_settings *s)
{
    if (s->password) {
        explicit_bzero(s->password, strlen(s->password));
        free(s->password);
        s->password = NULL;
    }
}

void mysql_settings_key(const struct mysql_settings *s, const char *name, char out[static 46])
{
    struct mysql_digest digest;
    unsigned char bytes[32];
    mysql_digest_begin(&digest);
    for (const char *p = s->database; *p; p++) {
        char low = (char)(*p >= 'A' && *p <= 'Z' ? *p - 'A' + 'a' : *p);
        mysql_digest_add(&digest, &low, 1);
    }
    mysql_digest_add(&digest, "/", 1);
    mysql_digest_add(&digest, s->prefix, strlen(s->prefix));
    mysql_digest_add(&digest, "/", 1);
    mysql_digest_add(&digest, name, strlen(name));
    mysql_digest_end(&digest, bytes);
    memcpy(out, "snib:", 5);
    for (int i = 0; i < 20; i++) {
        snprintf(out + 5 + 2 * i, 3, "%02x", bytes[i]);
    }
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the URL says; what it does not say is libpq's to find: PGHOST, PGUSER, PGSERVICE, ~/.pgpass
 * and the others mean what they mean to psql.
 *
 * What can go wrong: a schema that is no plain identifier is refused here, since it becomes part of
 * the statements; nothing else ever does. A host in libpq's environment is taken out of it, so that
 * its name is looked up without blocking; a list of hosts there is left to libpq.
 *
 * Not done: libpq's other parameters in the URL. They have their variables and service files.
 */
#include "engines/postgres/settings.h"

#include "base/hash.h"
#include "base/passfile.h"

#include <arpa/inet.h>
#include <libpq-fe.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SYSTEM_AUTHORITIES "/etc/ssl/certs/ca-certificates.crt"

const struct snib__param pg_params[] = {
    [PG_MODE] = {"mode", SNIB__CHOICE, "session", 0, 0, "session|lease",
                 "an advisory lock on a connection that is a lease; or a row that is one"},
    [PG_SCHEMA] = {"schema", SNIB__TEXT, "snib", 1, PG_SCHEMA_MAX, NULL, "where the tables are"},
    [PG_MAX_WAITS] = {"max-waits", SNIB__COUNT, "16", 0, 48, NULL,
                      "connections for waiting; above that, asked again and again"},
    [PG_POOLER] = {"pooler", SNIB__CHOICE, "no", 0, 0, "no|session",
                   "session: there is one in between, and it pools whole sessions"},
    [PG_QUARANTINE] = {"quarantine", SNIB__FLAG, "yes", 0, 1, NULL,
                       "after the server's restart grant nothing until old leases are over"},
    [PG_SERVICE] = {"service", SNIB__TEXT, NULL, 1, 200, NULL, "of libpq's service file"},
    [PG_PASSFILE] = {"passfile", SNIB__TEXT, NULL, 1, 1000, NULL,
                     "a file with the password, readable by its owner only"},
    [PG_CA] = {"ca", SNIB__TEXT, NULL, 1, 4096, NULL, "authorities to trust"},
    [PG_CERT] = {"cert", SNIB__TEXT, NULL, 1, 4096, NULL, "a certificate to show"},
    [PG_KEY] = {"key", SNIB__TEXT, NULL, 1, 4096, NULL, "the key of the certificate"},
    [PG_TLS] = {"tls", SNIB__CHOICE, NULL, 0, 0, "verify|insecure|no",
                "insecure: accept any certificate; no: none"},
    [PG_PARAMS] = {.name = NULL},
};

static int read_password(struct pg_settings *s, snib_error *err)
{
    const struct snib__url *url = s->session->url;
    const char *path = s->session->values[PG_PASSFILE].text;
    if (path && url->password[0]) {
        return snib__fail(err, SNIB_EINVAL, 0, "postgres: a password in the URL and passfile=");
    }
    if (path) {
        return snib__passfile_read(&s->password, path, "postgres", err);
    }
    if (url->password[0] && !(s->password = strdup(url->password))) {
        return snib__fail(err, SNIB_ENOMEM, 0, "postgres: out of memory");
    }
    return SNIB_OK;
}

static bool is_identifier(const char *text)
{
    static const char start[] = "abcdefghijklmnopqrstuvwxyz_";
    static const char rest[] = "abcdefghijklmnopqrstuvwxyz_0123456789";
    return strchr(start, text[0]) != NULL && text[strspn(text, rest)] == '\0';
}

static int read_names(struct pg_settings *s, snib_error *err)
{
    const struct snib__url *url = s->session->url;
    const char *schema = s->session->values[PG_SCHEMA].text;
    const char *database = url->path[0] == '/' ? url->path + 1 : url->path;
    if (!is_identifier(schema) || strncmp(schema, "pg_", 3) == 0) {
        return snib__fail(err, SNIB_EINVAL, 0,
                          "postgres: schema=%s: small letters, digits and _, and not pg_", schema);
    }
    snprintf(s->schema, sizeof s->schema, "%s", schema);
    s->database = database[0] ? database : NULL;
    s->user = url->user[0] ? url->user : NULL;
    s->service = s->session->values[PG_SERVICE].text;
    return SNIB_OK;
}

/* The host that libpq would take from its environment, if it is one. */
static void read_environment(struct pg_settings *s)
{
    PQconninfoOption *all = s->service ? NULL : PQconndefaults();
    for (PQconninfoOption *o = all; o && o->keyword; o++) {
        if (strcmp(o->keyword, "host") == 0 && o->val && o->val[0] && !strchr(o->val, ',')) {
            s->own_host = strdup(o->val);
        } else if (strcmp(o->keyword, "hostaddr") == 0 && o->val && o->val[0]) {
            free(s->own_host);
            s->own_host = NULL;
            break;
        }
    }
    PQconninfoFree(all);
    if (s->own_host) {
        s->hosts[0] = s->own_host;
        s->host_count = 1;
    }
}

static void read_hosts(struct pg_settings *s)
{
    const struct snib__url *url = s->session->url;
    for (size_t i = 0; i < url->host_count && url->hosts[i].name[0]; i++) {
        s->hosts[i] = url->hosts[i].name;
        s->ports[i] = url->hosts[i].port;
        s->host_count++;
    }
    if (s->host_count == 0) {
        read_environment(s);
        s->ports[0] = url->host_count ? url->hosts[0].port : 0;
    }
    size_t used = 0;
    snprintf(s->where, sizeof s->where, "%s", s->service ? s->service : "the default server");
    for (size_t i = 0; i < s->host_count && used < sizeof s->where; i++) {
        char port[16] = "";
        if (s->ports[i]) {
            snprintf(port, sizeof port, ":%d", s->ports[i]);
        }
        used += (size_t)snprintf(s->where + used, sizeof s->where - used, "%s%.80s%s", i ? "," : "",
                                 s->hosts[i], port);
    }
}

static int read_tls(struct pg_settings *s, snib_error *err)
{
    const union snib__value *values = s->session->values;
    s->ca = values[PG_CA].text;
    s->cert = values[PG_CERT].text;
    s->key = values[PG_KEY].text;
    s->tls = (int)values[PG_TLS].number;
    if (s->tls > PG_TLS_VERIFY && s->ca) {
        return snib__fail(err, SNIB_EINVAL, 0, "postgres: ca= is to verify, and tls= says not to");
    }
    if (!s->cert != !s->key) {
        return snib__fail(err, SNIB_EINVAL, 0, "postgres: cert= and key= come together");
    }
    return SNIB_OK;
}

int pg_settings_read(struct pg_settings *s, struct snib__session *session, snib_error *err)
{
    s->session = session;
    s->lease = session->values[PG_MODE].number == 1;
    s->pooled = session->values[PG_POOLER].number == 1;
    s->quarantine = session->values[PG_QUARANTINE].number != 0;
    int rc = read_names(s, err);
    rc = rc < 0 ? rc : read_password(s, err);
    rc = rc < 0 ? rc : read_tls(s, err);
    if (rc == SNIB_OK) {
        read_hosts(s);
    }
    return rc;
}

void pg_settings_free(struct pg_settings *s)
{
    if (s->password) {
        explicit_bzero(s->password, strlen(s->password));
        free(s->password);
        s->password = NULL;
    }
    free(s->own_host);
    s->own_host = NULL;
}

/* A name that begins like an address is a name. */
static bool is_near(const char *host)
{
    unsigned char address[4];
    return host[0] == '/' || host[0] == '@' || strcmp(host, "localhost") == 0 ||
           (inet_pton(AF_INET, host, address) == 1 && address[0] == 127) ||
           strcmp(host, "::1") == 0;
}

const char *pg_settings_sslmode(const struct pg_settings *s, const char *host)
{
    if (s->tls == PG_TLS_OFF) {
        return "disable";
    }
    if (s->tls == PG_TLS_INSECURE) {
        return "require";
    }
    if (s->ca || s->tls == PG_TLS_VERIFY) {
        return "verify-full"; /* said so: here too */
    }
    if (getenv("PGSSLMODE") || s->service || !host || is_near(host)) {
        return NULL;
    }
    return "verify-full";
}

const char *pg_settings_authorities(const struct pg_settings *s)
{
    char own[512];
    const char *home = getenv("HOME");
    if (s->ca) {
        return s->ca;
    }
    snprintf(own, sizeof own, "%s/.postgresql/root.crt", home ? home : "");
    if (getenv("PGSSLROOTCERT") || access(own, R_OK) == 0) {
        return NULL;
    }
    return access(SYSTEM_AUTHORITIES, R_OK) == 0 ? SYSTEM_AUTHORITIES : NULL;
}

/* FNV, and then every bit of it in every bit of the key: names that differ in one letter differ
 * everywhere. Two names with one key are found out by the row. */
uint64_t pg_key(const char *schema, const char *name)
{
    uint64_t h = snib__hash_text(schema);
    h = snib__hash_byte(h, 0);
    h = snib__hash_bytes(h, name, strlen(name));
    h = (h ^ (h >> 33)) * 0xff51afd7ed558ccdULL;
    h = (h ^ (h >> 33)) * 0xc4ceb9fe1a85ec53ULL;
    return h ^ (h >> 33);
}

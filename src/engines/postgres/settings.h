/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_POSTGRES_SETTINGS_H
#define SNIB_POSTGRES_SETTINGS_H

/*
 * What the URL and libpq's own environment say: where the server is, who we are, how it is trusted.
 */

#include "engines/engine.h"
#include "engines/sql/driver.h"

#define PG_SCHEMA_MAX 40

struct pg_settings {
    struct snib__session *session;
    const char *hosts[SNIB__HOSTS_MAX]; /* a name, an address, or the folder of a socket */
    int ports[SNIB__HOSTS_MAX];         /* 0: libpq decides */
    size_t host_count;                  /* 0: libpq decides, and it is no name to look up */
    size_t at;                          /* the one that is tried next */
    const char *user, *database, *ca, *cert, *key, *service; /* NULL: libpq decides */
    char *password;                                          /* NULL: libpq decides */
    char *own_host;                                          /* of the environment */
    int tls;                                                 /* enum pg_tls */
    bool lease;                                              /* mode=lease */
    bool pooled;                                             /* pooler=session */
    bool quarantine;
    char schema[PG_SCHEMA_MAX + 1];
    char where[200];
    char *texts[2][SQL_STATEMENTS]; /* with the schema in them; the second for shared locks */
};

enum pg_tls { PG_TLS_VERIFY, PG_TLS_INSECURE, PG_TLS_OFF };

/* The places of the parameters in their table. */
enum {
    PG_MODE,
    PG_SCHEMA,
    PG_MAX_WAITS,
    PG_POOLER,
    PG_QUARANTINE,
    PG_SERVICE,
    PG_PASSFILE,
    PG_CA,
    PG_CERT,
    PG_KEY,
    PG_TLS,
    PG_PARAMS
};

extern const struct snib__param pg_params[];

int pg_settings_read(struct pg_settings *, struct snib__session *, snib_error *err);
void pg_settings_free(struct pg_settings *);

/* The 64 bits that a name is to the server. */
uint64_t pg_key(const char *schema, const char *name);

/* sslmode and sslrootcert for that host; NULL: libpq decides. */
const char *pg_settings_sslmode(const struct pg_settings *, const char *host);
const char *pg_settings_authorities(const struct pg_settings *);

#endif

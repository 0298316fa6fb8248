/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_MYSQL_SETTINGS_H
#define SNIB_MYSQL_SETTINGS_H

#include "engines/mysql/link.h"

/* Our parameters: rows of the table, see engine.c. */
enum {
    MYSQL_CA,
    MYSQL_CERT,
    MYSQL_KEY_FILE,
    MYSQL_PASSFILE,
    MYSQL_TLS,
    MYSQL_SOCKET,
    MYSQL_PREFIX,
    MYSQL_POOLER,
    MYSQL_QUARANTINE,
    MYSQL_MAX_WAITS,
    MYSQL_MODE,
    MYSQL_PARAMS
};

enum { MYSQL_PREFIX_MAX = 24, MYSQL_DATABASE_MAX = 64 };

/* What the URL says. */
struct mysql_settings {
    struct mysql_target target;
    char *password;
    char database[MYSQL_DATABASE_MAX + 1];
    char prefix[MYSQL_PREFIX_MAX + 1]; /* of the tables */
    char where[200];
    bool pooled;           /* a pooler is known to keep sessions apart */
    int64_t quarantine_ms; /* after the server's start; 0: none */
};

int mysql_settings_read(struct mysql_settings *, struct snib__session *, snib_error *);
void mysql_settings_free(struct mysql_settings *);

/* What the server calls the lock of a name: "snib:" and 40 hexadecimal digits. */
void mysql_settings_key(const struct mysql_settings *, const char *name, char out[static 46]);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_ZOOKEEPER_SETTINGS_H
#define SNIB_ZOOKEEPER_SETTINGS_H

#include "engines/zookeeper/contender.h"

/* The rows of the parameter table. */
enum {
    SNIB__ZK_SESSION,
    SNIB__ZK_DIALECT,
    SNIB__ZK_ACL,
    SNIB__ZK_PASSFILE,
    SNIB__ZK_CA,
    SNIB__ZK_CERT,
    SNIB__ZK_KEY,
    SNIB__ZK_TLS,
    SNIB__ZK_PARAMS
};

extern const struct snib__param snib__zk_params[];

/* What the URL says: base path, session, names, rights, credentials, TLS. */
int snib__zk_settings_read(struct snib__zk *, snib_error *);

#endif

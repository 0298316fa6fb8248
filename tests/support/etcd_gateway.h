/*
 * The other hand at an etcd: what an administrator or another client does, by its JSON gateway.
 */
#ifndef SNIB_TESTS_ETCD_GATEWAY_H
#define SNIB_TESTS_ETCD_GATEWAY_H

#include "server_etcd.h"

/* POSTs a body to /v3/PATH; answers what came back, valid until the next call. */
const char *etcd_post(const struct server *server, const char *path, const char *body);

/* The same by somebody who has this token, which a user gets for a password. */
const char *etcd_post_as(const struct server *server, const char *token, const char *path,
                         const char *body);
void etcd_token(const struct server *server, const char *user, const char *password,
                char out[1024]);

/* How many keys begin with this; puts one, under a lease if that is not 0; deletes all that begin
 * so; the lease of the oldest of them, 0 if there is none. */
int etcd_keys(const struct server *server, const char *prefix);
void etcd_put(const struct server *server, const char *key, int64_t lease);
void etcd_delete(const struct server *server, const char *prefix);
int64_t etcd_lease_of(const struct server *server, const char *prefix, int which);

void etcd_revoke(const struct server *server, int64_t lease);

/* How many leases there are, but for those that last tokens are kept under. */
int etcd_leases(const struct server *server);

int64_t etcd_revision(const struct server *server);
void etcd_compact(const struct server *server);

#endif

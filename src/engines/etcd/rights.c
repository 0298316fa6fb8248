/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The user that a cluster needs for what the URL says. A role with the prefix is all: leases are
 * everybody's who may write the keys below them.
 */
#include "engines/etcd/rights.h"

#include "engines/etcd/session.h"

#include <stdio.h>
#include <string.h>

/* A word for the shell, whatever is in it. `size` is enough for every letter to be a quote. */
static void quote(char *out, size_t size, const char *word)
{
    size_t used = 0;
    out[used++] = '\'';
    for (; *word && used + 6 < size; word++) {
        if (*word == '\'') {
            memcpy(out + used, "'\\''", 4);
            used += 4;
        } else {
            out[used++] = *word;
        }
    }
    out[used++] = '\'';
    out[used] = '\0';
}

int etcd_rights(const struct snib__session *session, char *out, size_t size)
{
    const struct etcd *e = session->state;
    const char *name = session->url->user;
    char prefix[4 * ETCD_PREFIX_MAX + 16], user[4 * 100 + 16];
    if (strlen(name) > 100) {
        return (int)size; /* no room for that */
    }
    quote(prefix, sizeof prefix, e->prefix);
    quote(user, sizeof user, name[0] ? name : "snib");
    return snprintf(out, size,
                    "etcdctl role add %s && etcdctl role grant-permission %s --prefix=true "
                    "readwrite %s && etcdctl user add %s:PASSWORD && etcdctl user grant-role %s %s",
                    user, user, prefix, user, user, user);
}

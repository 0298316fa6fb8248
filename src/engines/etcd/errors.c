/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Errors in words: what etcd says is for those who know etcd, and names neither the user nor the
 * keys. What is not known here is shown as the cluster says it.
 */
#include "engines/etcd/errors.h"

#include <stdio.h>
#include <string.h>

enum {
    STATUS_INVALID = 3,
    STATUS_DENIED = 7,
    STATUS_EXHAUSTED = 8,
    STATUS_PRECONDITION = 9,
    STATUS_UNIMPLEMENTED = 12,
    STATUS_UNAUTHENTICATED = 16
};

enum trouble {
    OTHER,
    NO_RIGHT,
    WRONG_PASSWORD,
    NO_USER,
    NO_USERS, /* it has none at all */
    NO_TOKEN,
    FULL
};

/* The words are those of 3.4 to 3.6. */
static enum trouble trouble_of(const struct etcd_call *k)
{
    static const struct {
        int status;
        const char *words;
        enum trouble trouble;
    } known[] = {{STATUS_DENIED, "", NO_RIGHT},
                 {STATUS_INVALID, "authentication failed", WRONG_PASSWORD},
                 {STATUS_INVALID, "user name is empty", NO_USER},
                 {STATUS_INVALID, "user name not found", WRONG_PASSWORD},
                 {STATUS_INVALID, "auth: revision", NO_TOKEN},
                 {STATUS_INVALID, "revision of auth store", NO_TOKEN},
                 {STATUS_PRECONDITION, "authentication is not enabled", NO_USERS},
                 {STATUS_PRECONDITION, "user name not found", WRONG_PASSWORD},
                 {STATUS_UNAUTHENTICATED, "", NO_TOKEN},
                 {STATUS_EXHAUSTED, "database space exceeded", FULL}};
    for (size_t i = 0; k->outcome == ETCD_ANSWERED && i < sizeof known / sizeof known[0]; i++) {
        if (k->status == known[i].status && strstr(k->text, known[i].words) != NULL) {
            return known[i].trouble;
        }
    }
    return OTHER;
}

int etcd_error_code(const struct etcd_call *k)
{
    if (k->outcome != ETCD_ANSWERED) {
        return k->outcome == ETCD_UNSENT ? SNIB_EUNREACH : SNIB_EUNKNOWN;
    }
    enum trouble trouble = trouble_of(k);
    if (trouble != OTHER && trouble != FULL) {
        return SNIB_EDENIED;
    }
    switch (k->status) {
    case STATUS_EXHAUSTED: /* no space, or too many requests */
        return SNIB_EUNSAFE;
    case STATUS_UNIMPLEMENTED:
        return SNIB_ENOTSUP;
    default:
        return SNIB_EPROTO;
    }
}

static const char *user_of(const struct etcd *e)
{
    return e->cluster.user ? e->cluster.user : "";
}

const char *etcd_error_fact(const struct etcd *e, const struct etcd_call *k,
                            char out[ETCD_TEXT_MAX])
{
    char what[ETCD_TEXT_MAX];
    const char *user = user_of(e);
    if (k->outcome != ETCD_ANSWERED) {
        etcd_cluster_explain(&e->cluster, out, ETCD_TEXT_MAX);
        if (!out[0]) {
            snprintf(out, ETCD_TEXT_MAX, "%.120s: no answer in time", e->where);
        }
        return out;
    }
    switch (trouble_of(k)) {
    case NO_RIGHT:
        snprintf(what, sizeof what, "%s%.60s may not read and write %s%s%s",
                 user[0] ? "user " : "who has no user", user,
                 e->prefix[0] ? "what begins with '" : "all keys", e->prefix,
                 e->prefix[0] ? "'" : "");
        break;
    case WRONG_PASSWORD:
        snprintf(what, sizeof what, "there is no user %.60s, or with another password", user);
        break;
    case NO_USER:
        snprintf(what, sizeof what, "it wants to know a user");
        break;
    case NO_USERS:
        snprintf(what, sizeof what, "it knows no users: authentication is not enabled there");
        break;
    case NO_TOKEN:
        snprintf(what, sizeof what, "it refuses the token it has just given to user %.60s", user);
        break;
    default:
        snprintf(what, sizeof what, "%.200s", k->text[0] ? k->text : "an answer without a message");
        break;
    }
    snprintf(out, ETCD_TEXT_MAX, "%.120s: %.260s", e->where, what);
    return out;
}

const char *etcd_error_remedy(const struct etcd *e, const struct etcd_call *k,
                              char out[ETCD_TEXT_MAX])
{
    const char *remedy = "";
    switch (trouble_of(k)) {
    case NO_RIGHT:
        snprintf(out, ETCD_TEXT_MAX,
                 "etcdctl role grant-permission ROLE --prefix=true readwrite '%s'", e->prefix);
        return out;
    case WRONG_PASSWORD:
    case NO_USER:
        remedy = "give the right USER:PASSWORD@ in the URL, or passfile=";
        break;
    case NO_USERS:
        remedy = "take user and password out of the URL, or etcdctl auth enable";
        break;
    case NO_TOKEN:
        remedy = "give all members the same --auth-token, and its ttl more than a moment";
        break;
    case FULL:
        remedy = "compact and defragment it, then `etcdctl alarm disarm`";
        break;
    case OTHER:
        break;
    }
    snprintf(out, ETCD_TEXT_MAX, "%s", remedy);
    return out;
}

const char *etcd_error_text(const struct etcd *e, const struct etcd_call *k,
                            char out[ETCD_TEXT_MAX])
{
    char remedy[ETCD_TEXT_MAX];
    etcd_error_fact(e, k, out);
    etcd_error_remedy(e, k, remedy);
    size_t used = strlen(out);
    snprintf(out + used, ETCD_TEXT_MAX - used, "%s%s", remedy[0] ? "; " : "", remedy);
    return out;
}

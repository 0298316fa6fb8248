/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the URL says.
 *
 * The session is asked for so long that what is certain of it (session.c) is a ttl. The servers
 * have the last word: by default between 2 and 20 of their ticks, 4 to 40 s.
 */
#include "engines/zookeeper/settings.h"

#include "base/passfile.h"
#include "net/tls.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ALL_RIGHTS 31

const struct snib__param snib__zk_params[] = {
    [SNIB__ZK_SESSION] = {"session", SNIB__DURATION, NULL, 100, 3600 * 1000, NULL,
                          "the session to ask for; normally 8/5 of ttl"},
    [SNIB__ZK_DIALECT] = {"dialect", SNIB__CHOICE, "curator", 0, 0, "curator|curator-rw|kazoo",
                          "whose names nodes get, so that those clients see ours"},
    [SNIB__ZK_ACL] = {"acl", SNIB__CHOICE, "open", 0, 0, "open|creator",
                      "who may use nodes made here: everybody, or the same user"},
    [SNIB__ZK_PASSFILE] = {"passfile", SNIB__TEXT, NULL, 1, 1000, NULL,
                           "a file with the password, readable by its owner only"},
    [SNIB__ZK_CA] = {"ca", SNIB__TEXT, NULL, 1, 1000, NULL, "authorities to trust"},
    [SNIB__ZK_CERT] = {"cert", SNIB__TEXT, NULL, 1, 1000, NULL, "our certificate"},
    [SNIB__ZK_KEY] = {"key", SNIB__TEXT, NULL, 1, 1000, NULL, "its key"},
    [SNIB__ZK_TLS] = {"tls", SNIB__CHOICE, "verify", 0, 0, "verify|insecure",
                      "insecure: accept any certificate of the servers"},
    [SNIB__ZK_PARAMS] = {.name = NULL},
};

/* ---- Credentials -------------------------------------------------------------------------- */

static int read_credentials(struct snib__zk *z, snib_error *err)
{
    const struct snib__url *url = z->session->url;
    const char *passfile = z->session->values[SNIB__ZK_PASSFILE].text;
    char *password = NULL;
    int rc = SNIB_OK;
    if (!url->user[0] && !url->password[0] && !passfile) {
        return SNIB_OK;
    }
    if (!url->user[0] || (passfile && url->password[0])) {
        return snib__fail(err, SNIB_EINVAL, 0, "zookeeper: USER:PASSWORD@, or USER@ and passfile=");
    }
    if (passfile) {
        rc = snib__passfile_read(&password, passfile, "zookeeper", err);
    }
    if (rc == SNIB_OK && !passfile && !url->password[0]) {
        rc = snib__fail(err, SNIB_EINVAL, 0, "zookeeper: a user without a password");
    }
    if (rc == SNIB_OK &&
        asprintf(&z->at.credentials, "%s:%s", url->user, passfile ? password : url->password) < 0) {
        z->at.credentials = NULL;
        rc = snib__fail(err, SNIB_ENOMEM, 0, "out of memory");
    }
    if (password) {
        explicit_bzero(password, strlen(password));
        free(password);
    }
    return rc;
}

/* ---- The rest ----------------------------------------------------------------------------- */

/* "/a/b/" is "/a/b"; "" and "/" are the root. */
static int read_base(struct snib__zk *z, snib_error *err)
{
    const char *path = z->session->url->path;
    size_t size = strlen(path);
    while (size > 0 && path[size - 1] == '/') {
        size--;
    }
    if (size > SNIB__ZK_BASE_MOST) {
        return snib__fail(err, SNIB_EINVAL, 0, "zookeeper: the path is longer than %d bytes",
                          SNIB__ZK_BASE_MOST);
    }
    memcpy(z->base, path, size);
    z->base[size] = '\0';
    for (const char *p = z->base; *p; p = strchrnul(p + 1, '/')) {
        size_t length = strcspn(p + 1, "/");
        if (length == 0 || (length <= 2 && strspn(p + 1, ".") >= length)) {
            return snib__fail(err, SNIB_EINVAL, 0, "zookeeper: '%s' is not a path of nodes", path);
        }
    }
    bool theirs = strncmp(z->base, "/zookeeper", 10) == 0 && (z->base[10] == '/' || !z->base[10]);
    return theirs ? snib__fail(err, SNIB_EINVAL, 0,
                               "zookeeper: what is below /zookeeper is the servers' own; another "
                               "base path, as in zookeeper://HOST/locks")
                  : SNIB_OK;
}

static int read_tls(struct snib__zk *z, snib_error *err)
{
    const union snib__value *values = z->session->values;
    struct snib__tls_options options = {
        .ca = values[SNIB__ZK_CA].text,
        .cert = values[SNIB__ZK_CERT].text,
        .key = values[SNIB__ZK_KEY].text,
        .insecure = values[SNIB__ZK_TLS].number != 0,
    };
    if (strcmp(z->session->url->scheme, "zookeepers") != 0) {
        bool given = options.ca || options.cert || options.key || options.insecure;
        return given ? snib__fail(err, SNIB_EINVAL, 0,
                                  "zookeeper: ca=, cert=, key= and tls= are for zookeepers:")
                     : SNIB_OK;
    }
    int rc = snib__tls_open(&z->tls, &options, err);
    z->at.link.tls = z->tls;
    return rc;
}

int snib__zk_settings_read(struct snib__zk *z, snib_error *err)
{
    struct snib__session *session = z->session;
    int64_t given_ms = session->values[SNIB__ZK_SESSION].number;
    bool creator = session->values[SNIB__ZK_ACL].number == 1;
    z->at.wanted_ms = given_ms > 0 ? given_ms : session->ttl_ms / 5 * 8;
    z->wished = given_ms > 0 || session->ttl_given;
    z->dialect = (enum snib__zk_dialect)session->values[SNIB__ZK_DIALECT].number;
    z->rights[0] = (struct snib__zk_right){
        .permissions = ALL_RIGHTS,
        .scheme = creator ? "auth" : "world",
        .id = creator ? "" : "anyone",
    };
    snprintf(z->who, sizeof z->who, "%s", session->who);
    int rc = read_base(z, err);
    rc = rc < 0 ? rc : read_credentials(z, err);
    rc = rc < 0 ? rc : read_tls(z, err);
    if (rc == SNIB_OK && creator && !z->at.credentials) {
        rc = snib__fail(err, SNIB_EINVAL, 0, "zookeeper: acl=creator needs USER:PASSWORD@");
    }
    return rc;
}

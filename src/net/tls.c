/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whom to trust, and what to show: an SSL_CTX made of files.
 *
 * The key is read by us, because it is looked at first: through the same descriptor, a regular
 * file that others cannot read (a group may: Debian has one for that, ssl-cert). A key with a
 * passphrase is refused instead of asked for: OpenSSL would stop the program and read from its
 * terminal. Our copy of its bytes is wiped.
 *
 * Any certificate in ca= is an anchor, also one in the middle of a chain, as people expect who give
 * the one that they have. Names in certificates may have a wildcard as their whole first label.
 *
 * Left as the system has it: ciphers, curves, security level. These are the administrator's policy,
 * in openssl.cnf; only TLS 1.2 is asked for at least.
 */
#include "net/tls_internal.h"

#include "base/error.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define KEY_MOST (1024 * 1024)

static int cannot_read(const char *param, const char *path, snib_error *err)
{
    int sys = errno;
    return snib__fail(err, sys == EACCES ? SNIB_EDENIED : SNIB_EINVAL, sys, "%s=%.200s", param,
                      path);
}

/* What OpenSSL has against this file, in a few words. */
static const char *openssl_says(const struct snib__openssl *o)
{
    const char *text = o->ERR_reason_error_string(o->ERR_peek_error());
    return text ? text : "no reason given";
}

/* ---- Trust ------------------------------------------------------------------------------ */

static int trust_file(struct snib__tls *t, const char *path, snib_error *err)
{
    struct stat st;
    if (stat(path, &st) < 0 || access(path, S_ISDIR(st.st_mode) ? R_OK | X_OK : R_OK) < 0) {
        return cannot_read("ca", path, err);
    }
    if (S_ISDIR(st.st_mode) ? t->openssl->SSL_CTX_load_verify_dir(t->context, path) != 1
                            : t->openssl->SSL_CTX_load_verify_file(t->context, path) != 1) {
        return snib__fail(err, SNIB_EINVAL, 0, "ca=%.200s: no certificates in PEM form (%s)", path,
                          openssl_says(t->openssl));
    }
    return 0;
}

/* Called for every certificate of a chain that has a fault, and for those that have none. */
static int on_verify(int good, X509_STORE_CTX *store)
{
    const struct snib__openssl *o = snib__openssl();
    if (!good) {
        SSL *ssl = o->X509_STORE_CTX_get_ex_data(store, o->SSL_get_ex_data_X509_STORE_CTX_idx());
        snib__tls_explain_cert(o->SSL_get_ex_data(ssl, 0), store);
    }
    return good;
}

static int trust(struct snib__tls *t, const struct snib__tls_options *options, snib_error *err)
{
    const struct snib__openssl *o = t->openssl;
    if (options->insecure) {
        o->SSL_CTX_set_verify(t->context, SSL_VERIFY_NONE, NULL);
        return 0;
    }
    X509_VERIFY_PARAM *param = o->SSL_CTX_get0_param(t->context);
    o->X509_VERIFY_PARAM_set_flags(param, X509_V_FLAG_PARTIAL_CHAIN);
    o->X509_VERIFY_PARAM_set_hostflags(param, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
    o->SSL_CTX_set_verify(t->context, SSL_VERIFY_PEER, on_verify);
    if (options->ca) {
        return trust_file(t, options->ca, err);
    }
    if (o->SSL_CTX_set_default_verify_paths(t->context) != 1) {
        return snib__fail(err, SNIB_EINVAL, 0,
                          "the system's certificates cannot be read (%s): give ca=FILE",
                          openssl_says(o));
    }
    return 0;
}

/* ---- A certificate of our own ----------------------------------------------------------- */

static int open_key(const char *path, size_t *size, int *out, snib_error *err)
{
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0 || fstat(fd, &st) < 0) {
        int rc = cannot_read("key", path, err);
        if (fd >= 0) {
            close(fd);
        }
        return rc;
    }
    int rc = 0;
    if (!S_ISREG(st.st_mode) || st.st_size > KEY_MOST) {
        rc = snib__fail(err, SNIB_EINVAL, 0, "key=%.200s is not a file with a key", path);
    } else if (st.st_mode & S_IRWXO) {
        rc = snib__fail(err, SNIB_EINVAL, 0,
                        "key=%.200s can be read or changed by every user of this host (mode %03o): "
                        "chmod o= that file, and think about a new key",
                        path, (unsigned)(st.st_mode & 0777));
    }
    if (rc != 0) {
        close(fd);
        return rc;
    }
    *size = (size_t)st.st_size;
    *out = fd;
    return 0;
}

/* OpenSSL wants a passphrase: there is none, and nobody to ask. */
static int on_passphrase(char *bytes, int room, int writing, void *asked)
{
    (void)bytes;
    (void)room;
    (void)writing;
    if (asked) {
        *(bool *)asked = true;
    }
    return -1;
}

static int use_key(struct snib__tls *t, const char *path, char *bytes, size_t size, snib_error *err)
{
    const struct snib__openssl *o = t->openssl;
    bool locked = false;
    BIO *bio = o->BIO_new_mem_buf(bytes, (int)size);
    EVP_PKEY *key = bio ? o->PEM_read_bio_PrivateKey(bio, NULL, on_passphrase, &locked) : NULL;
    int rc = 0;
    if (locked) {
        rc = snib__fail(err, SNIB_EINVAL, 0,
                        "key=%.200s has a passphrase: give a key without one (openssl pkey), "
                        "readable by nobody else",
                        path);
    } else if (!key) {
        rc = snib__fail(err, SNIB_EINVAL, 0, "key=%.200s: no private key in PEM form", path);
    } else if (o->SSL_CTX_use_PrivateKey(t->context, key) != 1 ||
               o->SSL_CTX_check_private_key(t->context) != 1) {
        rc = snib__fail(err, SNIB_EINVAL, 0,
                        "key=%.200s does not belong to the certificate in cert= (%s)", path,
                        openssl_says(o));
    }
    o->EVP_PKEY_free(key);
    o->BIO_free(bio);
    return rc;
}

static int load_key(struct snib__tls *t, const char *path, snib_error *err)
{
    size_t size = 0, used = 0;
    int fd = -1;
    int rc = open_key(path, &size, &fd, err);
    if (rc != 0) {
        return rc;
    }
    char *bytes = malloc(size + 1);
    if (!bytes) {
        close(fd);
        return snib__fail(err, SNIB_ENOMEM, 0, "out of memory for key=");
    }
    ssize_t got = 1;
    while (used < size && (got = read(fd, bytes + used, size - used)) > 0) {
        used += (size_t)got;
    }
    rc = got < 0 ? cannot_read("key", path, err) : use_key(t, path, bytes, used, err);
    explicit_bzero(bytes, size + 1);
    free(bytes);
    close(fd);
    return rc;
}

/* Of a file that cannot be read, whoever reads it says why. */
static bool has_key(const char *path)
{
    char line[128], bytes[BUFSIZ];
    FILE *file = fopen(path, "re");
    if (!file || setvbuf(file, bytes, _IOFBF, sizeof bytes) != 0) {
        return true;
    }
    bool found = false;
    while (!found && fgets(line, sizeof line, file)) {
        found = strncmp(line, "-----BEGIN", 10) == 0 && strstr(line, "PRIVATE KEY-----");
    }
    found = found || ferror(file);
    fclose(file);
    explicit_bzero(line, sizeof line);
    explicit_bzero(bytes, sizeof bytes);
    return found;
}

static int identify(struct snib__tls *t, const struct snib__tls_options *options, snib_error *err)
{
    const struct snib__openssl *o = t->openssl;
    if (!options->cert) {
        return options->key ? snib__fail(err, SNIB_EINVAL, 0,
                                         "key= without a certificate: give cert=FILE, too")
                            : 0;
    }
    if (access(options->cert, R_OK) < 0) {
        return cannot_read("cert", options->cert, err);
    }
    if (o->SSL_CTX_use_certificate_chain_file(t->context, options->cert) != 1) {
        return snib__fail(err, SNIB_EINVAL, 0, "cert=%.200s: no certificate in PEM form (%s)",
                          options->cert, openssl_says(o));
    }
    t->has_cert = true;
    if (!options->key && !has_key(options->cert)) {
        return snib__fail(err, SNIB_EINVAL, 0,
                          "cert=%.200s has no private key in it: give key=FILE, too",
                          options->cert);
    }
    return load_key(t, options->key ? options->key : options->cert, err);
}

/* The server asks for a certificate, and there is none that fits. */
static int on_cert_wanted(SSL *ssl, X509 **cert, EVP_PKEY **key)
{
    (void)cert;
    (void)key;
    struct snib__stream *s = snib__openssl()->SSL_get_ex_data(ssl, 0);
    s->cert_wanted = true;
    return 0;
}

/* ---- The context ------------------------------------------------------------------------ */

static int prefer_protocol(struct snib__tls *t, const char *alpn, snib_error *err)
{
    unsigned char list[1 + sizeof t->alpn];
    size_t size = strlen(alpn);
    if (size == 0 || size >= sizeof t->alpn) {
        return snib__fail(err, SNIB_EINVAL, 0, "\"%.40s\" is no name of a protocol", alpn);
    }
    list[0] = (unsigned char)size;
    memcpy(list + 1, alpn, size);
    memcpy(t->alpn, alpn, size + 1);
    return t->openssl->SSL_CTX_set_alpn_protos(t->context, list, (unsigned)size + 1) == 0
               ? 0
               : snib__fail(err, SNIB_ENOMEM, 0, "out of memory for TLS");
}

static int fill(struct snib__tls *t, const struct snib__tls_options *options, snib_error *err)
{
    const struct snib__openssl *o = t->openssl;
    t->context = o->SSL_CTX_new(o->TLS_client_method());
    t->socket = snib__tls_socket_new(o);
    if (!t->context || !t->socket) {
        return snib__fail(err, SNIB_ESYS, 0,
                          "OpenSSL does not start (%s): is its configuration in order?",
                          openssl_says(o));
    }
    o->SSL_CTX_ctrl(t->context, SSL_CTRL_SET_MIN_PROTO_VERSION, TLS1_2_VERSION, NULL);
    o->SSL_CTX_ctrl(t->context, SSL_CTRL_MODE,
                    SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                        SSL_MODE_RELEASE_BUFFERS,
                    NULL);
    o->SSL_CTX_set_options(t->context, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION |
                                           SSL_OP_CLEANSE_PLAINTEXT);
    o->SSL_CTX_set_default_passwd_cb(t->context, on_passphrase);
    o->SSL_CTX_set_client_cert_cb(t->context, on_cert_wanted);
    int rc = trust(t, options, err);
    if (rc == 0) {
        rc = identify(t, options, err);
    }
    if (rc == 0 && options->alpn) {
        rc = prefer_protocol(t, options->alpn, err);
    }
    return rc;
}

int snib__tls_open(struct snib__tls **out, const struct snib__tls_options *options, snib_error *err)
{
    *out = NULL;
    int rc = snib__openssl_load(err);
    if (rc != 0) {
        return rc;
    }
    struct snib__tls *t = calloc(1, sizeof *t);
    if (!t) {
        return snib__fail(err, SNIB_ENOMEM, 0, "out of memory for TLS");
    }
    t->openssl = snib__openssl();
    t->openssl->ERR_clear_error();
    rc = fill(t, options, err);
    t->openssl->ERR_clear_error();
    if (rc != 0) {
        snib__tls_close(t);
        return rc;
    }
    *out = t;
    return 0;
}

void snib__tls_close(struct snib__tls *t)
{
    if (t) {
        t->openssl->SSL_CTX_free(t->context);
        t->openssl->BIO_meth_free(t->socket);
        free(t);
    }
}

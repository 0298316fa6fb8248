/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_NET_TLS_INTERNAL_H
#define SNIB_NET_TLS_INTERNAL_H

/* What the files behind net/tls.h and net/stream.h share. */

#include "net/stream.h"
#include "net/tls.h"
#include "net/tls_library.h"

#include <sys/types.h>

struct snib__tls {
    const struct snib__openssl *openssl;
    SSL_CTX *context;
    BIO_METHOD *socket; /* how OpenSSL reaches the descriptor */
    bool has_cert;
    char alpn[16]; /* "" if none */
};

struct snib__stream {
    int fd;
    pid_t pid;             /* who opened it */
    struct snib__tls *tls; /* NULL: plain */
    SSL *ssl;              /* likewise */
    bool started;
    bool failed;
    bool starved; /* reading, or the handshake, waits for room to write */

    /* For the reason of a failure. */
    bool heard;       /* something came from the other side */
    bool foreign;     /* and its first byte was not TLS */
    bool ended;       /* the other side closed its half */
    bool cert_wanted; /* it asked for a certificate, and we had none */
    bool got_data;
    int sys;
    char why[256];
    char host[];
};

/* tls_stream.c: a stream with TLS. The BIO that joins it to its descriptor is made once per
 * context. */
BIO_METHOD *snib__tls_socket_new(const struct snib__openssl *);
bool snib__tls_attach(struct snib__stream *);
enum snib__streamed snib__tls_start(struct snib__stream *);
enum snib__streamed snib__tls_read(struct snib__stream *, void *bytes, size_t room, size_t *got);
enum snib__streamed snib__tls_write(struct snib__stream *, const void *bytes, size_t size,
                                    size_t *put);
enum snib__streamed snib__tls_finish(struct snib__stream *);

/* tls_reason.c: why it failed, in words. A first reason stays. */
void snib__stream_explain(struct snib__stream *, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void snib__tls_explain_cert(struct snib__stream *, X509_STORE_CTX *);
void snib__tls_explain(struct snib__stream *);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A connection with TLS, over a descriptor that never blocks.
 *
 * OpenSSL reaches the descriptor by a BIO of ours, for three reasons: its own calls write(2), which
 * raises SIGPIPE in a program that has not asked for it; the first byte that comes tells a server
 * that speaks no TLS from one that does, before its text is taken for a broken record; and errno is
 * noted where it arises. Two memory BIOs would do that too, but then somebody must carry the bytes
 * between them and the socket, and what lies there is neither sent nor refused.
 *
 * The handshake, reading and writing may each want the other direction: TLS 1.3 changes keys in
 * the middle. `starved` remembers that reading waits for room to write.
 *
 * A TLS 1.2 server that asks for a renegotiation is refused with the alert for it; whether the
 * connection goes on is then the server's choice.
 */
#include "net/tls_internal.h"

#include <arpa/inet.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

/* ---- The way to the descriptor ---------------------------------------------------------- */

#define RECORD_ALERT 0x15
#define RECORD_HANDSHAKE 0x16

static void blocked(BIO *bio, int direction, bool is)
{
    const struct snib__openssl *o = snib__openssl();
    o->BIO_clear_flags(bio, BIO_FLAGS_RWS | BIO_FLAGS_SHOULD_RETRY);
    if (is) {
        o->BIO_set_flags(bio, direction | BIO_FLAGS_SHOULD_RETRY);
    }
}

static int on_read(BIO *bio, char *bytes, int room)
{
    struct snib__stream *s = snib__openssl()->BIO_get_data(bio);
    ssize_t n = recv(s->fd, bytes, (size_t)room, 0);
    blocked(bio, BIO_FLAGS_READ, n < 0 && (errno == EAGAIN || errno == EINTR));
    if (n < 0 && errno != EAGAIN && errno != EINTR) {
        s->sys = errno;
    }
    s->ended = n == 0;
    if (n > 0 && !s->heard) {
        s->heard = true;
        s->foreign = bytes[0] != RECORD_HANDSHAKE && bytes[0] != RECORD_ALERT;
    }
    return s->foreign ? -1 : (int)n;
}

static int on_write(BIO *bio, const char *bytes, int size)
{
    struct snib__stream *s = snib__openssl()->BIO_get_data(bio);
    ssize_t n = send(s->fd, bytes, (size_t)size, MSG_NOSIGNAL);
    blocked(bio, BIO_FLAGS_WRITE, n < 0 && (errno == EAGAIN || errno == EINTR));
    if (n < 0 && errno != EAGAIN && errno != EINTR) {
        s->sys = errno;
    }
    return (int)n;
}

static long on_control(BIO *bio, int what, long number, void *pointer)
{
    (void)number;
    (void)pointer;
    if (what == BIO_CTRL_EOF) {
        struct snib__stream *s = snib__openssl()->BIO_get_data(bio);
        return s->ended;
    }
    return what == BIO_CTRL_FLUSH; /* there is nothing to flush; all else is not known here */
}

BIO_METHOD *snib__tls_socket_new(const struct snib__openssl *o)
{
    BIO_METHOD *m = o->BIO_meth_new(BIO_TYPE_SOURCE_SINK, "snib");
    if (m) {
        o->BIO_meth_set_read(m, on_read);
        o->BIO_meth_set_write(m, on_write);
        o->BIO_meth_set_ctrl(m, on_control);
    }
    return m;
}

/* ---- Beginning -------------------------------------------------------------------------- */

/* The certificate must be for this name, and a server with several is told which is meant. An
 * address is looked for among the addresses of the certificate, and not told: TLS has no word for
 * it. What is written behind a name (a dot) or an address (an interface) is not part of it. */
static bool expect(struct snib__stream *s)
{
    const struct snib__openssl *o = s->tls->openssl;
    X509_VERIFY_PARAM *param = o->SSL_get0_param(s->ssl);
    unsigned char address[16];
    char host[256];
    int size = snprintf(host, sizeof host, "%s", s->host);
    if (size < 0 || (size_t)size >= sizeof host) {
        return false;
    }
    char *interface = strchr(host, '%');
    if (strchr(host, ':') && interface) {
        *interface = '\0';
    }
    if (inet_pton(AF_INET, host, address) == 1 || inet_pton(AF_INET6, host, address) == 1) {
        return o->X509_VERIFY_PARAM_set1_ip_asc(param, host) == 1;
    }
    if (size > 1 && host[size - 1] == '.') {
        host[size - 1] = '\0';
    }
    return o->X509_VERIFY_PARAM_set1_host(param, host, 0) == 1 &&
           o->SSL_ctrl(s->ssl, SSL_CTRL_SET_TLSEXT_HOSTNAME, TLSEXT_NAMETYPE_host_name, host) == 1;
}

bool snib__tls_attach(struct snib__stream *s)
{
    const struct snib__openssl *o = s->tls->openssl;
    s->ssl = o->SSL_new(s->tls->context);
    BIO *bio = s->ssl ? o->BIO_new(s->tls->socket) : NULL;
    if (!bio) {
        o->SSL_free(s->ssl);
        o->ERR_clear_error();
        return false;
    }
    o->BIO_set_data(bio, s);
    o->BIO_set_init(bio, 1);
    o->SSL_set_bio(s->ssl, bio, bio);
    o->SSL_set_ex_data(s->ssl, 0, s);
    o->SSL_set_connect_state(s->ssl);
    if (!expect(s)) {
        s->failed = true;
        snib__stream_explain(s, "\"%.100s\" is no name that a certificate can be for", s->host);
    }
    o->ERR_clear_error();
    return true;
}

/* ---- Steps ------------------------------------------------------------------------------ */

/* What an answer of OpenSSL means; its errors are taken off the thread's queue. */
static enum snib__streamed outcome(struct snib__stream *s, int rc)
{
    const struct snib__openssl *o = s->tls->openssl;
    enum snib__streamed now = SNIB__STREAM_FAILED;
    switch (o->SSL_get_error(s->ssl, rc)) {
    case SSL_ERROR_NONE:
        now = SNIB__STREAM_DONE;
        break;
    case SSL_ERROR_WANT_READ:
        now = SNIB__STREAM_WANTS_READ;
        break;
    case SSL_ERROR_WANT_WRITE:
        now = SNIB__STREAM_WANTS_WRITE;
        break;
    case SSL_ERROR_ZERO_RETURN:
        now = SNIB__STREAM_END;
        break;
    default:
        s->failed = true;
        snib__tls_explain(s);
        break;
    }
    o->ERR_clear_error();
    return now;
}

static int at_most_int(size_t size)
{
    return size > INT_MAX ? INT_MAX : (int)size;
}

enum snib__streamed snib__tls_start(struct snib__stream *s)
{
    const struct snib__openssl *o = s->tls->openssl;
    o->ERR_clear_error();
    enum snib__streamed now = outcome(s, o->SSL_do_handshake(s->ssl));
    s->starved = now == SNIB__STREAM_WANTS_WRITE;
    if (now == SNIB__STREAM_DONE && s->tls->alpn[0]) {
        const unsigned char *chosen;
        unsigned size;
        o->SSL_get0_alpn_selected(s->ssl, &chosen, &size);
        if (size != strlen(s->tls->alpn) || memcmp(chosen, s->tls->alpn, size) != 0) {
            s->failed = true;
            snib__stream_explain(s, "%.100s does not offer %s over TLS", s->host, s->tls->alpn);
            return SNIB__STREAM_FAILED;
        }
    }
    return now;
}

enum snib__streamed snib__tls_read(struct snib__stream *s, void *bytes, size_t room, size_t *got)
{
    const struct snib__openssl *o = s->tls->openssl;
    o->ERR_clear_error();
    int rc = o->SSL_read(s->ssl, bytes, at_most_int(room));
    if (rc > 0) {
        *got = (size_t)rc;
        s->got_data = true;
    }
    enum snib__streamed now = outcome(s, rc);
    s->starved = now == SNIB__STREAM_WANTS_WRITE;
    return now;
}

enum snib__streamed snib__tls_write(struct snib__stream *s, const void *bytes, size_t size,
                                    size_t *put)
{
    const struct snib__openssl *o = s->tls->openssl;
    o->ERR_clear_error();
    int rc = o->SSL_write(s->ssl, bytes, at_most_int(size));
    if (rc > 0) {
        *put = (size_t)rc;
    }
    return outcome(s, rc);
}

enum snib__streamed snib__tls_finish(struct snib__stream *s)
{
    const struct snib__openssl *o = s->tls->openssl;
    if (!s->started) {
        return SNIB__STREAM_DONE; /* nothing was said that would need an end */
    }
    o->ERR_clear_error();
    int rc = o->SSL_shutdown(s->ssl);
    if (rc >= 0) { /* sent; 1: the other side's had come already */
        o->ERR_clear_error();
        return SNIB__STREAM_DONE;
    }
    return outcome(s, rc);
}

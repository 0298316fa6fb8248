/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bytes of a connection: what a stream is whether it is encrypted or not, and all of the one
 * that is not. tls_stream.c has the other.
 *
 * A stream that failed stays so, and one in a forked child has: the state of the encryption belongs
 * to the parent, and one byte sent from here would ruin it there.
 */
#include "net/stream.h"

#include "base/process.h"
#include "net/tls_internal.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

struct snib__stream *snib__stream_open(int fd, struct snib__tls *tls, const char *host)
{
    size_t size = strlen(host) + 1;
    struct snib__stream *s = calloc(1, sizeof *s + size);
    if (!s) {
        return NULL;
    }
    s->fd = fd;
    s->tls = tls;
    s->pid = snib__pid();
    memcpy(s->host, host, size);
    if (tls && !snib__tls_attach(s)) {
        free(s);
        return NULL;
    }
    return s;
}

/* May this stream be used at all? */
static bool usable(struct snib__stream *s)
{
    if (!s->failed && s->pid != snib__pid()) {
        s->failed = true;
        snib__stream_explain(s, "the connection belongs to the process that forked this one");
    }
    return !s->failed;
}

enum snib__streamed snib__stream_start(struct snib__stream *s)
{
    if (!usable(s)) {
        return SNIB__STREAM_FAILED;
    }
    if (s->started) {
        return SNIB__STREAM_DONE;
    }
    enum snib__streamed now = s->tls ? snib__tls_start(s) : SNIB__STREAM_DONE;
    s->started = now == SNIB__STREAM_DONE;
    return now;
}

/* ---- Without encryption ----------------------------------------------------------------- */

static enum snib__streamed plain_failed(struct snib__stream *s, enum snib__streamed wanted)
{
    if (errno == EAGAIN || errno == EINTR) {
        return wanted;
    }
    s->failed = true;
    s->sys = errno;
    snib__stream_explain(s, "the connection to %.100s broke: %s", s->host, strerrordesc_np(s->sys));
    return SNIB__STREAM_FAILED;
}

static enum snib__streamed plain_read(struct snib__stream *s, void *bytes, size_t room, size_t *got)
{
    ssize_t n = recv(s->fd, bytes, room, 0);
    if (n < 0) {
        return plain_failed(s, SNIB__STREAM_WANTS_READ);
    }
    *got = (size_t)n;
    return n > 0 ? SNIB__STREAM_DONE : SNIB__STREAM_END;
}

static enum snib__streamed plain_write(struct snib__stream *s, const void *bytes, size_t size,
                                       size_t *put)
{
    ssize_t n = send(s->fd, bytes, size, MSG_NOSIGNAL);
    if (n < 0) {
        return plain_failed(s, SNIB__STREAM_WANTS_WRITE);
    }
    *put = (size_t)n;
    return SNIB__STREAM_DONE;
}

/* ---- Both ------------------------------------------------------------------------------- */

enum snib__streamed snib__stream_read(struct snib__stream *s, void *bytes, size_t room, size_t *got)
{
    *got = 0;
    if (!usable(s)) {
        return SNIB__STREAM_FAILED;
    }
    return s->tls ? snib__tls_read(s, bytes, room, got) : plain_read(s, bytes, room, got);
}

enum snib__streamed snib__stream_write(struct snib__stream *s, const void *bytes, size_t size,
                                       size_t *put)
{
    *put = 0;
    if (!usable(s)) {
        return SNIB__STREAM_FAILED;
    }
    return s->tls ? snib__tls_write(s, bytes, size, put) : plain_write(s, bytes, size, put);
}

size_t snib__stream_pending(const struct snib__stream *s)
{
    return s->tls && !s->failed ? (size_t)s->tls->openssl->SSL_pending(s->ssl) : 0;
}

enum snib__streamed snib__stream_finish(struct snib__stream *s)
{
    if (!usable(s)) {
        return SNIB__STREAM_FAILED;
    }
    if (s->tls) {
        return snib__tls_finish(s);
    }
    return shutdown(s->fd, SHUT_WR) == 0 ? SNIB__STREAM_DONE
                                         : plain_failed(s, SNIB__STREAM_WANTS_WRITE);
}

short snib__stream_events(const struct snib__stream *s, bool to_write)
{
    if (s->tls && !s->started) {
        return s->starved ? POLLOUT : POLLIN;
    }
    return to_write || s->starved ? POLLIN | POLLOUT : POLLIN;
}

const char *snib__stream_why(const struct snib__stream *s)
{
    return s->why;
}

int snib__stream_sys(const struct snib__stream *s)
{
    return s->sys;
}

void snib__stream_close(struct snib__stream *s)
{
    if (s) {
        if (s->ssl) {
            s->tls->openssl->SSL_free(s->ssl);
        }
        free(s);
    }
}

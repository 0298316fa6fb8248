/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_NET_STREAM_H
#define SNIB_NET_STREAM_H

/*
 * The bytes of a connection, encrypted or not, without blocking and without SIGPIPE. How to use it
 * with net/dial.h: see net/tls.h.
 *
 * Calls are made by one thread at a time, and by the process that opened the stream: in a forked
 * child they fail and send nothing, and only closing makes sense.
 */

#include <stdbool.h>
#include <stddef.h>

#pragma GCC visibility push(default)

struct snib__tls;
struct snib__stream;

enum snib__streamed {
    SNIB__STREAM_DONE,
    SNIB__STREAM_WANTS_READ, /* nothing was done: again when the descriptor is readable */
    SNIB__STREAM_WANTS_WRITE,
    SNIB__STREAM_END,   /* the other side said that no more comes */
    SNIB__STREAM_FAILED /* for good: snib__stream_why */
};

/* Over a connected, non-blocking socket, which stays the caller's. `host` is what was dialled: the
 * name or address that the certificate must be for; "localhost" for a Unix socket. `tls` NULL: no
 * encryption; else it must outlive the stream. NULL: out of memory. */
struct snib__stream *snib__stream_open(int fd, struct snib__tls *tls, const char *host);

/* The handshake, step by step: DONE at once where there is none. With TLS 1.3 a server that
 * refuses our certificate says so only after it: the first read then FAILS. */
enum snib__streamed snib__stream_start(struct snib__stream *);

/* DONE: `*got` bytes, at least one. Read until it WANTS_READ before polling again: decrypted bytes
 * may be waiting that no poll shows. A connection that ends without the closing message of TLS was
 * cut off by somebody: FAILED, not END. */
enum snib__streamed snib__stream_read(struct snib__stream *, void *bytes, size_t room, size_t *got);

/* DONE: the first `*put` bytes are on their way, at least one. After WANTS_READ or WANTS_WRITE the
 * same bytes are to be offered again, wherever they lie then; more may have been appended. */
enum snib__streamed snib__stream_write(struct snib__stream *, const void *bytes, size_t size,
                                       size_t *put);

/* Bytes that a read will give without the descriptor being readable. */
size_t snib__stream_pending(const struct snib__stream *);

/* Tell the other side that no more comes from here. DONE: told. Reading goes on to work. */
enum snib__streamed snib__stream_finish(struct snib__stream *);

/* What to poll the descriptor for; `to_write`: the caller has bytes for it. */
short snib__stream_events(const struct snib__stream *, bool to_write);

/* After FAILED: a sentence about the cause, and the remedy if one is known, fit for a terminal;
 * and the errno behind it, or 0. */
const char *snib__stream_why(const struct snib__stream *);
int snib__stream_sys(const struct snib__stream *);

/* In any state, in a forked child too; NULL is fine. Sends nothing, wipes keys. */
void snib__stream_close(struct snib__stream *);

#pragma GCC visibility pop

#endif

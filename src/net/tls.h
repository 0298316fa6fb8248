/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_NET_TLS_H
#define SNIB_NET_TLS_H

/*
 * TLS: whom a client trusts, and what it shows of itself. One per session, made in the engine's
 * open; the connections themselves are streams (net/stream.h).
 *
 *     open:      snib__tls_open(&s->tls, &options, err)       reads the files, loads libssl
 *     connect:   snib__dial_tcp(&s->dial, host, port, ...)
 *     drive:     snib__dial_step(&s->dial, &fd)               until DONE
 *                s->stream = snib__stream_open(fd, s->tls, host)
 *                snib__stream_start(s->stream)                until DONE: the handshake
 *                snib__stream_read, snib__stream_write        as long as it lasts
 *     sleep:     a pollfd of fd and snib__stream_events(s->stream, there is something to write),
 *                with the engine's own deadline: a mute peer is the caller's to give up on
 *     leave:     snib__stream_close(s->stream); close(fd)
 *     close:     snib__tls_close(s->tls)                      after its streams
 *
 * Without TLS all this is the same with NULL in place of s->tls.
 *
 * TLS 1.2 and 1.3. Chain and host name (or address) are verified, unless `insecure`. The library
 * is OpenSSL, found at run time on the first call here: whoever uses no TLS does not load it.
 */

#include "snib.h"

#include <stdbool.h>

#pragma GCC visibility push(default)

struct snib__tls;

/* Paths of PEM files, and borrowed. Zeroed: the system's authorities, no certificate of our own. */
struct snib__tls_options {
    const char *ca;   /* authorities to trust, and no others: a file, or a folder with hashes */
    const char *cert; /* shown to servers that ask, with the chain behind it */
    const char *key;  /* of `cert`, without a passphrase; NULL: it is in the same file */
    const char *alpn; /* the one protocol to ask for, such as "h2"; NULL: do not ask */
    bool insecure;    /* accept whatever certificate the server has */
};

/* 0, or a code with a message that names the parameter (ca=, cert=, key=) and the remedy. Reads
 * files, so it is for open and not for drive. */
int snib__tls_open(struct snib__tls **out, const struct snib__tls_options *, snib_error *);

/* NULL is fine. In a forked child too: sends nothing. */
void snib__tls_close(struct snib__tls *);

#pragma GCC visibility pop

#endif

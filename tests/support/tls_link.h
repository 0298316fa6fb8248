/*
 * A connection of src/net/ to a server of tests/support/tls_peer/, as an engine would use it: a
 * non-blocking socket, poll, and a deadline of its own.
 */
#ifndef SNIB_TESTS_TLS_LINK_H
#define SNIB_TESTS_TLS_LINK_H

#include "net/stream.h"
#include "net/tls.h"
#include "server.h"

/* The path of one of the files that tls_peer makes, such as "good.pem"; made when first asked. */
const char *tls_file(const char *name);

/* A server with this certificate; `options` are words for tls_peer, ended by NULL, or NULL. */
void tls_serve(struct server *server, const char *cert, const char *const options[]);

/* Waits until the server has written this. */
void tls_await_log(const struct server *server, const char *text);

/* The context that trusts the tests' authority; or another, which must open. */
struct snib__tls *tls_context(void);
struct snib__tls *tls_context_of(const struct snib__tls_options *options);

struct tls_link {
    int fd;
    struct snib__stream *stream;
};

/* To 127.0.0.1:port, in the belief that it is `host`; not started. */
struct tls_link tls_dial(int port, struct snib__tls *tls, const char *host);
void tls_hang_up(struct tls_link *link);

/* Steps until DONE, FAILED, END, or the time is over, which answers what it still wants. */
enum snib__streamed tls_start(struct tls_link *link, int timeout_ms);

/* Dials, starts, and insists on success. */
struct tls_link tls_join(int port, struct snib__tls *tls, const char *host);

/* Dials and starts; answers why that failed, with everything freed. Fails the case if it did not
 * within the time. Valid until the next call. */
const char *tls_refusal(int port, struct snib__tls *tls, const char *host);

void tls_say(struct tls_link *link, const char *text);
void tls_hear(struct tls_link *link, const char *text);

/* Reads until something else than data comes. */
enum snib__streamed tls_drain(struct tls_link *link, int timeout_ms);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An engine module over a socket, for the tests: locks of tests/support/lock_server.h.
 *
 *     tcp://HOST:PORT?poll=50ms&ca=FILE
 *
 * It is what a newcomer would write: one connection per session, requests in a list, replies in
 * order, everything from base/, net/ and engine.h. The host is resolved by snib__work_begin, as if
 * it took a library that blocks, and the examination is ended by snib__rouse.
 *
 * Safety
 * ------
 * Exclusion is the server's: one process, one table, leases by its own clock, tokens that grow over
 * all names. It holds as long as that process lives; a server that is started again has forgotten
 * holders and tokens, so nothing is promised over that. The lease is counted from before the
 * request was sent. A request without an answer within the time-out ends the connection, and
 * everything on it is UNKNOWN; attempts may be repeated, because the server knows their owner. A
 * release without an answer is repeated until it has one or the lease must be over; the server
 * gives nothing to an owner that gave back, so an attempt of it that comes late does no harm.
 */
#include "tcp.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const struct snib__param params[] = {
    [TCP_POLL] = {.name = "poll",
                  .type = SNIB__DURATION,
                  .normal = "50ms",
                  .min = 1,
                  .max = 60000,
                  .help = "how often to ask for a lock that is held"},
    [TCP_CA] = {.name = "ca",
                .type = SNIB__TEXT,
                .min = 1,
                .max = 4096,
                .help = "TLS, with a server that this authority knows"},
    {.name = NULL},
};

/* ---- Submitting ------------------------------------------------------------------------- */

static const struct snib__result no_memory = {.status = SNIB__UNKNOWN, .reason = "out of memory"};

static void attempt(struct snib__claim *claim)
{
    struct tcp *t = tcp_of(claim->session);
    struct hex name, owner, who, label;
    if (!tcp_submit(t, ATTEMPT, claim, NULL, "TAKE %s %s %" PRId64 " %s %s",
                    tcp_text_to_hex(&name, claim->name),
                    tcp_hex(&owner, claim->owner, sizeof claim->owner), claim->ttl_ms,
                    tcp_text_to_hex(&who, t->session->who),
                    tcp_text_to_hex(&label, claim->label))) {
        snib__answer(claim, SNIB__ATTEMPT, &no_memory);
    }
}

static void renew(struct snib__claim *const claims[], size_t n)
{
    for (size_t i = 0; i < n; i++) {
        struct hex name, owner;
        if (!tcp_submit(tcp_of(claims[i]->session), RENEW, claims[i], NULL, "RENEW %s %s %" PRId64,
                        tcp_text_to_hex(&name, claims[i]->name),
                        tcp_hex(&owner, claims[i]->owner, sizeof claims[i]->owner),
                        claims[i]->ttl_ms)) {
            snib__answer(claims[i], SNIB__RENEW, &no_memory);
        }
    }
}

/* Nothing else is said about this claim but the end of its release. */
static void forget(struct tcp *t, const struct snib__claim *claim)
{
    struct snib__list *next;
    for (struct snib__list *l = t->requests.after; l != &t->requests; l = next) {
        struct request *r = SNIB__OF(l, struct request, place);
        next = l->after;
        if (r->claim == claim) {
            r->kind = FORGOTTEN;
            r->claim = NULL;
            if (!r->sent) {
                tcp_drop(r);
            }
        }
    }
}

static void release(struct snib__claim *claim)
{
    struct tcp *t = tcp_of(claim->session);
    const struct tcp_claim *own = claim->state;
    struct hex name, owner;
    forget(t, claim);
    if (!own->sent && !claim->adopted) {
        snib__answer(claim, SNIB__RELEASE, &(struct snib__result){.status = SNIB__FREED});
    } else if (!tcp_submit(t, RELEASE, claim, NULL, "GIVE %s %s",
                           tcp_text_to_hex(&name, claim->name),
                           tcp_hex(&owner, claim->owner, sizeof claim->owner))) {
        snib__answer(claim, SNIB__RELEASE, &no_memory);
    }
}

static void ask(struct snib__query *query, enum kind kind, const char *verb, const char *rest)
{
    struct hex name;
    if (!tcp_submit(tcp_of(query->session), kind, NULL, query, "%s%s%s%s", verb,
                    *verb == 'H' ? "" : " ",
                    *verb == 'H' ? "" : tcp_text_to_hex(&name, query->name), rest)) {
        snib__finish(query, SNIB_ENOMEM, 0, "out of memory");
    }
}

static void inspect(struct snib__query *query)
{
    ask(query, INSPECT, "LIST", query->prefix ? " *" : "");
}

static void evict(struct snib__query *query)
{
    char token[24];
    snprintf(token, sizeof token, " %" PRIu64, query->token);
    ask(query, EVICT, "EVICT", token);
}

static void examine(struct snib__query *query)
{
    ask(query, EXAMINE, "HELLO", "");
}

static void drive(struct snib__session *session, int64_t until_ns)
{
    struct tcp *t = tcp_of(session);
    do {
        tcp_step(t);
    } while (snib__now().boot_ns < until_ns && !tcp_rest(t, until_ns));
}

/* ---- Opening and closing ---------------------------------------------------------------- */

static int tcp_open(struct snib__session *session, snib_error *err)
{
    const struct snib__url *url = session->url;
    struct tcp *t = tcp_of(session);
    *t = (struct tcp){.session = session, .fd = -1, .dial = {.fd = -1}};
    snib__list_init(&t->requests);
    if (url->host_count != 1 || url->hosts[0].port == 0) {
        return snib__fail(err, SNIB_EINVAL, 0, "tcp: one host and its port: tcp://HOST:PORT");
    }
    if (url->user[0] || url->password[0] || (url->path[0] && strcmp(url->path, "/") != 0)) {
        return snib__fail(err, SNIB_EINVAL, 0, "tcp: a host and a port, and nothing else");
    }
    struct snib__tls_options options = {.ca = session->values[TCP_CA].text};
    return options.ca ? snib__tls_open(&t->tls, &options, err) : SNIB_OK;
}

static void tcp_close(struct snib__session *session)
{
    struct tcp *t = tcp_of(session);
    if (!t->session) {
        return;
    }
    tcp_part(t);
    while (!snib__list_empty(&t->requests)) {
        struct request *r = SNIB__OF(t->requests.after, struct request, place);
        if (r->work) {
            snib__work_end(r->work);
        }
        tcp_drop(r);
    }
    snib__tls_close(t->tls);
}

const struct snib__engine snib_engine_module = {
    .abi = SNIB__ENGINE_ABI,
    .scheme = "tcp",
    .aliases = "",
    .summary = "a lock server of the tests",
    .promise = "as long as the server lives",
    .traits = SNIB_TRAIT_LEASED | SNIB_TRAIT_TTL_PER_LOCK | SNIB_TRAIT_CROSS_HOST |
              SNIB_TRAIT_BREAKS | SNIB_TRAIT_LISTS,
    .session_size = sizeof(struct tcp),
    .claim_size = sizeof(struct tcp_claim),
    .query_size = 0,
    .params = params,
    .open = tcp_open,
    .close = tcp_close,
    .attempt = attempt,
    .renew = renew,
    .release = release,
    .drive = drive,
    .inspect = inspect,
    .evict = evict,
    .examine = examine,
};

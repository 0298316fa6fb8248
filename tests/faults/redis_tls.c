/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Redis with TLS, by the server's own port for it: whom to trust, and what is said when it cannot
 * be; a connection that is cut wherever it may be.
 */
#include "redis_world.h"
#include "tls_link.h"

/* A server with a port for TLS beside its own. `clients`: it asks for their certificate. */
static int start(struct server *server, const char *cert, bool clients)
{
    static int count;
    char name[24], port[12], file[256];
    snprintf(name, sizeof name, "secure%d", count++);
    server_init(server, name);
    snprintf(port, sizeof port, "%d", server->ports[1]);
    snprintf(file, sizeof file, "%s", tls_file(cert));
    server_redis_prepare(
        server, (const char *const[]){"--tls-port", port, "--tls-cert-file", file, "--tls-key-file",
                                      file, "--tls-ca-cert-file", tls_file("authority.crt"),
                                      "--tls-auth-clients", clients ? "yes" : "no", NULL});
    server_start(server);
    return server->ports[1];
}

static const char *secure(const char *host, int port, const char *more)
{
    static char urls[4][700];
    static int next;
    char *url = urls[next++ % 4];
    snprintf(url, sizeof urls[0], "rediss://%s:%d?quarantine=no&ca=%s%s", host, port,
             tls_file("authority.crt"), more);
    return url;
}

static void take_turns(const char *url)
{
    snib *one = client_of(url), *other = client_of(url);
    uint64_t before = 0;
    for (int i = 0; i < 20; i++) {
        snib_lease *lease = take(i % 2 ? one : other, "report", NULL);
        CHECK_UINT(snib_token(lease), >, before);
        before = snib_token(lease);
        CHECK_INT(snib_verify(lease, NULL), ==, SNIB_OK);
        give(&lease);
    }
    snib_close(other);
    snib_close(one);
}

/* Why a lock cannot be had there; in this time, and not at once or never. */
static const char *refusal(const char *url)
{
    static snib_error error;
    snib *client = client_of(url);
    snib_options options = waiting(0);
    snib_lease *lease = NULL;
    CHECK_INT(snib_acquire(&lease, client, "report", &options, &error), <, 0);
    snib_close(client);
    return error.message;
}

static void must_say(const char *message, const char *word)
{
    if (strstr(message, word) == NULL) {
        FAIL("'%s' does not say '%s'", message, word);
    }
}

TEST(locks_go_round_over_tls)
{
    static struct server server;
    int port = start(&server, "good.pem", false);
    take_turns(secure("127.0.0.1", port, ""));
    take_turns(secure("localhost", port, ""));
}

TEST(a_server_may_ask_for_a_certificate)
{
    static struct server server;
    char more[600];
    int port = start(&server, "good.pem", true);
    must_say(refusal(secure("127.0.0.1", port, "")), "certificate");
    snprintf(more, sizeof more, "&cert=%s", tls_file("client.pem"));
    take_turns(secure("127.0.0.1", port, more));
}

TEST(a_certificate_for_another_name_is_refused)
{
    static struct server server;
    int port = start(&server, "other.pem", false);
    must_say(refusal(secure("127.0.0.1", port, "")), "other.example");
}

TEST(an_expired_certificate_is_refused)
{
    static struct server server;
    int port = start(&server, "expired.pem", false);
    must_say(refusal(secure("127.0.0.1", port, "")), "expired");
}

TEST(an_unknown_authority_is_refused_unless_all_are_accepted)
{
    static struct server server;
    char url[600];
    int port = start(&server, "unknown.pem", false);
    must_say(refusal(secure("127.0.0.1", port, "")), "ca=");
    snprintf(url, sizeof url, "rediss://127.0.0.1:%d?quarantine=no&tls=insecure", port);
    take_turns(url);
}

static _Atomic bool warned;

static void note_warning(const snib_event *event, void *arg)
{
    (void)arg;
    if (event->why && strstr(event->why, "not verified")) {
        atomic_store(&warned, true);
    }
}

static bool has_warned(void *arg)
{
    (void)arg;
    return atomic_load(&warned);
}

TEST(that_nothing_is_verified_is_said)
{
    static struct server server;
    char url[600];
    int port = start(&server, "good.pem", false);
    snprintf(url, sizeof url, "rediss://127.0.0.1:%d?quarantine=no&tls=insecure", port);
    snib *client = client_of(url);
    snib_options options = SNIB_OPTIONS;
    options.on_event = note_warning;
    snib_lease *lease = take(client, "report", &options);
    CHECK(check_until(has_warned, NULL, PATIENCE_MS));
    give(&lease);
    snib_close(client);
}

TEST(a_port_with_tls_and_one_without_are_told_apart)
{
    static struct server server;
    int port = start(&server, "good.pem", false);
    snib_error error = {0};
    snib_lease *lease = NULL;
    snib_options options = waiting(0);
    must_say(refusal(secure("127.0.0.1", server.port, "&timeout=300ms")), "TLS");
    snib *client = client_of(url_of(port, ""));
    CHECK_INT(snib_acquire(&lease, client, "report", &options, &error), <, 0);
    must_say(error.message, "rediss:");
    snib_close(client);
}

/* Nobody waits there for a time that is over in any case: `connect=` is longer than the patience of
 * this test. */
static const char *refusal_of_a_wait(const char *url)
{
    static snib_error error;
    snib *client = client_of(url);
    snib_lease *lease = NULL;
    int64_t start = check_now_ns();
    CHECK_INT(snib_acquire(&lease, client, "report", NULL, &error), ==, SNIB_EUNREACH);
    CHECK_INT((check_now_ns() - start) / 1000000, <, PATIENCE_MS);
    snib_close(client);
    return error.message;
}

TEST(a_port_that_wants_tls_or_a_certificate_is_known_at_once)
{
    static struct server server;
    int port = start(&server, "good.pem", true);
    must_say(refusal_of_a_wait(url_of(port, "connect=10m")), "rediss:");
    must_say(refusal_of_a_wait(secure("127.0.0.1", port, "&connect=10m")), "certificate");
}

static int note_remedies(const snib_finding *finding, void *arg)
{
    char *all = arg;
    size_t used = strlen(all);
    if (finding->verdict != SNIB_GOOD) {
        snprintf(all + used, 1000 - used, "%s: %s; ", finding->about,
                 finding->remedy ? finding->remedy : "none");
    }
    return 0;
}

static const char *remedies(const char *url)
{
    static char all[1000];
    snib *client = client_of(url);
    all[0] = '\0';
    CHECK_INT(snib_examine(client, note_remedies, all, NULL), ==, SNIB_OK);
    snib_close(client);
    return all;
}

TEST(an_examination_says_what_helps)
{
    static struct server expired, asks;
    int port = start(&expired, "expired.pem", false);
    must_say(remedies(secure("127.0.0.1", port, "")), "a new certificate");
    must_say(remedies(secure("127.0.0.1", expired.port, "&timeout=300ms")), "redis: instead");
    must_say(remedies(url_of(port, "")), "rediss: instead");
    port = start(&asks, "good.pem", true);
    must_say(remedies(secure("127.0.0.1", port, "")), "cert=FILE");
}

/* With quarantine=no nobody needs CONFIG, and it is not missed. */
TEST(the_rights_that_are_printed_are_enough_for_an_examination)
{
    static struct server server;
    char line[SNIB_RIGHTS_SIZE], *gap;
    char url[128];
    server_redis(&server, NULL);
    snprintf(url, sizeof url, "redis://me:PASSWORD@127.0.0.1:%d?quarantine=no", server.port);
    snib *client = client_of(url);
    CHECK_INT(snib_rights(client, line, sizeof line, NULL), ==, SNIB_OK);
    snib_close(client);
    redisContext *c = redisConnect("127.0.0.1", server.port);
    redisReply *reply = redisCommand(c, line); /* NOLINT: it has no '%' */
    CHECK(reply != NULL && reply->type == REDIS_REPLY_STATUS);
    freeReplyObject(reply);
    redisFree(c);
    gap = strstr(remedies(url), "rights");
    CHECK(gap == NULL);
}

TEST(what_is_for_tls_is_refused_without)
{
    snib *client = NULL;
    snib_error error = {0};
    CHECK_INT(snib_open(&client, "redis://127.0.0.1?tls=insecure", &error), ==, SNIB_EINVAL);
    must_say(error.message, "rediss:");
    CHECK_INT(snib_open(&client, "rediss://127.0.0.1?ca=/nonexistent/ca.pem", &error), <, 0);
    must_say(error.message, "ca=");
}

/* The server gets another certificate while we are connected: what is held goes on; who connects
 * anew looks at the new one. */
TEST(a_certificate_replaced_while_connected)
{
    static struct server server;
    int port = start(&server, "good.pem", false);
    char file[256];
    snprintf(file, sizeof file, "%s", tls_file("expired.pem"));
    snib *client = client_of(secure("127.0.0.1", port, ""));
    snib_lease *lease = take(client, "report", NULL);
    redisContext *c = redisConnect("127.0.0.1", server.port);
    redisReply *reply = redisCommand(c, "CONFIG SET tls-cert-file %s tls-key-file %s", file, file);
    CHECK(reply != NULL && reply->type == REDIS_REPLY_STATUS);
    freeReplyObject(reply);
    CHECK_INT(snib_verify(lease, NULL), ==, SNIB_OK);
    must_say(refusal(secure("127.0.0.1", port, "")), "expired");
    reply = redisCommand(c, "CLIENT KILL TYPE normal SKIPME yes");
    CHECK(reply != NULL);
    freeReplyObject(reply);
    redisFree(c);
    snib_error error = {0};
    CHECK_INT(snib_verify(lease, &error), ==, SNIB_EUNKNOWN);
    (void)snib_release(&lease, NULL);
    snib_close(client);
}

/* Cut after so many bytes, in the handshake or later: an answer in time, and no two holders. */
TEST_LIMIT(a_cut_anywhere_ends_in_an_answer, 120)
{
    static struct server server;
    static struct proxy proxy;
    int port = start(&server, "good.pem", false);
    proxy_start(&proxy, port);
    for (unsigned bytes = 1; bytes < 6000; bytes = bytes * 3 / 2 + 1) {
        snib *client = client_of(secure("127.0.0.1", proxy.port, "&timeout=2s"));
        snib *other = client_of(secure("127.0.0.1", port, ""));
        snib_options options = waiting(0);
        snib_lease *lease = NULL, *second = NULL;
        proxy_after(&proxy, PROXY_TO_CLIENT, bytes, PROXY_BYTES, PROXY_THEN_RESET);
        int first = snib_acquire(&lease, client, "report", &options, NULL);
        int then = snib_acquire(&second, other, "report", &options, NULL);
        CHECK(first != SNIB_OK || then == SNIB_EBUSY);
        proxy_heal(&proxy);
        if (lease) {
            (void)snib_release(&lease, NULL);
        }
        snib_close(client); /* which gives back what it may have left */
        if (then != SNIB_OK) {
            second = take(other, "report", NULL);
        }
        give(&second);
        snib_close(other);
    }
}

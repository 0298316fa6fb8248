/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ZooKeeper with TLS: by the server's own port for it, and by somebody who stands before a server
 * without.
 */
#include "tls_link.h"
#include "zookeeper_world.h"

static const char *secure_url(int port, const char *ca)
{
    static char url[512];
    snprintf(url, sizeof url, "zookeepers://127.0.0.1:%d/snib?ca=%s", port, tls_file(ca));
    return url;
}

static void take_turns(const char *url)
{
    snib *one = client_of(url);
    snib *other = client_of(url);
    uint64_t before = 0;
    for (int i = 0; i < 20; i++) {
        snib_lease *lease = take(i % 2 ? one : other, "report");
        CHECK_UINT(snib_token(lease), >, before);
        before = snib_token(lease);
        CHECK_INT(count_at(one, "report"), ==, 1);
        CHECK_INT(snib_verify(lease, NULL), ==, SNIB_OK);
        give(&lease);
    }
    snib_close(other);
    snib_close(one);
}

TEST_LIMIT(the_servers_own_tls_port_is_spoken_to, 60)
{
    static struct server server;
    char extra[1024];
    server_init(&server, "secure");
    int port = server.ports[3];
    snprintf(extra, sizeof extra,
             "secureClientPort=%d\\nsecureClientPortAddress=127.0.0.1\\n"
             "serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory\\n"
             "ssl.keyStore.location=%s\\nssl.keyStore.type=PEM\\nssl.clientAuth=none\\n"
             "ssl.trustStore.location=%s\\nssl.trustStore.type=PEM\\n",
             port, tls_file("good.pem"), tls_file("authority.pem"));
    server_zookeeper_at(&server, extra);
    take_turns(secure_url(port, "authority.pem"));
}

TEST_LIMIT(tls_before_a_server_without_will_do, 60)
{
    static struct server server, peer;
    char forward[32];
    server_zookeeper(&server, NULL);
    snprintf(forward, sizeof forward, "forward=%d", server.port);
    tls_serve(&peer, "good.pem", (const char *const[]){forward, NULL});
    take_turns(secure_url(peer.port, "authority.pem"));
}

TEST_LIMIT(whatever_certificate_is_accepted_if_asked_for, 60)
{
    static struct server server, peer;
    char forward[32], url[128];
    server_zookeeper(&server, NULL);
    snprintf(forward, sizeof forward, "forward=%d", server.port);
    tls_serve(&peer, "unknown.pem", (const char *const[]){forward, NULL});
    snprintf(url, sizeof url, "zookeepers://127.0.0.1:%d/snib?tls=insecure", peer.port);
    take_turns(url);
}

TEST(a_server_that_cannot_be_trusted_is_refused_in_words)
{
    static struct server server, peer;
    char forward[32];
    snib_error error = {0};
    snib_lease *lease = NULL;
    server_zookeeper(&server, NULL);
    snprintf(forward, sizeof forward, "forward=%d", server.port);
    tls_serve(&peer, "expired.pem", (const char *const[]){forward, NULL});
    snib *client = client_of(secure_url(peer.port, "authority.pem"));
    CHECK_INT(snib_acquire(&lease, client, "report", NULL, &error), ==, SNIB_EUNREACH);
    CHECK(strstr(error.message, "certificate") != NULL);
    snib_close(client);
}

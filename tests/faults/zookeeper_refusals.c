/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What servers refuse, or cannot give: a delete, a path, an answer at all. It is said in words, and
 * nothing stays behind.
 */
#include "engines/zookeeper/wire.h"
#include "zookeeper_world.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

static struct server server;

static void must_contain(const char *said, const char *text)
{
    if (strstr(said, text) == NULL) {
        FAIL("'%s' should be said, and this is: %s", text, said);
    }
}

/* ---- Behind snib's back ----------------------------------------------------------------- */

static void send_all(int fd, struct snib__buffer *b)
{
    CHECK_INT(send(fd, b->bytes + b->from, snib__buffer_left(b), MSG_NOSIGNAL), ==,
              (ssize_t)snib__buffer_left(b));
    snib__buffer_take(b, snib__buffer_left(b));
}

static void read_frame(int fd)
{
    char bytes[1024];
    CHECK_INT(recv(fd, bytes, 4, MSG_WAITALL), ==, 4);
    uint32_t size = (uint32_t)(unsigned char)bytes[2] << 8 | (unsigned char)bytes[3];
    CHECK_INT(recv(fd, bytes, size, MSG_WAITALL), ==, (ssize_t)size);
}

/* A node that stays, with these rights for everybody. */
static void make_node(const char *path, int32_t permissions)
{
    static const unsigned char password[SNIB__ZK_PASSWORD];
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)server.port)};
    struct snib__buffer out = {0};
    struct snib__zk_hello hello = {.timeout_ms = 10000, .password = password};
    struct snib__zk_right rights[2] = {
        {.permissions = permissions, .scheme = "world", .id = "anyone"}, {.scheme = NULL}};
    struct snib__zk_creation creation = {
        .op = SNIB__ZK_CREATE, .path = path, .data = "", .rights = rights};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    CHECK_INT(connect(fd, (struct sockaddr *)&address, sizeof address), ==, 0);
    CHECK(snib__zk_put_hello(&out, &hello));
    send_all(fd, &out);
    read_frame(fd);
    CHECK(snib__zk_put_create(&out, 1, &creation));
    send_all(fd, &out);
    read_frame(fd);
    snib__buffer_free(&out);
    close(fd);
}

/* ---- Nodes that may be made and not deleted ----------------------------------------------- */

enum { ALL = 31, ALL_BUT_DELETE = 31 - 8 };

/* Below /snib/report nobody may delete. Sessions that outlast the case. */
static void begin_without_delete(void)
{
    server_zookeeper(&server, NULL);
    make_node("/snib", ALL);
    make_node("/snib/report", ALL_BUT_DELETE);
}

TEST(a_node_that_may_not_be_deleted_goes_with_its_session)
{
    begin_without_delete();
    snib *client = client_of(url_of(server.port, "session=60s"));
    snib *other = client_of(url_of(server.port, "session=60s"));
    uint64_t before = 0;
    for (int i = 0; i < 3; i++) {
        snib_lease *lease = take(i % 2 ? other : client, "report");
        CHECK_UINT(snib_token(lease), >, before);
        before = snib_token(lease);
        give(&lease);
        CHECK_INT(count_at(client, "report"), ==, 0);
    }
    snib_close(other);
    snib_close(client);
}

TEST(a_refused_attempt_whose_node_may_not_be_deleted_leaves_none)
{
    begin_without_delete();
    snib *client = client_of(url_of(server.port, "session=60s"));
    snib *other = client_of(url_of(server.port, "session=60s"));
    snib_error error = {0};
    snib_lease *none = NULL, *lease = take(client, "report");
    snib_options options = waiting(0);
    CHECK_INT(snib_acquire(&none, other, "report", &options, &error), ==, SNIB_EDENIED);
    must_contain(error.message, "refuse to delete our node below /snib/report");
    CHECK_INT(count_at(client, "report"), ==, 1);
    CHECK_INT(snib_verify(lease, NULL), ==, SNIB_OK);
    give(&lease);
    snib_close(other);
    snib_close(client);
}

TEST(a_node_that_may_not_be_deleted_waits_for_the_other_locks_of_its_session)
{
    begin_without_delete();
    snib *client = client_of(url_of(server.port, "session=60s&timeout=1s"));
    snib *other = client_of(url_of(server.port, ""));
    snib_error error = {0};
    snib_lease *kept = take(client, "kept"), *lease = take(client, "report");
    CHECK_INT(snib_release(&lease, &error), ==, SNIB_EUNKNOWN);
    must_contain(error.message, "must allow delete");
    CHECK_INT(snib_verify(kept, NULL), ==, SNIB_OK); /* it is not taken from who holds it */
    CHECK_INT(count_at(other, "report"), ==, 1);
    give(&kept);
    await_nobody(other, "report");
    snib_close(other);
    snib_close(client);
}

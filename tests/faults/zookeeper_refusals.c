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
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)server.port)};
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

/* ---- Paths ------------------------------------------------------------------------------ */

TEST(the_servers_own_path_is_refused_in_words)
{
    snib *client = NULL;
    snib_error error = {0};
    CHECK_INT(snib_open(&client, "zookeeper://127.0.0.1/zookeeper/locks", &error), ==, SNIB_EINVAL);
    must_contain(error.message, "the servers' own");
    CHECK_INT(snib_open(&client, "zookeeper://127.0.0.1/zookeeper", &error), ==, SNIB_EINVAL);
    CHECK_OK(snib_open(&client, "zookeeper://127.0.0.1/zookeepers", &error), error.message);
    snib_close(client);
}

/* ---- Nobody answers ----------------------------------------------------------------------- */

TEST(all_servers_that_refuse_are_named)
{
    snib *client = client_of("zookeeper://127.0.0.1:1,127.0.0.1:2,127.0.0.1:3");
    snib_error error = {0};
    snib_lease *lease = NULL;
    int seen = 0;
    CHECK_INT(snib_acquire(&lease, client, "report", NULL, &error), ==, SNIB_EUNREACH);
    must_contain(error.message, "127.0.0.1:1");
    must_contain(error.message, "127.0.0.1:2");
    must_contain(error.message, "127.0.0.1:3");
    must_contain(error.message, "refused");
    CHECK_INT(snib_inspect(client, "report", count_seen, &seen, &error), ==, SNIB_EUNREACH);
    must_contain(error.message, "127.0.0.1:1");
    must_contain(error.message, "127.0.0.1:2");
    must_contain(error.message, "127.0.0.1:3");
    snib_close(client);
}

static int drop_finding(const snib_finding *finding, void *arg)
{
    (void)finding;
    (void)arg;
    return 0;
}

TEST(questions_to_a_server_that_never_answered_end_in_time)
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    socklen_t size = sizeof address;
    int seen = 0, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    CHECK_INT(bind(fd, (struct sockaddr *)&address, size), ==, 0);
    CHECK_INT(listen(fd, 64), ==, 0);
    CHECK_INT(getsockname(fd, (struct sockaddr *)&address, &size), ==, 0);
    snib *client = client_of(url_of(ntohs(address.sin_port), "connect=300ms&timeout=20s"));
    int64_t start = check_now_ns();
    CHECK_INT(snib_inspect(client, "report", count_seen, &seen, NULL), ==, SNIB_EUNREACH);
    CHECK_INT(snib_list(client, "", count_seen, &seen, NULL), ==, SNIB_EUNREACH);
    CHECK_INT(snib_examine(client, drop_finding, NULL, NULL), ==, SNIB_OK);
    CHECK_INT((check_now_ns() - start) / 1000000, <, check_ms(3000));
    snib_close(client);
    close(fd);
}

/* ---- An outage ---------------------------------------------------------------------------- */

struct notes {
    struct check_flag behind, away, back;
    _Atomic(snib_lease *) lease;
};

static void note_wait(const snib_event *event, void *arg)
{
    struct notes *notes = arg;
    if (event->state != SNIB_WAITING) {
        return;
    }
    if (strstr(event->why, "trying again") != NULL) {
        check_flag_set(&notes->away);
    } else if (strstr(event->why, "behind ") != NULL) {
        check_flag_set(check_flag_is_set(&notes->away) ? &notes->back : &notes->behind);
    }
}

static void note_grant(snib_lease *lease, const snib_error *err, void *arg)
{
    struct notes *notes = arg;
    (void)err;
    atomic_store(&notes->lease, lease);
}

static bool granted(void *arg)
{
    return atomic_load(&((struct notes *)arg)->lease) != NULL;
}

TEST(a_waiter_is_told_of_an_outage_and_of_its_end)
{
    static struct proxy proxy;
    struct notes *notes = check_shared(sizeof *notes);
    server_zookeeper(&server, NULL);
    proxy_start(&proxy, server.port);
    snib *direct = client_of(url_of(server.port, "session=60s"));
    snib *client = client_of(url_of(proxy.port, "session=60s"));
    snib_lease *lease = take(direct, "report");
    snib_options options = SNIB_OPTIONS;
    snib_error error = {0};
    options.on_event = note_wait;
    options.arg = notes;
    CHECK_OK(snib_acquire_async(NULL, client, "report", &options, note_grant, notes, &error),
             error.message);
    check_flag_wait(&notes->behind, PATIENCE_MS);
    proxy_door(&proxy, PROXY_REFUSE);
    proxy_cut(&proxy, PROXY_RESET);
    check_flag_wait(&notes->away, PATIENCE_MS);
    CHECK_INT(count_at(direct, "report"), ==, 2); /* it has its place */
    proxy_door(&proxy, PROXY_OPEN);
    check_flag_wait(&notes->back, PATIENCE_MS);
    give(&lease);
    CHECK(check_until(granted, notes, PATIENCE_MS));
    lease = atomic_load(&notes->lease);
    give(&lease);
    snib_close(client);
    snib_close(direct);
}

/* ---- What is told ------------------------------------------------------------------------- */

static int count_warnings(const snib_finding *finding, void *arg)
{
    *(int *)arg += finding->verdict != SNIB_GOOD;
    return 0;
}

static int warnings_at(const char *url)
{
    int count = 0;
    snib_error error = {0};
    snib *client = client_of(url);
    CHECK_OK(snib_examine(client, count_warnings, &count, &error), error.message);
    snib_close(client);
    return count;
}

TEST(a_session_is_too_short_only_for_who_wished_for_more)
{
    server_zookeeper(&server, "maxSessionTimeout=40000\\n");
    CHECK_INT(warnings_at(url_of(server.port, "")), ==, 0);
    CHECK_INT(warnings_at(url_of(server.port, "ttl=20s")), ==, 0);
    CHECK_INT(warnings_at(url_of(server.port, "ttl=30s")), ==, 1);
    CHECK_INT(warnings_at(url_of(server.port, "session=41s")), ==, 1);
}

/* What the command says, both streams. */
static const char *command(const char *format, const char *url, char out[4096])
{
    char line[1024];
    snprintf(line, sizeof line, format, url);
    FILE *pipe = popen(line, "r");
    CHECK(pipe != NULL);
    out[fread(out, 1, 4095, pipe)] = '\0';
    CHECK_INT(pclose(pipe), ==, 0);
    return out;
}

#define SNIB TEST_BUILD_DIR "/snib "

TEST(the_lease_that_was_granted_is_told)
{
    char out[4096];
    server_zookeeper(&server, "maxSessionTimeout=40000\\n");
    must_contain(command(SNIB "run -v -U '%s' report -- true 2>&1", url_of(server.port, ""), out),
                 ", lease 25.0 s");
}

TEST(a_break_by_force_says_how_long_the_old_holder_may_act)
{
    char out[4096];
    server_zookeeper(&server, NULL);
    const char *url = url_of(server.port, "session=16s");
    snib *client = client_of(url);
    snib_lease *lease = take(client, "report");
    must_contain(command(SNIB "break --yes --force -U '%s' report 2>&1", url, out),
                 "may still run: ");
    must_contain(out, "for 10.0 s at most");
    CHECK_INT(snib_release(&lease, NULL), ==, SNIB_ELOST);
    lease = take(client, "report");
    must_contain(command(SNIB "break --json --yes --force -U '%s' report", url, out),
                 "for 10.0 s at most");
    CHECK_INT(snib_release(&lease, NULL), ==, SNIB_ELOST);
    snib_close(client);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Servers that are old, worn or half there: without containers, older than what we need, with
 * numbers that are nearly used up, cut off and only to be read.
 *
 * What a server does with a request it does not know is the server's own answer: somebody between
 * it and us gives the request a number that no server knows.
 */
#include "zookeeper_world.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

static struct server server;

/* ---- Somebody between ------------------------------------------------------------------- */

struct between {
    int listener, port, target;
    int32_t unknown[2]; /* requests that the server is not to know; 0: none */
    _Atomic int changed;
    pid_t pid;
};

static uint32_t number_at(const unsigned char *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static bool read_all(int fd, unsigned char *to, size_t size)
{
    while (size > 0) {
        ssize_t n = recv(fd, to, size, 0);
        if (n <= 0) {
            return false;
        }
        to += n;
        size -= (size_t)n;
    }
    return true;
}

/* One frame of the client's; false: it has gone. */
static bool pass_request(struct between *b, int from, int to, bool greeting)
{
    unsigned char frame[8192];
    if (!read_all(from, frame, 4)) {
        return false;
    }
    size_t size = number_at(frame);
    if (size > sizeof frame - 4 || !read_all(from, frame + 4, size)) {
        return false;
    }
    for (int i = 0; i < 2 && !greeting; i++) {
        if (b->unknown[i] != 0 && number_at(frame + 8) == (uint32_t)b->unknown[i]) {
            frame[10] = 0x7f;
            atomic_fetch_add(&b->changed, 1);
        }
    }
    return send(to, frame, 4 + size, MSG_NOSIGNAL) == (ssize_t)(4 + size);
}

static bool pass_bytes(int from, int to)
{
    char bytes[8192];
    ssize_t n = recv(from, bytes, sizeof bytes, 0);
    return n > 0 && send(to, bytes, (size_t)n, MSG_NOSIGNAL) == n;
}

static void stand_between(void *arg)
{
    struct between *b = arg;
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)b->target)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    for (;;) {
        int client = accept(b->listener, NULL, NULL);
        int to = socket(AF_INET, SOCK_STREAM, 0);
        CHECK_INT(connect(to, (struct sockaddr *)&address, sizeof address), ==, 0);
        bool going = true, greeting = true;
        while (going) {
            struct pollfd fds[2] = {{.fd = client, .events = POLLIN}, {.fd = to, .events = POLLIN}};
            CHECK_INT(poll(fds, 2, -1), >, 0);
            if (fds[0].revents != 0) {
                going = pass_request(b, client, to, greeting);
                greeting = false;
            }
            if (going && fds[1].revents != 0) {
                going = pass_bytes(to, client);
            }
        }
        close(client);
        close(to);
    }
}

static struct between *begin_between(int32_t first, int32_t second)
{
    struct between *b = check_shared(sizeof *b);
    struct sockaddr_in address = {.sin_family = AF_INET};
    socklen_t size = sizeof address;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    b->listener = socket(AF_INET, SOCK_STREAM, 0);
    CHECK_INT(bind(b->listener, (struct sockaddr *)&address, size), ==, 0);
    CHECK_INT(listen(b->listener, 8), ==, 0);
    CHECK_INT(getsockname(b->listener, (struct sockaddr *)&address, &size), ==, 0);
    b->port = ntohs(address.sin_port);
    b->unknown[0] = first;
    b->unknown[1] = second;
    server_zookeeper(&server, NULL);
    b->target = server.port;
    b->pid = check_spawn(stand_between, b);
    return b;
}

enum { CREATE2 = 15, CREATE_CONTAINER = 19 };

TEST(a_server_without_containers_gets_plain_nodes)
{
    struct between *b = begin_between(CREATE_CONTAINER, 0);
    snib *client = client_of(url_of(b->port, ""));
    uint64_t before = 0;
    for (int i = 0; i < 3; i++) {
        snib_lease *lease = take(client, i == 2 ? "other" : "report");
        CHECK_UINT(snib_token(lease), >, before);
        before = snib_token(lease);
        give(&lease);
    }
    CHECK_INT(atomic_load(&b->changed), >, 0);
    CHECK_INT(atomic_load(&b->changed), <=, 2); /* asked for once, not for every lock */
    await_nobody(client, "report");
    snib_close(client);
    check_kill(b->pid);
}

TEST(a_server_that_is_too_old_is_refused_in_words)
{
    struct between *b = begin_between(CREATE_CONTAINER, CREATE2);
    snib *client = client_of(url_of(b->port, ""));
    snib_error error = {0};
    snib_lease *lease = NULL;
    snib_options options = waiting(PATIENCE_MS);
    int64_t start = check_now_ns();
    CHECK_INT(snib_acquire(&lease, client, "report", &options, &error), ==, SNIB_ENOTSUP);
    CHECK_INT((check_now_ns() - start) / 1000000, <, check_ms(5000));
    if (strstr(error.message, "3.5") == NULL) {
        FAIL("the message should name the version that is needed, and says: %s", error.message);
    }
    snib_close(client);
    check_kill(b->pid);
}

/* ---- A port that takes connections and says nothing --------------------------------------- */

static int listen_mute(int *port)
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    socklen_t size = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    CHECK_INT(bind(fd, (struct sockaddr *)&address, size), ==, 0);
    CHECK_INT(listen(fd, 64), ==, 0);
    CHECK_INT(getsockname(fd, (struct sockaddr *)&address, &size), ==, 0);
    *port = ntohs(address.sin_port);
    return fd;
}

TEST(a_server_that_says_nothing_is_named)
{
    int port, seen = 0, fd = listen_mute(&port);
    char name[40];
    snib_error error = {0};
    snib *client = client_of(url_of(port, "timeout=500ms&connect=1s"));
    snprintf(name, sizeof name, "127.0.0.1:%d is silent", port);
    CHECK_INT(snib_inspect(client, "report", count_seen, &seen, &error), ==, SNIB_EUNREACH);
    if (strstr(error.message, name) == NULL) {
        FAIL("'%s' should be said, and this is: %s", name, error.message);
    }
    snib_close(client);
    close(fd);
}

static int note_finding(const snib_finding *finding, void *arg)
{
    char *all = arg;
    size_t used = strlen(all);
    snprintf(all + used, 2000 - used, "%s: %s\n", finding->about, finding->text);
    return 0;
}

TEST(an_examination_goes_on_behind_a_server_that_says_nothing)
{
    int port, fd = listen_mute(&port);
    char url[200], all[2000] = "";
    snib_error error = {0};
    server_zookeeper(&server, NULL);
    snprintf(url, sizeof url, "zookeeper://127.0.0.1:%d,127.0.0.1:%d", port, server.port);
    snib *client = client_of(url);
    snib_lease *lease = take(client, "report"); /* so that nothing but the examination goes on */
    CHECK_OK(snib_examine(client, note_finding, all, &error), error.message);
    if (strstr(all, "no answer") == NULL || strstr(all, "standalone, version") == NULL ||
        strstr(all, "1 of 2 servers serve") == NULL) {
        FAIL("the second server serves, and this was found:\n%s", all);
    }
    give(&lease);
    snib_close(client);
    close(fd);
}

/* ---- Numbers that are nearly used up ------------------------------------------------------ */

/* The file of the newest snapshot. */
static void find_snapshot(char *out, size_t size)
{
    char folder[256];
    unsigned long long newest = 0;
    snprintf(folder, sizeof folder, "%s/data/version-2", server.folder);
    DIR *dir = opendir(folder);
    CHECK(dir != NULL);
    out[0] = '\0';
    for (struct dirent *entry; (entry = readdir(dir)) != NULL;) {
        unsigned long long zxid;
        if (sscanf(entry->d_name, "snapshot.%llx", &zxid) == 1 &&
            (out[0] == '\0' || zxid > newest)) {
            newest = zxid;
            snprintf(out, size, "%s/%.40s", folder, entry->d_name);
        }
    }
    closedir(dir);
    CHECK(out[0] != '\0');
}

static uint32_t adler32(const unsigned char *p, size_t size)
{
    uint32_t a = 1, b = 0;
    for (size_t i = 0; i < size; i++) {
        a = (a + p[i]) % 65521;
        b = (b + a) % 65521;
    }
    return b << 16 | a;
}

/* The counter of the node's children is behind its data, an ACL, four times and a version. At the
 * end are a checksum of eight bytes and a path of one. */
static void wear_out(const char *path, uint32_t next)
{
    enum { SEAL = 8 + 4 + 1 };
    char name[400];
    static unsigned char bytes[1 << 20];
    find_snapshot(name, sizeof name);
    FILE *file = fopen(name, "r+");
    CHECK(file != NULL);
    size_t size = fread(bytes, 1, sizeof bytes, file), length = strlen(path);
    unsigned char *at = memmem(bytes, size, path, length);
    CHECK(at != NULL && at[length] == 0); /* not a child of it */
    at += length;
    uint32_t data = number_at(at);
    at += 4 + (data == UINT32_MAX ? 0 : data) + 8 + 4 * 8 + 4;
    for (int i = 0; i < 4; i++) {
        at[i] = (unsigned char)(next >> (24 - 8 * i));
    }
    uint32_t sum = adler32(bytes, size - SEAL);
    for (int i = 0; i < 4; i++) {
        bytes[size - SEAL + 4 + (size_t)i] = (unsigned char)(sum >> (24 - 8 * i));
    }
    rewind(file);
    CHECK(fwrite(bytes, 1, size, file) == size && fclose(file) == 0);
}

TEST_LIMIT(numbers_that_are_nearly_used_up_are_refused_early, 60)
{
    setenv("JAVA_TOOL_OPTIONS", "-Dzookeeper.digest.enabled=false", 1);
    server_zookeeper(&server, NULL);
    snib *client = client_of(url_of(server.port, ""));
    snib_lease *lease = take(client, "report");
    give(&lease);
    snib_close(client);
    server_kill(&server);
    server_start(&server); /* which writes a snapshot of all there is */
    server_kill(&server);
    wear_out("/snib/report", UINT32_C(0x7ff00000));
    server_start(&server);
    client = client_of(url_of(server.port, ""));
    snib_error error = {0};
    snib_options options = waiting(PATIENCE_MS);
    CHECK_INT(snib_acquire(&lease, client, "report", &options, &error), ==, SNIB_EUNSAFE);
    if (strstr(error.message, "delete that node") == NULL) {
        FAIL("the message should say what to do, and says: %s", error.message);
    }
    CHECK_INT(count_at(client, "report"), ==, 0); /* and nothing is left */
    lease = take(client, "other");
    give(&lease);
    snib_close(client);
}

/* ---- Cut off ---------------------------------------------------------------------------- */

/* It begins at zero again, and hangs up on whoever has seen more than that. */
TEST_LIMIT(a_server_that_lost_its_data_is_used_again, 60)
{
    char data[256];
    server_zookeeper(&server, NULL);
    snib *client = client_of(url_of(server.port, "ttl=1s&timeout=1s"));
    for (int i = 0; i < 5; i++) { /* the new one must not catch up by chance */
        snib_lease *before = take(client, "report");
        give(&before);
    }
    snib_lease *lease = take(client, "report");
    server_kill(&server);
    snprintf(data, sizeof data, "rm -r %s/data", server.folder);
    CHECK_INT(system(data), ==, 0);
    server_start(&server);
    snib_lease *other = NULL;
    snib_options options = waiting(check_ms(PATIENCE_MS));
    options.flags = SNIB_RETRY;
    CHECK_INT(snib_acquire(&other, client, "other", &options, NULL), ==, SNIB_OK);
    CHECK_INT(snib_state(lease), ==, SNIB_LOST);
    CHECK_INT(snib_release(&lease, NULL), ==, SNIB_ELOST);
    give(&other);
    snib_close(client);
}

TEST_LIMIT(a_server_that_can_only_be_read_grants_nothing, 60)
{
    static struct server members[ZOOKEEPER_MEMBERS];
    char mode[32];
    setenv("JAVA_TOOL_OPTIONS", "-Dreadonlymode.enabled=true", 1);
    server_zookeeper_ensemble_init(members);
    server_zookeeper_ensemble_start(members, NULL, NULL);
    snib *client = client_of(url_of(members[0].port, "ttl=30s"));
    snib_lease *lease = take(client, "report");
    give(&lease);
    snib_close(client);
    server_kill(&members[1]);
    server_kill(&members[2]);
    int64_t start = check_now_ns();
    while (strncmp(server_zookeeper_mode(&members[0], mode), "read", 4) != 0) {
        CHECK_INT((check_now_ns() - start) / 1000000, <, check_ms(20000));
        check_sleep_ms(50);
    }
    client = client_of(url_of(members[0].port, "ttl=30s"));
    snib_error error = {0};
    snib_options options = waiting(1000);
    CHECK_INT(snib_acquire(&lease, client, "report", &options, &error), ==, SNIB_EUNREACH);
    if (strstr(error.message, "no quorum") == NULL) {
        FAIL("the message should say what is missing, and says: %s", error.message);
    }
    snib_close(client);
}

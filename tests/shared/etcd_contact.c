/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Members that do not answer: what those hear who ask for the first time, and those who wait.
 */
#include "etcd_world.h"
#include "proxy.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

/* ---- First contact ---------------------------------------------------------------------- */

/* Connections are made, and nobody reads. */
static int mute_port(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    socklen_t size = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    CHECK_INT(bind(fd, (struct sockaddr *)&address, size), ==, 0);
    CHECK_INT(listen(fd, 64), ==, 0);
    CHECK_INT(getsockname(fd, (struct sockaddr *)&address, &size), ==, 0);
    return ntohs(address.sin_port);
}

static int count_seen(const snib_seen *seen, void *arg)
{
    (void)seen;
    *(int *)arg += 1;
    return 0;
}

static int note_text(const snib_finding *finding, void *arg)
{
    snib_error *error = arg;
    snprintf(error->message, sizeof error->message, "%s", finding->text);
    return 0;
}

static int acquire(snib *client, int64_t wait_ms, snib_error *error)
{
    snib_options options = SNIB_OPTIONS;
    snib_lease *lease;
    options.wait_ms = wait_ms;
    return snib_acquire(&lease, client, "name", &options, error);
}

static int ask_patiently(snib *client, snib_error *error)
{
    return acquire(client, -1, error);
}

static int ask_at_once(snib *client, snib_error *error)
{
    return acquire(client, 0, error);
}

static int ask_who(snib *client, snib_error *error)
{
    int seen = 0;
    return snib_inspect(client, "name", count_seen, &seen, error);
}

static int ask_for_all(snib *client, snib_error *error)
{
    int seen = 0;
    return snib_list(client, "", count_seen, &seen, error);
}

static int ask_how_it_is(snib *client, snib_error *error)
{
    CHECK_INT(snib_examine(client, note_text, error, NULL), ==, SNIB_OK);
    return SNIB_EUNREACH; /* a finding, not a failure */
}

static int (*const questions[])(snib *, snib_error *) = {ask_patiently, ask_at_once, ask_who,
                                                         ask_for_all, ask_how_it_is};
enum { QUESTIONS = sizeof questions / sizeof questions[0] };

/* All of it: opening, asking, and closing, which has nothing to wait for. */
TEST(a_server_that_never_answers_costs_no_more_than_connect)
{
    int port = mute_port();
    for (size_t i = 0; i < QUESTIONS; i++) {
        snib_error error = {0};
        int64_t start = check_now_ns();
        snib *client = client_at(port, "connect=1s&timeout=30s");
        CHECK_INT(questions[i](client, &error), <, 0);
        snib_close(client);
        int64_t took_ms = (check_now_ns() - start) / 1000000;
        CHECK_INT(took_ms, >=, 900);
        CHECK_INT(took_ms, <, check_ms(15000));
    }
}

TEST(members_that_do_not_answer_are_named_each)
{
    int one = mute_port(), other = mute_port();
    char url[200], both[100];
    snprintf(url, sizeof url, "etcd://127.0.0.1:%d,127.0.0.1:%d?stall=200ms&timeout=4s&connect=4s",
             one, other);
    snprintf(both, sizeof both, "127.0.0.1:%d, 127.0.0.1:%d: no answer in time", one, other);
    for (int i = 0; i < 2; i++) {
        snib_error error = {0};
        snib *client = client_of(url);
        CHECK_INT(i ? ask_how_it_is(client, &error) : ask_who(client, &error), <, 0);
        CHECK(strstr(error.message, both) != NULL);
        snib_close(client);
    }
}

/* One call that is not answered, on a connection that may still be good. */
TEST(one_member_that_does_not_answer_is_named)
{
    int port = mute_port();
    char name[60];
    snprintf(name, sizeof name, " 127.0.0.1:%d: no answer in time", port);
    snib *client = client_at(port, "connect=300ms&timeout=30s");
    snib_error error;
    CHECK_INT(ask_who(client, &error), <, 0);
    CHECK(strstr(error.message, name) != NULL);
    snib_close(client);
}

/* ---- An outage -------------------------------------------------------------------------- */

struct notes {
    struct check_flag behind, away, back;
    char why[200];
    _Atomic(snib_lease *) lease;
};

static void note_wait(const snib_event *event, void *arg)
{
    struct notes *notes = arg;
    if (event->state != SNIB_WAITING) {
        return;
    }
    if (strstr(event->why, "trying again") != NULL) {
        if (!check_flag_is_set(&notes->away)) {
            snprintf(notes->why, sizeof notes->why, "%s", event->why);
        }
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

static void shut(struct proxy *proxy)
{
    proxy_door(proxy, PROXY_REFUSE);
    proxy_cut(proxy, PROXY_RESET);
}

static void silence(struct proxy *proxy)
{
    proxy_set(proxy, PROXY_BOTH, PROXY_STALL, 0);
}

/* The one who waits comes by way of the proxy, the one who holds does not. */
static void outage(void (*begin)(struct proxy *), const char *parameters, const char *why)
{
    static struct proxy proxy;
    struct server etcd;
    char name[60];
    struct notes *notes = check_shared(sizeof *notes);
    server_etcd(&etcd, NULL);
    proxy_start(&proxy, etcd.port);
    snib *direct = client_at(etcd.port, "ttl=60s");
    snib *client = client_at(proxy.port, parameters);
    snib_lease *lease = take(direct, "name", NULL);
    snib_options options = SNIB_OPTIONS;
    snib_error error = {0};
    options.on_event = note_wait;
    options.arg = notes;
    CHECK_OK(snib_acquire_async(NULL, client, "name", &options, note_grant, notes, &error),
             error.message);
    check_flag_wait(&notes->behind, LONG_MS);
    begin(&proxy);
    check_flag_wait(&notes->away, LONG_MS);
    snprintf(name, sizeof name, "127.0.0.1:%d: ", proxy.port);
    CHECK(strstr(notes->why, name) != NULL);
    CHECK(strstr(notes->why, why) != NULL);
    proxy_heal(&proxy);
    proxy_door(&proxy, PROXY_OPEN);
    check_flag_wait(&notes->back, LONG_MS);
    CHECK(!granted(notes));
    give(lease);
    CHECK(check_until(granted, notes, LONG_MS));
    give(atomic_load(&notes->lease));
    snib_close(client);
    snib_close(direct);
}

/* Its next look would come later than anybody waits for here. */
TEST(a_waiter_is_told_of_an_outage_and_of_its_end)
{
    outage(shut, "ttl=400s&max-lease=400s", "refused");
}

TEST(a_waiter_is_told_of_a_silent_server_and_of_its_answer)
{
    outage(silence, "ttl=9s&timeout=1500ms", "no answer in time");
}

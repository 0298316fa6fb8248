/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Redis by way of its sentinels: found, followed over failovers, and what is said when it cannot be
 * found.
 */
#include "redis_group.h"
#include "redis_world.h"

#include "tls_link.h"

#include <fcntl.h>
#include <sys/stat.h>

static struct redis_group group;

static void start(char url[512], const char *parameters)
{
    group_start(&group, &(struct group_wish){.nodes = 3, .sentinels = 3});
    group_url(&group, url, 512, parameters);
}

static int refusal(const char *url, snib_error *error)
{
    snib *client = client_of(url);
    int code = try_it(client, "report", error);
    snib_close(client);
    return code;
}

static void must_say(const snib_error *error, const char *word)
{
    if (!strstr(error->message, word)) {
        FAIL("\"%s\" does not say \"%s\"", error->message, word);
    }
}

TEST_LIMIT(the_master_that_the_sentinels_name_grants_and_hands_over, 120)
{
    char url[512];
    start(url, "quarantine=no");
    struct helper *waiter = helpers_new(1, url, "report");
    helpers_spawn(waiter, 1);
    snib *client = client_of(url);
    snib_lease *lease = take(client, "report", NULL);
    redisContext *raw = raw_open(group.nodes[0].port);
    check_flag_set(&waiter->go);
    await_line(raw, "report", 1);
    uint64_t token = snib_token(lease);
    give(&lease);
    helper_must_hold(waiter);
    CHECK_UINT(atomic_load(&waiter->token), >, token);
    helper_end(waiter);
    redisFree(raw);
    snib_close(client);
}

/* ---- Failovers -------------------------------------------------------------------------- */

struct heard {
    _Atomic int doubtful;
    _Atomic int held;
};

static void note_state(const snib_event *event, void *arg)
{
    struct heard *heard = arg;
    if (event->state == SNIB_DOUBTFUL) {
        atomic_store(&heard->doubtful, 1);
    } else if (event->state == SNIB_HELD) {
        atomic_store(&heard->held, atomic_load(&heard->doubtful));
    }
}

static bool is_held_again(void *arg)
{
    return atomic_load(&((struct heard *)arg)->held);
}

TEST_LIMIT(after_a_failover_a_lease_is_in_doubt_until_the_new_master_has_renewed_it, 150)
{
    char url[512];
    struct heard heard = {0};
    start(url, "quarantine=no&ttl=20s");
    snib *client = client_of(url);
    snib_options options = SNIB_OPTIONS;
    options.on_event = note_state;
    options.arg = &heard;
    snib_lease *lease = take(client, "report", &options);
    group_do(group.sentinels[0].port, "SENTINEL FAILOVER m");
    int master = group_await_change(&group, 0);
    CHECK(check_until(is_held_again, &heard, 40000));
    CHECK_INT(snib_state(lease), ==, SNIB_HELD);
    CHECK_INT(group_info(group.nodes[master].port, "connected_clients"), >, 0);
    give(&lease);
    snib_close(client);
}

TEST_LIMIT(who_waits_when_the_master_dies_is_served_by_the_next_one, 150)
{
    char url[512];
    start(url, "quarantine=no&ttl=20s");
    struct helper *waiter = helpers_new(1, url, "report");
    helpers_spawn(waiter, 1);
    snib *client = client_of(url);
    snib_lease *lease = take(client, "report", NULL);
    group_await_copies(&group);
    redisContext *raw = raw_open(group.nodes[0].port);
    check_flag_set(&waiter->go);
    await_line(raw, "report", 1);
    redisFree(raw);
    server_kill(&group.nodes[0]);
    int master = group_await_change(&group, 0);
    raw = raw_open(group.nodes[master].port);
    await_line(raw, "report", 1); /* it stands in line there, with an inbox there */
    redisFree(raw);
    CHECK(!check_flag_is_set(&waiter->held));
    give(&lease);
    helper_must_hold(waiter);
    helper_end(waiter);
    snib_close(client);
}

/* It goes on answering whoever is on its side; the others have another master. */
TEST_LIMIT(a_master_that_was_replaced_is_left_although_it_answers, 150)
{
    char url[512];
    start(url, "quarantine=no&ttl=3s");
    snib *client = client_of(url);
    snib_lease *lease = take(client, "report", NULL);
    int64_t left = group_info(group.nodes[0].port, "connected_slaves");
    CHECK_INT(left, ==, 2);
    /* promoted by hand, and the sentinels told: the old one is not asked to give up its clients */
    group_promote(&group, 1);
    for (int i = 0; i < 3; i++) {
        group_do(group.sentinels[i].port, "SENTINEL REMOVE m");
        group_do(group.sentinels[i].port, "SENTINEL MONITOR m 127.0.0.1 %d 2", group.links[1].port);
    }
    snib *other = client_of(url);
    snib_lease *second = take(other, "another", NULL);
    redisContext *raw = raw_open(group.nodes[1].port);
    long long before = raw_calls(raw, "evalsha");
    for (int i = 0; i < 200 && raw_calls(raw, "evalsha") < before + 4; i++) {
        check_sleep_ms(100); /* renewals of both */
    }
    CHECK_INT(raw_calls(raw, "evalsha"), >=, before + 4);
    CHECK_INT(snib_state(lease), ==, SNIB_HELD);
    give(&second);
    give(&lease);
    redisFree(raw);
    snib_close(other);
    snib_close(client);
}

/* ---- Errors ----------------------------------------------------------------------------- */

TEST_LIMIT(one_sentinel_of_three_is_enough, 120)
{
    char url[512];
    snib_error error = {0};
    start(url, "quarantine=no");
    server_kill(&group.sentinels[0]);
    server_pause(&group.sentinels[1]); /* accepts, and says nothing */
    CHECK_OK(refusal(url, &error), error.message);
    server_kill(&group.sentinels[2]);
    CHECK_INT(refusal(url, &error), ==, SNIB_EUNREACH);
    must_say(&error, "no sentinel says who is master m");
}

TEST_LIMIT(a_master_that_no_sentinel_knows_is_an_error_at_once, 120)
{
    char url[512];
    snib_error error = {0};
    start(url, "quarantine=no");
    char *slash = strstr(url, "/m?");
    slash[1] = 'x';
    CHECK_INT(refusal(url, &error), ==, SNIB_EINVAL);
    must_say(&error, "knows no master of that name");
    snprintf(url, sizeof url, "redis+sentinel://127.0.0.1:%d/m", group.nodes[0].port);
    CHECK_INT(refusal(url, &error), ==, SNIB_EINVAL);
    must_say(&error, "is a Redis server and no sentinel");
}

TEST_LIMIT(sentinels_with_a_password_want_it, 120)
{
    char url[512], path[300], parameters[400];
    snib_error error = {0};
    group_start(&group,
                &(struct group_wish){.nodes = 2, .sentinels = 3, .sentinel_password = "sesame"});
    group_url(&group, url, sizeof url, "quarantine=no");
    CHECK_INT(refusal(url, &error), ==, SNIB_EDENIED);
    must_say(&error, "sentinel-passfile=");
    snprintf(path, sizeof path, "%s/passfile", check_tmpdir());
    for (int right = 0; right < 2; right++) {
        int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
        CHECK(write(fd, right ? "sesame" : "barley", 6) == 6);
        close(fd);
        snprintf(parameters, sizeof parameters, "quarantine=no&sentinel-passfile=%s", path);
        group_url(&group, url, sizeof url, parameters);
        CHECK_INT(refusal(url, &error), ==, right ? SNIB_OK : SNIB_EDENIED);
    }
}

/* One of each, and no port without TLS. */
TEST_LIMIT(with_rediss_sentinels_and_the_master_are_met_by_tls, 60)
{
    static struct server node, sentinel;
    char url[512], path[300], good[256], port[12];
    snib_error error = {0};
    snprintf(good, sizeof good, "%s", tls_file("good.pem"));
    server_init(&node, "node");
    snprintf(port, sizeof port, "%d", node.ports[1]);
    server_redis_prepare(&node, (const char *const[]){"--tls-port", port, "--tls-cert-file", good,
                                                      "--tls-key-file", good, "--tls-auth-clients",
                                                      "no", NULL});
    server_start(&node);
    server_init(&sentinel, "sentinel");
    snprintf(path, sizeof path, "%s/sentinel.conf", sentinel.folder);
    FILE *file = fopen(path, "w");
    CHECK(file != NULL);
    fprintf(file,
            "port 0\ntls-port %d\nbind 127.0.0.1\ntls-cert-file %s\ntls-key-file %s\n"
            "tls-ca-cert-file %s\ntls-auth-clients no\ntls-replication yes\n"
            "sentinel monitor m 127.0.0.1 %s 1\n",
            sentinel.port, good, good, tls_file("authority.crt"), port);
    CHECK(fclose(file) == 0);
    server_program(&sentinel, "redis-server", "redis-server");
    server_argument(&sentinel, "%s", path);
    server_argument(&sentinel, "--sentinel");
    server_start(&sentinel);
    snprintf(url, sizeof url, "rediss+sentinel://127.0.0.1:%d/m?quarantine=no&ca=%s", sentinel.port,
             tls_file("authority.crt"));
    CHECK_OK(refusal(url, &error), error.message);
    snprintf(url, sizeof url, "redis+sentinel://127.0.0.1:%d/m?quarantine=no", sentinel.port);
    CHECK_INT(refusal(url, &error), ==, SNIB_EUNREACH);
    must_say(&error, "TLS");
}

TEST_LIMIT(sentinels_that_disagree_are_not_believed, 120)
{
    char url[512];
    snib_error error = {0};
    start(url, "quarantine=no");
    /* another master of that name, as new as the one that the others know */
    group_promote(&group, 2);
    group_do(group.sentinels[1].port, "SENTINEL REMOVE m");
    group_do(group.sentinels[1].port, "SENTINEL MONITOR m 127.0.0.1 %d 2", group.links[2].port);
    server_kill(&group.sentinels[2]);
    CHECK_INT(refusal(url, &error), ==, SNIB_EUNREACH);
    must_say(&error, "the sentinels disagree about m");
}

TEST(a_url_without_sentinels_or_a_name_is_refused_with_an_example)
{
    static const char *const urls[] = {"redis+sentinel://127.0.0.1", "redis+sentinel:///m",
                                       "redis+sentinel://127.0.0.1/a/b",
                                       "redis://127.0.0.1?sentinel-user=x"};
    for (size_t i = 0; i < sizeof urls / sizeof urls[0]; i++) {
        snib *client = NULL;
        snib_error error = {0};
        CHECK_INT(snib_open(&client, urls[i], &error), ==, SNIB_EINVAL);
        must_say(&error, "sentinel");
    }
}

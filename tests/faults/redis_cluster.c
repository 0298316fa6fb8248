/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The Redis Cluster engine beside a cluster of three masters and three replicas, whose slots are
 * moved and whose masters die.
 */
#include "redis_cluster.h"

#include "clock_shim.h"
#include "engines/redis/slots.h"
#include "redis_world.h"
#include "tls_link.h"

#include <poll.h>

static struct redis_cluster cluster;

static char url_of_cluster[512];

static const char *the_url(void)
{
    return url_of_cluster;
}

static const char *begin(const char *parameters)
{
    redis_cluster_start(&cluster);
    redis_cluster_url(&cluster, url_of_cluster, sizeof url_of_cluster, parameters);
    return url_of_cluster;
}

static int slot_of(const char *name)
{
    char key[128];
    snprintf(key, sizeof key, "snib:{%s}", name);
    return (int)snib__slot_of(key);
}

static int owner_of(const char *name)
{
    return slot_of(name) * CLUSTER_MASTERS / CLUSTER_SLOTS;
}

static bool has_key(int member, const char *name)
{
    char command[160], keys[1024];
    snprintf(command, sizeof command, "CLUSTER GETKEYSINSLOT %d 10", slot_of(name));
    CHECK(redis_cluster_ask(&cluster, member, command, keys, sizeof keys));
    return strstr(keys, name) != NULL;
}

/* Holders and waiters, as inspect shows them. */
static int count_of(snib *client, const char *name)
{
    int count = 0;
    snib_error error = {0};
    CHECK_OK(snib_inspect(client, name, count_seen, &count, &error), error.message);
    return count;
}

struct line_of {
    snib *client;
    const char *name;
    int count;
};

static bool line_has(void *arg)
{
    struct line_of *line = arg;
    return count_of(line->client, line->name) == line->count;
}

static bool is_held(void *lease)
{
    return snib_state(lease) == SNIB_HELD;
}

/* Renewed since: what is left is more than it was. */
struct renewal {
    snib_lease *lease;
    int64_t left_ms;
};

static bool is_renewed(void *arg)
{
    struct renewal *renewal = arg;
    int64_t left_ms = snib_left_ms(renewal->lease);
    bool more = left_ms > renewal->left_ms && snib_state(renewal->lease) == SNIB_HELD;
    renewal->left_ms = left_ms;
    return more;
}

static void await_renewal(snib_lease *lease)
{
    struct renewal renewal = {lease, snib_left_ms(lease)};
    CHECK(check_until(is_renewed, &renewal, PATIENCE_MS));
}

/* ---- Slots ------------------------------------------------------------------------------ */

TEST(each_lock_is_at_the_master_of_its_slot)
{
    static const char *const names[] = {"a", "b", "c", "d", "e", "f", "g", "h"};
    snib *client = client_of(begin(""));
    snib_lease *leases[8];
    unsigned seen = 0;
    for (int i = 0; i < 8; i++) {
        leases[i] = take(client, names[i], NULL);
        CHECK(has_key(owner_of(names[i]), names[i]));
        seen |= 1U << owner_of(names[i]);
    }
    CHECK_INT(seen, ==, 7); /* all masters have some */
    int count = 0;
    CHECK_INT(snib_list(client, "", count_seen, &count, NULL), ==, SNIB_OK);
    CHECK_INT(count, ==, 8);
    for (int i = 0; i < 8; i++) {
        give(&leases[i]);
    }
    snib_close(client);
}

TEST(a_slot_that_has_moved_is_followed)
{
    snib *client = client_of(begin(""));
    int from = owner_of("job"), to = (from + 1) % CLUSTER_MASTERS;
    CHECK_INT(try_it(client, "job", NULL), ==, SNIB_OK);
    redis_cluster_move_slot(&cluster, slot_of("job"), from, to);
    snib_lease *lease = take(client, "job", NULL);
    CHECK(has_key(to, "job"));
    give(&lease);
    snib_close(client);
}

TEST(a_holder_renews_where_its_slot_has_gone)
{
    snib *client = client_of(begin("ttl=3s")), *other = client_of(the_url());
    int from = owner_of("job"), to = (from + 1) % CLUSTER_MASTERS;
    snib_lease *lease = take(client, "job", NULL);
    uint64_t token = snib_token(lease);
    redis_cluster_move_slot(&cluster, slot_of("job"), from, to);
    CHECK_INT(try_it(other, "job", NULL), ==, SNIB_EBUSY);
    await_renewal(lease);
    await_renewal(lease);
    CHECK_UINT(snib_token(lease), ==, token);
    CHECK_INT(try_it(other, "job", NULL), ==, SNIB_EBUSY);
    give(&lease);
    lease = take(other, "job", NULL);
    CHECK_UINT(snib_token(lease), >, token);
    give(&lease);
    snib_close(other);
    snib_close(client);
}

TEST(a_lock_in_a_slot_that_is_on_its_way_is_had_where_it_goes)
{
    snib *client = client_of(begin("ttl=3s")), *other = client_of(the_url());
    int from = owner_of("job"), to = (from + 1) % CLUSTER_MASTERS, count = 0;
    redis_cluster_open_slot(&cluster, slot_of("job"), from, to);
    snib_lease *lease = take(client, "job", NULL); /* there is no such key: ASK */
    CHECK(has_key(to, "job") && !has_key(from, "job"));
    await_renewal(lease);
    CHECK_INT(try_it(other, "job", NULL), ==, SNIB_EBUSY);
    CHECK_INT(count_of(other, "job"), ==, 1);
    CHECK_INT(snib_list(other, "", count_seen, &count, NULL), ==, SNIB_OK);
    CHECK_INT(count, ==, 1);
    CHECK_INT(snib_seize(other, "job", snib_token(lease), NULL), ==, SNIB_OK);
    CHECK_INT(snib_release(&lease, NULL), ==, SNIB_ELOST);
    lease = take(other, "job", NULL);
    redis_cluster_close_slot(&cluster, slot_of("job"), to);
    await_renewal(lease);
    give(&lease);
    snib_close(other);
    snib_close(client);
}

TEST(a_lock_goes_with_its_slot_half_way_and_back)
{
    snib *client = client_of(begin("ttl=6s"));
    int from = owner_of("job"), to = (from + 1) % CLUSTER_MASTERS, slot = slot_of("job");
    snib_lease *lease = take(client, "job", NULL);
    redis_cluster_open_slot(&cluster, slot, from, to);
    redis_cluster_move_keys(&cluster, slot, from, to);
    await_renewal(lease);        /* by ASK */
    char answer[64], stable[64]; /* and back, before it has arrived */
    snprintf(stable, sizeof stable, "CLUSTER SETSLOT %d STABLE", slot);
    CHECK(redis_cluster_ask(&cluster, from, stable, answer, sizeof answer));
    redis_cluster_move_keys(&cluster, slot, to, from);
    redis_cluster_close_slot(&cluster, slot, from);
    await_renewal(lease);
    CHECK(has_key(from, "job"));
    give(&lease);
    snib_close(client);
}

TEST(who_waits_has_it_soon_after_its_slot_has_moved)
{
    begin("ttl=3s");
    struct helper *waiters = helpers_new(3, the_url(), "job");
    helpers_spawn(waiters, 3);
    snib *client = client_of(the_url());
    int from = owner_of("job"), to = (from + 1) % CLUSTER_MASTERS;
    snib_lease *lease = take(client, "job", NULL);
    for (int i = 0; i < 3; i++) {
        waiters[i].options.wait_ms = 60000;
        check_flag_set(&waiters[i].go);
    }
    struct line_of line = {client, "job", 4};
    CHECK(check_until(line_has, &line, PATIENCE_MS));
    redis_cluster_move_slot(&cluster, slot_of("job"), from, to);
    CHECK(check_until(line_has, &line, PATIENCE_MS)); /* they stand in line there */
    give(&lease);
    uint64_t token = 0;
    for (int served = 0; served < 3; served++) {
        int next = -1;
        int64_t since_ns = check_now_ns();
        while (next < 0) {
            for (int i = 0; i < 3; i++) {
                if (check_flag_is_set(&waiters[i].held) && !check_flag_is_set(&waiters[i].let_go)) {
                    next = i;
                }
            }
            CHECK_INT((check_now_ns() - since_ns) / 1000000, <, check_ms(PATIENCE_MS));
            poll(NULL, 0, 5);
        }
        CHECK_UINT(atomic_load(&waiters[next].token), >, token);
        token = atomic_load(&waiters[next].token);
        helper_end(&waiters[next]);
    }
    snib_close(client);
}

/* Messages to plain channels go to all servers of a cluster; these do not. */
TEST(who_waits_listens_to_a_channel_in_the_slot_of_the_lock)
{
    begin("");
    struct helper *waiter = helpers_new(1, the_url(), "job");
    helpers_spawn(waiter, 1);
    snib *client = client_of(the_url());
    snib_lease *lease = take(client, "job", NULL);
    waiter->options.wait_ms = 60000;
    check_flag_set(&waiter->go);
    struct line_of line = {client, "job", 2};
    CHECK(check_until(line_has, &line, PATIENCE_MS));
    char channels[256], *channel;
    CHECK(redis_cluster_ask(&cluster, owner_of("job"), "PUBSUB SHARDCHANNELS", channels,
                            sizeof channels));
    CHECK((channel = strstr(channels, "snib:{")) != NULL);
    *strchr(channel, '\r') = '\0';
    CHECK_INT(snib__slot_of(channel), ==, slot_of("job"));
    give(&lease); /* a message, long before it would look again */
    helper_must_hold(waiter);
    char said[4096];
    CHECK(redis_cluster_ask(&cluster, owner_of("job"), "INFO commandstats", said, sizeof said));
    CHECK(strstr(said, "cmdstat_spublish:calls=1") && !strstr(said, "cmdstat_publish:"));
    helper_end(waiter);
    snib_close(client);
}

/* ---- Under load ------------------------------------------------------------------------- */

enum { WORKERS = 6, NAMES = 4, MOVES = 12 };

struct load {
    struct overlap_log *log;
    struct check_flag stop;
    _Atomic int turns, failures;
    _Atomic int64_t longest_ns;
    char url[512];
    char first[200];
};

static const char *const load_names[NAMES] = {"job", "report", "backup", "mail"};

static void work(void *arg)
{
    struct load *load = arg;
    snib *client = client_of(load->url);
    snib_options options = waiting(30000);
    for (int turn = 0; !check_flag_is_set(&load->stop); turn++) {
        int name = (turn + (int)getpid()) % NAMES;
        snib_lease *lease = NULL;
        snib_error error = {0};
        int64_t since_ns = check_now_ns();
        if (snib_acquire(&lease, client, load_names[name], &options, &error) != SNIB_OK) {
            if (atomic_fetch_add(&load->failures, 1) == 0) {
                snprintf(load->first, sizeof load->first, "%.190s", error.message);
            }
            continue;
        }
        int64_t took_ns = check_now_ns() - since_ns, longest_ns = atomic_load(&load->longest_ns);
        while (took_ns > longest_ns &&
               !atomic_compare_exchange_weak(&load->longest_ns, &longest_ns, took_ns)) {
        }
        size_t belief = overlap_begin(
            load->log, &(struct overlap_grant){.name = (uint32_t)name, .token = snib_token(lease)});
        poll(NULL, 0, turn % 7 == 0 ? 50 : 1);
        overlap_end(load->log, belief);
        (void)snib_release(&lease, NULL);
        atomic_fetch_add(&load->turns, 1);
    }
    snib_close(client);
}

TEST_LIMIT(slots_moved_back_and_forth_under_load_give_no_lock_twice, 120)
{
    begin("ttl=3s");
    struct load *load = check_shared(sizeof *load);
    pid_t pids[WORKERS];
    load->log = overlap_open(200000);
    snprintf(load->url, sizeof load->url, "%s", the_url());
    for (int i = 0; i < WORKERS; i++) {
        pids[i] = check_spawn(work, load);
    }
    snib *client = client_of(the_url());
    snib_lease *kept = take(client, "kept", NULL); /* held all the time */
    uint64_t token = snib_token(kept);
    for (int i = 0; i < MOVES; i++) {
        for (int n = 0; n <= NAMES; n++) {
            const char *name = n < NAMES ? load_names[n] : "kept";
            int home = owner_of(name), away = (home + 1) % CLUSTER_MASTERS;
            redis_cluster_move_slot(&cluster, slot_of(name), i % 2 ? away : home,
                                    i % 2 ? home : away);
        }
        int turns = atomic_load(&load->turns);
        int64_t since_ns = check_now_ns();
        while (atomic_load(&load->turns) < turns + 40) { /* they go on */
            CHECK_INT((check_now_ns() - since_ns) / 1000000, <, check_ms(PATIENCE_MS));
            poll(NULL, 0, 5);
        }
    }
    check_flag_set(&load->stop);
    for (int i = 0; i < WORKERS; i++) {
        check_join(pids[i], 40000);
    }
    CHECK_UINT(snib_token(kept), ==, token);
    CHECK(check_until(is_held, kept, PATIENCE_MS));
    give(&kept);
    snib_close(client);
    if (atomic_load(&load->failures) > 0) {
        FAIL("%d were refused, the first by: %s", atomic_load(&load->failures), load->first);
    }
    CHECK_INT(atomic_load(&load->longest_ns) / 1000000, <, check_ms(13000)); /* a re-check */
    overlap_assert(load->log);
}

/* ---- Failover --------------------------------------------------------------------------- */

static bool is_promoted(void *arg)
{
    int dead = *(int *)arg, asked = (dead + 1) % CLUSTER_MASTERS;
    return redis_cluster_owner(&cluster, asked, dead * CLUSTER_SLOTS / CLUSTER_MASTERS) ==
           dead + CLUSTER_MASTERS;
}

struct lock_at {
    snib *client;
    const char *name;
};

static bool can_be_had(void *arg)
{
    struct lock_at *lock = arg;
    return try_it(lock->client, lock->name, NULL) == SNIB_OK;
}

/* The replica has it. */
static bool is_copied(void *name)
{
    return has_key(owner_of(name) + CLUSTER_MASTERS, name);
}

static _Atomic int doubts;

static void on_news(const snib_event *event, void *arg)
{
    (void)arg;
    if (event->state == SNIB_DOUBTFUL) {
        atomic_fetch_add(&doubts, 1);
    }
}

TEST_LIMIT(a_master_that_dies_is_replaced_by_its_replica, 60)
{
    begin("ttl=10s");
    struct helper *waiter = helpers_new(1, the_url(), "job");
    waiter->options.wait_ms = 50000;
    helpers_spawn(waiter, 1);
    snib *client = client_of(the_url()), *other = client_of(the_url());
    snib_options options = SNIB_OPTIONS;
    int dead = owner_of("job");
    options.on_event = on_news;
    snib_lease *lease = take(client, "job", &options);
    uint64_t token = snib_token(lease);
    CHECK(check_until(is_copied, (char[]){"job"}, PATIENCE_MS));
    check_flag_set(&waiter->go);
    struct line_of line = {other, "job", 2};
    CHECK(check_until(line_has, &line, PATIENCE_MS));
    server_kill(&cluster.members[dead]);
    CHECK(check_until(is_promoted, &dead, PATIENCE_MS));
    await_renewal(lease); /* at the new master, which had a copy */
    CHECK_INT(atomic_load(&doubts), >=, 1);
    CHECK_UINT(snib_token(lease), ==, token);
    CHECK_INT(try_it(other, "job", NULL), ==, SNIB_EBUSY);
    give(&lease);
    helper_must_hold(waiter);
    CHECK_UINT(atomic_load(&waiter->token), >, token);
    helper_end(waiter);
    struct lock_at lock = {other, "job"};
    CHECK(check_until(can_be_had, &lock, PATIENCE_MS));
    snib_close(other);
    snib_close(client);
}

TEST_LIMIT(a_master_that_is_stopped_is_left_for_its_replica, 60)
{
    begin("ttl=10s&timeout=1s");
    snib *client = client_of(the_url());
    int stopped = owner_of("job");
    CHECK_INT(try_it(client, "job", NULL), ==, SNIB_OK);
    server_pause(&cluster.members[stopped]);
    struct lock_at lock = {client, "job"};
    CHECK(check_until(can_be_had, &lock, PATIENCE_MS));
    server_resume(&cluster.members[stopped]); /* a replica now, or soon */
    CHECK(check_until(can_be_had, &lock, PATIENCE_MS));
    snib_close(client);
}

TEST_LIMIT(a_cluster_that_is_down_is_told_in_time, 60)
{
    begin("timeout=1s&connect=2s");
    snib *client = client_of(the_url());
    snib_error error = {0};
    int dead = owner_of("job");
    CHECK_INT(try_it(client, "job", NULL), ==, SNIB_OK);
    server_kill(&cluster.members[dead + CLUSTER_MASTERS]);
    server_kill(&cluster.members[dead]);
    int64_t since_ns = check_now_ns();
    (void)try_it(client, "job", &error); /* may have been on its way when it was killed */
    CHECK_INT(try_it(client, "job", &error), ==, SNIB_EUNREACH);
    CHECK_INT((check_now_ns() - since_ns) / 1000000, <, check_ms(10000));
    server_start(&cluster.members[dead]); /* with an empty memory */
    struct lock_at lock = {client, "job"};
    CHECK(check_until(can_be_had, &lock, PATIENCE_MS));
    snib_close(client);
}

/* One says that the other has the slot, and the other says so of it. */
TEST(servers_that_send_us_to_each_other_are_told_in_time)
{
    snib *client = client_of(begin("timeout=1s"));
    int from = owner_of("job"), to = (from + 1) % CLUSTER_MASTERS;
    char command[128], answer[128];
    snib_error error = {0};
    snprintf(command, sizeof command, "CLUSTER SETSLOT %d NODE %s", slot_of("job"),
             cluster.ids[to]);
    CHECK(redis_cluster_ask(&cluster, from, command, answer, sizeof answer));
    CHECK_STR(answer, "OK");
    CHECK_INT(try_it(client, "job", &error), ==, SNIB_EUNREACH);
    CHECK(strstr(error.message, "the slot is being moved") != NULL);
    snprintf(command, sizeof command, "CLUSTER SETSLOT %d NODE %s", slot_of("job"),
             cluster.ids[from]);
    CHECK(redis_cluster_ask(&cluster, from, command, answer, sizeof answer));
    CHECK_STR(answer, "OK");
    CHECK_INT(try_it(client, "job", NULL), ==, SNIB_OK);
    snib_close(client);
}

/* ---- Whom to ask ------------------------------------------------------------------------ */

TEST(one_right_server_in_the_url_is_enough)
{
    char url[256];
    begin("");
    snprintf(url, sizeof url, "redis+cluster://127.0.0.1:1,127.0.0.1:%d?quarantine=no",
             cluster.members[4].port); /* a replica */
    snib *client = client_of(url);
    static const char *const names[] = {"a", "b", "c", "d", "e", "f"};
    for (int i = 0; i < 6; i++) {
        CHECK_INT(try_it(client, names[i], NULL), ==, SNIB_OK);
    }
    snib_close(client);
}

TEST(servers_that_are_not_there_are_told_at_once)
{
    snib_error error = {0};
    snib *client = client_of("redis+cluster://127.0.0.1:1,127.0.0.1:2");
    CHECK_INT(try_it(client, "job", &error), ==, SNIB_EUNREACH);
    CHECK(strstr(error.message, "127.0.0.1:1") != NULL);
    CHECK_INT(snib_inspect(client, "job", count_seen, &(int){0}, &error), ==, SNIB_EUNREACH);
    snib_close(client);
}

TEST(a_server_that_is_not_part_of_a_cluster_is_told)
{
    struct server redis;
    char url[128];
    snib_error error = {0};
    server_redis(&redis, NULL);
    snprintf(url, sizeof url, "redis+cluster://127.0.0.1:%d", redis.port);
    snib *client = client_of(url);
    CHECK_INT(try_it(client, "job", &error), ==, SNIB_ENOTSUP);
    CHECK(strstr(error.message, "not part of a cluster") != NULL);
    snib_close(client);
}

TEST(a_member_of_no_cluster_yet_is_told)
{
    struct server redis;
    char url[128];
    snib_error error = {0};
    server_redis(&redis, (const char *const[]){"--cluster-enabled", "yes", "--cluster-port",
                                               "@PORT1@", NULL});
    snprintf(url, sizeof url, "redis+cluster://127.0.0.1:%d", redis.port);
    snib *client = client_of(url);
    CHECK_INT(try_it(client, "job", &error), ==, SNIB_EUNREACH);
    CHECK(strstr(error.message, "no slots") != NULL);
    snib_close(client);
}

TEST(what_a_cluster_cannot_do_is_refused_when_it_is_opened)
{
    static const char *const wrong[] = {"redis+cluster:",
                                        "redis+cluster://a/1",
                                        "redis+cluster://a?db=2",
                                        "redis+cluster://a?layout=plain",
                                        "redis+cluster://a?wait=majority&replicas=2",
                                        "redis+cluster://a?wait=1",
                                        "redis+cluster://a?scripts=no&layout=plain"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        snib *client = NULL;
        CHECK_INT(snib_open(&client, wrong[i], NULL), ==, SNIB_EINVAL);
    }
}

/* ---- Examining -------------------------------------------------------------------------- */

struct findings {
    int good, warnings, bad;
    char text[4096];
};

static int note_finding(const snib_finding *finding, void *arg)
{
    struct findings *f = arg;
    f->good += finding->verdict == SNIB_GOOD;
    f->warnings += finding->verdict == SNIB_WARNING;
    f->bad += finding->verdict == SNIB_BAD;
    size_t used = strlen(f->text);
    snprintf(f->text + used, sizeof f->text - used, "%s: %s\n", finding->about, finding->text);
    return 0;
}

static void examine(snib *client, struct findings *f)
{
    memset(f, 0, sizeof *f);
    CHECK_INT(snib_examine(client, note_finding, f, NULL), ==, SNIB_OK);
}

static void must_say(const struct findings *f, const char *text)
{
    if (!strstr(f->text, text)) {
        FAIL("not told: %s; but\n%s", text, f->text);
    }
}

TEST_LIMIT(doctor_tells_of_the_cluster_and_what_a_failover_can_lose, 60)
{
    struct findings f;
    begin("");
    snib *client = client_of(the_url());
    examine(client, &f);
    must_say(&f, "cluster: 3 masters, 3 replicas, all 16384 slots served");
    must_say(&f, "clocks: the masters' are within");
    must_say(&f, "failover: a replica that takes over may lack locks");
    must_say(&f, "lock: taken, renewed and given back");
    server_kill(&cluster.members[3]);
    server_kill(&cluster.members[0]);
    examine(client, &f);
    must_say(&f, "no answer from");
    CHECK_INT(f.bad, >=, 1);
    snib_close(client);
}

static struct clock_shim clock_of_first;

static void shift_first(struct server *server, int member)
{
    if (member == 0) {
        clock_shim_use(&clock_of_first, server);
    }
}

TEST_LIMIT(safety_31_doctor_tells_of_masters_whose_clocks_differ, 60)
{
    struct findings f;
    clock_shim_open(&clock_of_first);
    cluster.prepare = shift_first;
    begin("");
    clock_shim_wall(&clock_of_first, 20000);
    snib *client = client_of(the_url());
    examine(client, &f);
    must_say(&f, "is 20.0 s ahead of");
    CHECK_INT(f.bad, >=, 1);
    snib_close(client);
}

/* ---- Rights ----------------------------------------------------------------------------- */

TEST(the_rights_that_are_told_are_enough_in_a_cluster)
{
    char line[SNIB_RIGHTS_SIZE], answer[128], url[600], *gap;
    struct findings f;
    snib *client = client_of(begin(""));
    CHECK_INT(snib_rights(client, line, sizeof line, NULL), ==, SNIB_OK);
    snib_close(client);
    CHECK((gap = strstr(line, ">PASSWORD")) != NULL);
    memcpy(gap, ">secret  ", strlen(">PASSWORD"));
    for (int i = 0; i < CLUSTER_MEMBERS; i++) {
        CHECK(redis_cluster_ask(&cluster, i, line, answer, sizeof answer));
        CHECK_STR(answer, "OK");
    }
    snprintf(url, sizeof url, "redis+cluster://snib:secret@%s",
             the_url() + strlen("redis+cluster://"));
    struct helper *waiter = helpers_new(1, url, "job");
    helpers_spawn(waiter, 1);
    client = client_of(url);
    snib_lease *lease = take(client, "job", NULL);
    waiter->options.wait_ms = 60000;
    check_flag_set(&waiter->go);
    struct line_of line_of_two = {client, "job", 2};
    CHECK(check_until(line_has, &line_of_two, PATIENCE_MS));
    int count = 0;
    CHECK_INT(snib_list(client, "", count_seen, &count, NULL), ==, SNIB_OK);
    CHECK_INT(count, ==, 2);
    give(&lease);
    helper_must_hold(waiter);
    CHECK(redis_cluster_ask(&cluster, owner_of("job"), "ACL LOG", answer, sizeof answer));
    CHECK_STR(answer, "*0\r\n"); /* nothing was denied */
    helper_end(waiter);
    examine(client, &f);
    must_say(&f, "rights: every command that is used may be used");
    snib_close(client);
}

/* ---- TLS -------------------------------------------------------------------------------- */

TEST(a_cluster_is_had_by_tls)
{
    struct server redis;
    char port[12], file[256], authority[256], url[600], answer[64];
    server_init(&redis, "rediss");
    snprintf(port, sizeof port, "%d", redis.ports[1]);
    snprintf(file, sizeof file, "%s", tls_file("good.pem"));
    snprintf(authority, sizeof authority, "%s", tls_file("authority.crt"));
    server_redis_prepare(
        &redis, (const char *const[]){"--tls-port", port, "--tls-cert-file", file, "--tls-key-file",
                                      file, "--tls-auth-clients", "no", "--cluster-enabled", "yes",
                                      "--cluster-port", "@PORT2@", "--tls-cluster", "yes",
                                      "--tls-ca-cert-file", authority, NULL});
    server_start(&redis);
    cluster.members[0].port = redis.port;
    CHECK(redis_cluster_ask(&cluster, 0, "CLUSTER ADDSLOTSRANGE 0 16383", answer, sizeof answer));
    CHECK_STR(answer, "OK");
    snprintf(url, sizeof url, "rediss+cluster://127.0.0.1:%s?quarantine=no&ca=%s", port,
             tls_file("authority.crt"));
    struct lock_at lock = {client_of(url), "job"};
    CHECK(check_until(can_be_had, &lock, PATIENCE_MS)); /* it takes a moment to believe in itself */
    snib_close(lock.client);
    snprintf(url, sizeof url, "rediss+cluster://127.0.0.1:%s?quarantine=no", port);
    snib *stranger = client_of(url); /* who does not trust its authority */
    CHECK_INT(try_it(stranger, "job", NULL), ==, SNIB_EUNREACH);
    snib_close(stranger);
}

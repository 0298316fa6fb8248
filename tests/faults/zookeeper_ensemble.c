/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Three servers: the leader killed, a follower cut off from the leader, the leader from both of
 * them, no quorum.
 *
 * To cut one link and nothing else, members reach each other's quorum port through a proxy each. A
 * follower notices that only after a while (syncLimit), and serves on meanwhile.
 */
#include "zookeeper_world.h"

static struct server members[ZOOKEEPER_MEMBERS];
static struct proxy links[ZOOKEEPER_MEMBERS][ZOOKEEPER_MEMBERS];
static int leader;

static void begin(void)
{
    server_zookeeper_ensemble_init(members);
    server_zookeeper_ensemble_start(members, NULL, NULL);
    leader = server_zookeeper_leader(members);
}

static void begin_with_links(void)
{
    struct zookeeper_routes routes = {0};
    server_zookeeper_ensemble_init(members);
    for (int from = 0; from < ZOOKEEPER_MEMBERS; from++) {
        for (int to = 0; to < ZOOKEEPER_MEMBERS; to++) {
            if (from != to) {
                proxy_start(&links[from][to], members[to].ports[1]);
                routes.ports[from][to] = links[from][to].port;
            }
        }
    }
    server_zookeeper_ensemble_start(members, &routes, NULL);
    leader = server_zookeeper_leader(members);
}

static int follower(void)
{
    return (leader + 1) % ZOOKEEPER_MEMBERS;
}

/* All of them. */
static const char *ensemble_url(const char *parameters)
{
    static char url[512];
    snprintf(url, sizeof url, "zookeeper://127.0.0.1:%d,127.0.0.1:%d,127.0.0.1:%d/snib?%s",
             members[0].port, members[1].port, members[2].port, parameters);
    return url;
}

static void await_nobody_anywhere(void)
{
    snib *client = client_of(ensemble_url("ttl=30s"));
    await_nobody(client, "report");
    snib_close(client);
}

/* ---- Members that end ------------------------------------------------------------------- */

TEST_LIMIT(a_killed_leader_is_followed_by_another_and_nobody_is_in_twice, 120)
{
    struct world *world = world_new();
    pid_t pids[WORKERS];
    begin();
    for (int i = 0; i < WORKERS; i++) {
        snprintf(world->urls[i], sizeof world->urls[i], "%s", ensemble_url("ttl=1s"));
    }
    world_start(world, pids);
    for (int i = 0; i < 2; i++) {
        world_goes_on(world, PATIENCE_MS);
        int killed = server_zookeeper_leader(members);
        server_kill(&members[killed]);
        world_goes_on(world, 2 * PATIENCE_MS);
        server_start(&members[killed]);
    }
    world_goes_on(world, 2 * PATIENCE_MS);
    world_end(world, pids);
    await_nobody_anywhere();
}

static void tell_why(const snib_event *event, void *arg)
{
    (void)arg;
    if (event->state != SNIB_WAITING) {
        fprintf(stderr, "state %d, %lld ms left: %s\n", event->state, (long long)event->left_ms,
                event->why);
    }
}

TEST_LIMIT(a_lock_is_kept_when_its_server_dies, 60)
{
    begin();
    snib *client = client_of(ensemble_url("session=60s"));
    snib_lease *lease = NULL;
    snib_options options = waiting(PATIENCE_MS);
    options.on_event = tell_why; /* shown if the case fails */
    CHECK_INT(snib_acquire(&lease, client, "report", &options, NULL), ==, SNIB_OK);
    for (int i = 0; i < ZOOKEEPER_MEMBERS; i++) { /* one of them is the one it talks to */
        snib_error error = {0};
        server_kill(&members[i]);
        int64_t start = check_now_ns();
        while (snib_verify(lease, &error) != SNIB_OK) {
            if (error.code == SNIB_ELOST) {
                FAIL("lost: %s", error.message); /* and why is above */
            }
            CHECK_INT((check_now_ns() - start) / 1000000, <, check_ms(PATIENCE_MS));
            check_sleep_ms(20);
        }
        server_start(&members[i]);
        (void)server_zookeeper_leader(members);
    }
    give(&lease);
    snib_close(client);
    await_nobody_anywhere();
}

TEST_LIMIT(without_a_quorum_nothing_is_granted_and_leases_end_in_time, 60)
{
    begin();
    snib *client = client_of(ensemble_url("ttl=1s"));
    snib_lease *lease = take(client, "report");
    int stays = follower();
    for (int i = 0; i < ZOOKEEPER_MEMBERS; i++) {
        if (i != stays) {
            server_kill(&members[i]);
        }
    }
    int64_t start = check_now_ns();
    while (snib_state(lease) != SNIB_LOST) {
        CHECK_INT((check_now_ns() - start) / 1000000, <, check_ms(3000));
        check_sleep_ms(10);
    }
    snib_lease *none = NULL;
    snib_options brief = waiting(500);
    CHECK_INT(snib_acquire(&none, client, "other", &brief, NULL), <, 0);
    for (int i = 0; i < ZOOKEEPER_MEMBERS; i++) {
        if (i != stays) {
            server_start(&members[i]);
        }
    }
    (void)server_zookeeper_leader(members);
    snib_release(&lease, NULL);
    lease = take(client, "other");
    give(&lease);
    snib_close(client);
    await_nobody_anywhere();
}

/* ---- A follower cut off from the leader --------------------------------------------------- */

struct holder {
    struct overlap_log *log;
    struct check_flag held, stop;
    char url[512];
};

static void hold(void *arg)
{
    struct holder *self = arg;
    snib *client = client_of(self->url);
    while (!check_flag_is_set(&self->stop)) {
        snib_lease *lease = NULL;
        snib_options options = waiting(200);
        options.flags = SNIB_RETRY;
        if (snib_acquire(&lease, client, "report", &options, NULL) != SNIB_OK) {
            continue;
        }
        check_flag_set(&self->held);
        believe(self->log, lease, INT64_C(60000000000), &self->stop);
        snib_release(&lease, NULL);
        check_sleep_ms(200);
    }
    snib_close(client);
}

/* The holder's server answers its pings, and reads of its node, long after the leader has let the
 * next one in: only what the leader takes part in may keep a lock. The link is cut at another
 * moment after a renewal each time: what the follower has heard last, the leader has not. */
TEST_LIMIT(safety_67_behind_a_follower_that_is_cut_off_a_lock_ends_in_time, 120)
{
    struct holder *holder = check_shared(sizeof *holder);
    holder->log = overlap_open(10000);
    begin_with_links();
    int cut = follower();
    snprintf(holder->url, sizeof holder->url, "%s", url_of(members[cut].port, "ttl=1s"));
    pid_t pid = check_spawn(hold, holder);
    snib *client = client_of(url_of(members[leader].port, "ttl=30s"));
    for (int i = 0; i < 6; i++) {
        check_flag_wait(&holder->held, PATIENCE_MS);
        check_sleep_ms(300 + 61 * i);
        proxy_set(&links[cut][leader], PROXY_BOTH, PROXY_STALL, 0);
        snib_lease *lease = take(client, "report");
        believe(holder->log, lease, 500000000, NULL);
        give(&lease);
        holder->held = (struct check_flag){0};
        proxy_heal(&links[cut][leader]);
        (void)server_zookeeper_leader(members);
    }
    check_flag_set(&holder->stop);
    check_join(pid, 2 * PATIENCE_MS);
    overlap_assert(holder->log);
    snib_close(client);
}

static bool is_proven(void *arg)
{
    return snib_verify(arg, NULL) == SNIB_OK;
}

TEST_LIMIT(a_client_that_knows_more_servers_leaves_one_that_is_cut_off, 120)
{
    begin_with_links();
    snib *client = client_of(ensemble_url("session=6s&timeout=1s"));
    snib_lease *lease = take(client, "report");
    for (int cut = 0; cut < ZOOKEEPER_MEMBERS; cut++) { /* one of them is the one it talks to */
        if (cut != leader) {
            proxy_set(&links[cut][leader], PROXY_BOTH, PROXY_STALL, 0);
            check_sleep_ms(3000);
            CHECK(check_until(is_proven, lease, PATIENCE_MS));
            proxy_heal(&links[cut][leader]);
            check_sleep_ms(500);
        }
    }
    CHECK_INT(snib_state(lease), ==, SNIB_HELD);
    give(&lease);
    snib_close(client);
}

/* ---- A leader cut off from its followers -------------------------------------------------- */

/* It leads on until it misses them (syncLimit) and answers syncs meanwhile, by itself. They have
 * lost their power, come back, do not find it, elect another; and that one ends the session. Only
 * what a majority takes part in may keep a lock. */
TEST_LIMIT(behind_a_leader_that_is_cut_off_a_lock_ends_in_time, 480)
{
    struct holder *holder = check_shared(sizeof *holder);
    char others[512];
    holder->log = overlap_open(10000);
    begin_with_links();
    int one = (leader + 1) % ZOOKEEPER_MEMBERS, two = (leader + 2) % ZOOKEEPER_MEMBERS;
    snprintf(holder->url, sizeof holder->url, "%s", url_of(members[leader].port, "ttl=1s"));
    snprintf(others, sizeof others, "zookeeper://127.0.0.1:%d,127.0.0.1:%d/snib?ttl=30s",
             members[one].port, members[two].port);
    pid_t pid = check_spawn(hold, holder);
    check_flag_wait(&holder->held, PATIENCE_MS);
    for (int from = 0; from < ZOOKEEPER_MEMBERS; from++) {
        if (from != leader) {
            proxy_door(&links[from][leader], PROXY_DARK);
            proxy_set(&links[from][leader], PROXY_BOTH, PROXY_STALL, 0);
            /* Nor may it tell them what it believes: they would wait for it, for minutes. */
            proxy_door(&links[leader][from], PROXY_REFUSE);
            proxy_cut(&links[leader][from], PROXY_RESET);
            server_kill(&members[from]);
        }
    }
    server_start(&members[one]);
    server_start(&members[two]);
    snib *client = client_of(others);
    snib_lease *lease = NULL;
    snib_options options = waiting(400000); /* they may take minutes to ask each other again */
    options.flags = SNIB_RETRY;             /* there is no quorum until they have elected one */
    snib_error error = {0};
    CHECK_OK(snib_acquire(&lease, client, "report", &options, &error), error.message);
    believe(holder->log, lease, 500000000, NULL);
    give(&lease);
    check_flag_set(&holder->stop);
    check_join(pid, 2 * PATIENCE_MS);
    overlap_assert(holder->log);
    snib_close(client);
}

/* ---- The doctor ---------------------------------------------------------------------------- */

struct findings {
    int count[3]; /* by verdict */
    char all[4096];
};

static int note_finding(const snib_finding *finding, void *arg)
{
    struct findings *findings = arg;
    size_t used = strlen(findings->all);
    findings->count[finding->verdict]++;
    snprintf(findings->all + used, sizeof findings->all - used, "%s: %s\n", finding->about,
             finding->text);
    CHECK(finding->verdict == SNIB_GOOD || finding->remedy != NULL ||
          strcmp(finding->about, "ensemble") == 0);
    return 0;
}

static void examine(const char *url, struct findings *findings)
{
    snib_error error = {0};
    snib *client = client_of(url);
    memset(findings, 0, sizeof *findings);
    CHECK_OK(snib_examine(client, note_finding, findings, &error), error.message);
    snib_close(client);
}

static void must_say(const struct findings *findings, const char *text)
{
    if (strstr(findings->all, text) == NULL) {
        FAIL("'%s' is not among the findings:\n%s", text, findings->all);
    }
}

TEST_LIMIT(an_examination_tells_what_every_server_is, 60)
{
    struct findings findings;
    begin();
    examine(ensemble_url("session=10s"), &findings);
    CHECK_INT(findings.count[SNIB_WARNING] + findings.count[SNIB_BAD], ==, 0);
    must_say(&findings, ": leader, version 3.");
    must_say(&findings, ": follower, version 3.");
    must_say(&findings, "3 of 3 servers serve");
    must_say(&findings, "session: 10.0 s (asked for: 10.0 s), of which 6.2 s are certain");
    must_say(&findings, "is not there yet");
    must_say(&findings, "nodes below / may be made, written and deleted");
    server_kill(&members[follower()]);
    (void)server_zookeeper_leader(members);
    examine(ensemble_url("session=300s"), &findings);
    CHECK_INT(findings.count[SNIB_WARNING], ==, 3); /* a server, the ensemble, the session */
    must_say(&findings, "2 of 3 servers serve");
    must_say(&findings, "session: 120.0 s (asked for: 300.0 s)");
    server_kill(&members[leader]);
    char mode[32];
    while (server_zookeeper_mode(&members[3 - leader - follower()], mode)[0] != '\0') {
        check_sleep_ms(50); /* it takes a while to notice */
    }
    examine(ensemble_url("timeout=1s"), &findings);
    CHECK_INT(findings.count[SNIB_BAD], ==, 2);
    must_say(&findings, "none of the servers serves");
}

/* ---- What was asked before the server changed ---------------------------------------------- */

TEST_LIMIT(readers_and_writers_on_different_servers_exclude_each_other, 60)
{
    begin();
    snib *clients[ZOOKEEPER_MEMBERS];
    uint64_t before = 0;
    snib_options reading = waiting(PATIENCE_MS);
    reading.mode = SNIB_SHARED;
    for (int i = 0; i < ZOOKEEPER_MEMBERS; i++) {
        clients[i] = client_of(url_of(members[i].port, "ttl=30s"));
    }
    for (int i = 0; i < 20; i++) {
        snib_lease *lease = take(clients[i % 3], "report"), *readers[2] = {NULL, NULL};
        CHECK_UINT(snib_token(lease), >, before);
        before = snib_token(lease);
        give(&lease);
        for (int k = 0; k < 2; k++) {
            CHECK_INT(snib_acquire(&readers[k], clients[(i + k + 1) % 3], "report", &reading, NULL),
                      ==, SNIB_OK);
            CHECK_UINT(snib_token(readers[k]), ==, before);
        }
        give(&readers[0]);
        give(&readers[1]);
    }
    for (int i = 0; i < ZOOKEEPER_MEMBERS; i++) {
        snib_close(clients[i]);
    }
}

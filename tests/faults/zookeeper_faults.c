/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One server, and a connection to it that goes wrong: at every step of an acquire and of a release,
 * for a moment, for longer than the session; and a server that stops or is killed. Whatever
 * happens, nobody waits for ever, nobody is in twice, and no node is left.
 */
#include "zookeeper_world.h"

static struct server server;
static struct proxy proxy;

static void begin(void)
{
    server_zookeeper(&server, NULL);
    proxy_start(&proxy, server.port);
}

/* ---- Connections dropped ---------------------------------------------------------------- */

/* Cut after so many bytes of what goes that way, while a lock is taken; and, later, given back. */
static void cut_at_every_step(enum proxy_way way, int last, int stride, enum proxy_end end)
{
    begin();
    snib *client = client_of(url_of(proxy.port, ""));
    snib *direct = client_of(url_of(server.port, ""));
    uint64_t before = 0;
    for (int bytes = 0; bytes <= last; bytes += stride) {
        snib_lease *lease = take(client, "warm");
        give(&lease);
        proxy_after(&proxy, way, (uint64_t)bytes, PROXY_BYTES,
                    end == PROXY_RESET ? PROXY_THEN_RESET : PROXY_THEN_CLOSE);
        lease = take(client, "report");
        CHECK_UINT(snib_token(lease), >, before);
        before = snib_token(lease);
        CHECK_INT(count_at(direct, "report"), ==, 1); /* not one for each attempt */
        proxy_after(&proxy, way, (uint64_t)bytes, PROXY_BYTES,
                    end == PROXY_RESET ? PROXY_THEN_RESET : PROXY_THEN_CLOSE);
        give(&lease);
        CHECK_INT(count_at(direct, "report"), ==, 0);
        proxy_heal(&proxy);
    }
    snib_stats stats = {.size = sizeof stats};
    CHECK_INT(snib_stats_read(client, &stats), ==, SNIB_OK);
    CHECK_UINT(stats.reconnects, >, 4); /* it did happen */
    CHECK_UINT(stats.lost, ==, 0);
    snib_close(direct);
    snib_close(client);
}

TEST_LIMIT(an_answer_lost_at_any_byte_costs_nothing, 60)
{
    cut_at_every_step(PROXY_TO_CLIENT, 260, 13, PROXY_RESET);
}

TEST_LIMIT(a_request_cut_at_any_byte_costs_nothing, 60)
{
    cut_at_every_step(PROXY_TO_SERVER, 260, 13, PROXY_RESET);
}

TEST_LIMIT(a_connection_that_ends_politely_costs_nothing, 60)
{
    cut_at_every_step(PROXY_TO_CLIENT, 260, 26, PROXY_CLOSE);
}

TEST(a_waiter_whose_connection_was_cut_keeps_its_place)
{
    struct world *world = world_new();
    begin();
    snprintf(world->urls[0], sizeof world->urls[0], "%s", url_of(proxy.port, ""));
    pid_t pid = check_spawn(work, world);
    snib *client = client_of(url_of(server.port, ""));
    snib_lease *lease = take(client, "report");
    check_flag_set(&world->go);
    struct look look = {client, "report"};
    while (count_at(client, "report") != 2) {
        check_sleep_ms(5);
    }
    for (int i = 0; i < 5; i++) {
        proxy_cut(&proxy, PROXY_RESET);
        check_sleep_ms(50);
        CHECK_INT(count_at(client, "report"), <=, 2);
    }
    give(&lease); /* the watch was lost five times */
    world_goes_on(world, PATIENCE_MS);
    check_flag_set(&world->stop);
    check_join(pid, PATIENCE_MS);
    CHECK(check_until(nobody, &look, PATIENCE_MS));
    overlap_assert(world->log);
    snib_close(client);
}

TEST(an_acquire_that_is_given_up_unanswered_leaves_nothing)
{
    begin();
    snib *client = client_of(url_of(proxy.port, "timeout=500ms"));
    snib *direct = client_of(url_of(server.port, ""));
    snib_lease *lease = take(client, "report");
    give(&lease);
    snib_options brief = waiting(200);
    snib_error error = {0};
    proxy_set(&proxy, PROXY_TO_CLIENT, PROXY_STALL, 0); /* the server hears us */
    CHECK_INT(snib_acquire(&lease, client, "report", &brief, &error), <, 0);
    CHECK_INT(count_at(direct, "report"), ==, 1); /* it was made */
    proxy_heal(&proxy);
    await_nobody(direct, "report");
    snib_close(direct);
    snib_close(client);
}

TEST(closing_ends_the_session_and_all_that_is_held)
{
    begin();
    snib *direct = client_of(url_of(server.port, ""));
    snib *client = client_of(url_of(proxy.port, "session=60s"));
    snib_lease *lease = take(client, "report");
    snib_close(client);
    await_nobody(direct, "report"); /* long before the session would have ended */
    snib_release(&lease, NULL);
    snib_close(direct);
}

/* ---- Cut off for longer than the session ------------------------------------------------- */

struct holder {
    struct check_flag held, lost, over;
    _Atomic int64_t lost_ns;
    char url[512];
};

static void note_lost(const snib_event *event, void *arg)
{
    struct holder *self = arg;
    if (event->state == SNIB_LOST) {
        atomic_store(&self->lost_ns, check_now_ns());
        check_flag_set(&self->lost);
    }
}

static void hold(void *arg)
{
    struct holder *self = arg;
    snib *client = client_of(self->url);
    snib_options options = SNIB_OPTIONS;
    snib_lease *lease = NULL;
    options.on_event = note_lost;
    options.arg = self;
    CHECK_INT(snib_acquire(&lease, client, "report", &options, NULL), ==, SNIB_OK);
    check_flag_set(&self->held);
    check_flag_wait(&self->lost, PATIENCE_MS);
    CHECK_INT(snib_state(lease), ==, SNIB_LOST);
    check_flag_wait(&self->over, PATIENCE_MS);
    CHECK_INT(snib_release(&lease, NULL), ==, SNIB_ELOST);
    lease = take(client, "report"); /* and goes on, in a new session */
    give(&lease);
    snib_close(client);
}

static void be_cut_off(void (*cut)(void))
{
    struct holder *holder = check_shared(sizeof *holder);
    begin();
    snprintf(holder->url, sizeof holder->url, "%s", url_of(proxy.port, "ttl=1s"));
    pid_t pid = check_spawn(hold, holder);
    snib *client = client_of(url_of(server.port, ""));
    check_flag_wait(&holder->held, PATIENCE_MS);
    cut();
    snib_lease *lease = take(client, "report"); /* when the session is over */
    int64_t entered_ns = check_now_ns();
    check_flag_wait(&holder->lost, PATIENCE_MS);
    CHECK_INT(atomic_load(&holder->lost_ns), <, entered_ns);
    give(&lease);
    proxy_door(&proxy, PROXY_OPEN);
    proxy_cut(&proxy, PROXY_RESET);
    proxy_heal(&proxy);
    check_flag_set(&holder->over);
    check_join(pid, PATIENCE_MS);
    await_nobody(client, "report");
    snib_close(client);
}

static void cut_by_silence(void)
{
    proxy_door(&proxy, PROXY_SILENT);
    proxy_set(&proxy, PROXY_BOTH, PROXY_STALL, 0);
}

static void cut_by_refusal(void)
{
    proxy_door(&proxy, PROXY_REFUSE);
    proxy_cut(&proxy, PROXY_RESET);
}

TEST(a_holder_that_hears_nothing_knows_before_the_next_one_enters)
{
    be_cut_off(cut_by_silence);
}

TEST(a_holder_that_is_refused_knows_before_the_next_one_enters)
{
    be_cut_off(cut_by_refusal);
}

/* ---- Servers ---------------------------------------------------------------------------- */

TEST_LIMIT(a_server_that_is_stopped_past_the_session_does_not_let_two_in, 90)
{
    struct world *world = world_new();
    pid_t pids[WORKERS];
    server_zookeeper(&server, NULL);
    for (int i = 0; i < WORKERS; i++) {
        snprintf(world->urls[i], sizeof world->urls[i], "%s", url_of(server.port, "ttl=500ms"));
    }
    world_start(world, pids);
    for (int i = 0; i < 3; i++) {
        world_goes_on(world, PATIENCE_MS);
        server_pause(&server);
        check_sleep_ms(1500);
        server_resume(&server);
    }
    world_goes_on(world, PATIENCE_MS);
    world_end(world, pids);
    snib *client = client_of(url_of(server.port, ""));
    await_nobody(client, "report");
    snib_close(client);
}

TEST_LIMIT(a_session_survives_a_restart_of_the_server, 60)
{
    begin();
    snib *client = client_of(url_of(server.port, "session=20s"));
    snib_lease *lease = take(client, "report");
    uint64_t token = snib_token(lease);
    server_kill(&server);
    check_sleep_ms(200);
    server_start(&server);
    int64_t start = check_now_ns();
    while (snib_verify(lease, NULL) != SNIB_OK) {
        CHECK_INT((check_now_ns() - start) / 1000000, <, check_ms(PATIENCE_MS));
        check_sleep_ms(50);
    }
    CHECK_UINT(snib_token(lease), ==, token);
    give(&lease);
    lease = take(client, "report");
    CHECK_UINT(snib_token(lease), >, token);
    give(&lease);
    snib_close(client);
}

/* Restarted with a smaller bound for sessions: what the holder was promised is too long now. */
TEST_LIMIT(a_session_that_is_resumed_for_less_time_is_not_believed_for_more, 60)
{
    char path[256];
    server_zookeeper(&server, "'\"$(cat bound)\"'"); /* read by the shell that starts it */
    proxy_start(&proxy, server.port);
    snib *client = client_of(url_of(proxy.port, "session=20s"));
    snib_lease *lease = take(client, "report");
    server_kill(&server);
    snprintf(path, sizeof path, "%s/bound", server.folder);
    FILE *bound = fopen(path, "w");
    CHECK(bound != NULL && fputs("maxSessionTimeout=1000", bound) >= 0 && fclose(bound) == 0);
    server_start(&server);
    check_sleep_ms(1500); /* the session is resumed */
    proxy_set(&proxy, PROXY_BOTH, PROXY_STALL, 0);
    snib *next = client_of(url_of(server.port, "ttl=1s"));
    snib_lease *second = take(next, "report");
    CHECK_INT(snib_left_ms(lease), <=, 0);
    CHECK_INT(snib_state(lease), ==, SNIB_LOST);
    give(&second);
    snib_close(next);
    snib_release(&lease, NULL);
    snib_close(client);
}

TEST_LIMIT(random_faults_never_let_two_in, 120)
{
    struct world *world = world_new();
    struct proxy_script script = {
        .seed = 7, .faults = PROXY_FAULT_ALL, .fault_ms = {50, 1500}, .rest_ms = {100, 500}};
    pid_t pids[WORKERS];
    begin();
    for (int i = 0; i < WORKERS; i++) {
        snprintf(world->urls[i], sizeof world->urls[i], "%s",
                 url_of(i % 2 ? proxy.port : server.port, "ttl=500ms&timeout=500ms"));
    }
    world_start(world, pids);
    proxy_script(&proxy, &script);
    check_sleep_ms(12000);
    proxy_heal(&proxy);
    proxy_cut(&proxy, PROXY_RESET);
    world_goes_on(world, PATIENCE_MS);
    world_end(world, pids);
    snib *client = client_of(url_of(server.port, ""));
    await_nobody(client, "report");
    snib_close(client);
}

/* ---- Taken away --------------------------------------------------------------------------- */

TEST(a_release_of_what_was_taken_away_says_so)
{
    server_zookeeper(&server, NULL);
    snib *client = client_of(url_of(server.port, ""));
    snib *other = client_of(url_of(server.port, ""));
    snib_error error = {0};
    snib_lease *lease = take(client, "report"); /* which hears nothing before its next renewal */
    CHECK_OK(snib_seize(other, "report", snib_token(lease), &error), error.message);
    snib_lease *next = take(other, "report");
    CHECK_UINT(snib_token(next), >, snib_token(lease));
    CHECK_INT(snib_release(&lease, NULL), ==, SNIB_ELOST);
    CHECK_INT(snib_verify(next, NULL), ==, SNIB_OK);
    give(&next);
    snib_close(other);
    snib_close(client);
}

TEST(who_listens_learns_at_once_that_its_node_is_gone)
{
    struct holder *holder = check_shared(sizeof *holder);
    server_zookeeper(&server, NULL);
    snib *client = client_of(url_of(server.port, ""));
    snib *other = client_of(url_of(server.port, ""));
    snib_error error = {0};
    snib_options options = SNIB_OPTIONS;
    snib_lease *lease = NULL;
    options.on_event = note_lost;
    options.arg = holder;
    CHECK_OK(snib_acquire(&lease, client, "report", &options, &error), error.message);
    CHECK_INT(snib_left_ms(lease), >, 20000);
    CHECK_OK(snib_seize(other, "report", snib_token(lease), &error), error.message);
    check_flag_wait(&holder->lost, 5000); /* long before a renewal */
    CHECK_INT(snib_release(&lease, NULL), ==, SNIB_ELOST);
    snib_close(other);
    snib_close(client);
}

/* ---- Dialects ----------------------------------------------------------------------------- */

struct notes {
    struct check_flag told;
    char why[200];
};

static void note_why(const snib_event *event, void *arg)
{
    struct notes *notes = arg;
    if (event->state == SNIB_HELD && strstr(event->why, "kazoo") != NULL) {
        snprintf(notes->why, sizeof notes->why, "%s", event->why);
        check_flag_set(&notes->told);
    }
}

TEST(dialects_exclude_each_other_here_and_others_blindness_is_told)
{
    struct notes *notes = check_shared(sizeof *notes);
    server_zookeeper(&server, NULL);
    snib *curator = client_of(url_of(server.port, ""));
    snib *kazoo = client_of(url_of(server.port, "dialect=kazoo"));
    snib *writer = client_of(url_of(server.port, "dialect=curator-rw"));
    snib_lease *lease = take(kazoo, "report"), *mine = NULL, *none = NULL;
    snib_options options = waiting(0);
    snib_error error = {0};
    CHECK_INT(snib_acquire(&none, curator, "report", &options, NULL), ==, SNIB_EBUSY);
    CHECK_INT(snib_acquire(&none, writer, "report", &options, NULL), ==, SNIB_EBUSY);
    give(&lease);
    lease = take(curator, "report");
    CHECK_INT(snib_acquire(&none, kazoo, "report", &options, NULL), ==, SNIB_EBUSY);
    CHECK_INT(snib_acquire(&none, writer, "report", &options, NULL), ==, SNIB_EBUSY);
    give(&lease);
    lease = take(writer, "report");
    CHECK_INT(snib_acquire(&none, kazoo, "report", &options, NULL), ==, SNIB_EBUSY);
    give(&lease);
    options = waiting(PATIENCE_MS);
    options.max_hold_ms = 300;
    lease = NULL;
    CHECK_OK(snib_acquire(&lease, kazoo, "report", &options, &error), error.message);
    options.max_hold_ms = 0;
    options.on_event = note_why;
    options.arg = notes;
    CHECK_OK(snib_acquire(&mine, curator, "report", &options, &error), error.message);
    check_flag_wait(&notes->told, PATIENCE_MS);
    CHECK(strstr(notes->why, "extra_lock_patterns") != NULL);
    give(&mine);
    snib_release(&lease, NULL);
    snib_close(writer);
    snib_close(kazoo);
    snib_close(curator);
}

/* ---- Refusals --------------------------------------------------------------------------- */

TEST(nobody_there_is_told_at_once)
{
    begin();
    server_kill(&server);
    snib *client = client_of(url_of(server.port, ""));
    snib_error error = {0};
    snib_lease *lease = NULL;
    snib_options options = waiting(PATIENCE_MS);
    int64_t start = check_now_ns();
    CHECK_INT(snib_acquire(&lease, client, "report", &options, &error), ==, SNIB_EUNREACH);
    CHECK_INT((check_now_ns() - start) / 1000000, <, check_ms(2000));
    snib_close(client);
}

TEST(too_many_connections_from_one_host_are_explained)
{
    server_zookeeper(&server, "maxClientCnxns=1\\n");
    snib *first = client_of(url_of(server.port, ""));
    snib *second = client_of(url_of(server.port, ""));
    snib_error error = {0};
    snib_lease *lease = NULL, *none = NULL;
    snib_options options = waiting(PATIENCE_MS);
    options.flags = SNIB_RETRY; /* whoever asked whether the server is ready may still be there */
    CHECK_OK(snib_acquire(&lease, first, "report", &options, &error), error.message);
    CHECK_INT(snib_acquire(&none, second, "other", NULL, &error), ==, SNIB_EUNREACH);
    if (strstr(error.message, "maxClientCnxns") == NULL) {
        FAIL("the message should name the limit, and says: %s", error.message);
    }
    give(&lease);
    snib_close(second);
    snib_close(first);
}

static int note_finding(const snib_finding *finding, void *arg)
{
    char *all = arg;
    size_t used = strlen(all);
    if (strcmp(finding->about, "rights") == 0) {
        snprintf(all + used, 1000 - used, "%s\n", finding->text);
    }
    return 0;
}

static void must_find(snib *client, const char *first, const char *second)
{
    char all[1000] = "";
    snib_error error = {0};
    CHECK_OK(snib_examine(client, note_finding, all, &error), error.message);
    if (strstr(all, first) == NULL || strstr(all, second) == NULL) {
        FAIL("'%s' and '%s' should be found, and this is: %s", first, second, all);
    }
}

TEST(nodes_of_a_user_are_for_that_user)
{
    char url[512];
    server_zookeeper(&server, NULL);
    snprintf(url, sizeof url, "zookeeper://ann:secret@127.0.0.1:%d/private?acl=creator",
             server.port);
    snib *ann = client_of(url);
    snib *again = client_of(url);
    snprintf(url, sizeof url, "zookeeper://127.0.0.1:%d/private", server.port);
    snib *other = client_of(url);
    snib_error error = {0};
    snib_lease *none = NULL;
    snib_lease *lease = take(ann, "report");
    snib_options options = waiting(0);
    CHECK_INT(snib_acquire(&none, again, "report", &options, &error), ==, SNIB_EBUSY);
    CHECK_INT(snib_acquire(&none, other, "report", &options, &error), ==, SNIB_EDENIED);
    CHECK_INT(snib_acquire(&none, other, "another", &options, &error), ==, SNIB_EDENIED);
    must_find(again, "/private may be listed", "nodes below /private may be made, written and");
    must_find(other, "/private may not be listed", "may not make nodes below /private");
    CHECK_INT(count_at(ann, "report"), ==, 1);
    give(&lease);
    snib_close(other);
    snib_close(again);
    snib_close(ann);
}

/* At the root there may be much that is not ours, and need not even be locks. */
TEST(a_list_leaves_out_what_may_not_be_read)
{
    char url[512], notice[240];
    int seen = 0;
    snib_error error = {0};
    server_zookeeper(&server, NULL);
    snprintf(url, sizeof url, "zookeeper://ann:secret@127.0.0.1:%d?acl=creator", server.port);
    snib *ann = client_of(url);
    snprintf(url, sizeof url, "zookeeper://127.0.0.1:%d", server.port);
    snib *other = client_of(url);
    snib_lease *first = take(other, "a"), *hidden = take(ann, "b"), *last = take(other, "c");
    CHECK_OK(snib_list(other, "", count_seen, &seen, &error), error.message);
    CHECK_INT(seen, ==, 2);
    CHECK_INT(snib_notice(other, notice, sizeof notice), ==, SNIB_OK);
    CHECK(strstr(notice, "left out: 1 below / ") != NULL);
    CHECK_INT(snib_inspect(other, "b", count_seen, &seen, &error), ==, SNIB_EDENIED);
    CHECK(strstr(error.message, "USER:PASSWORD@") != NULL);
    seen = 0;
    CHECK_OK(snib_list(ann, "", count_seen, &seen, &error), error.message);
    CHECK_INT(seen, ==, 3);
    CHECK_INT(snib_notice(ann, notice, sizeof notice), ==, SNIB_OK);
    CHECK(notice[0] == '\0');
    give(&last);
    give(&hidden);
    give(&first);
    snib_close(other);
    snib_close(ann);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Three members: leaders that die, members that stop or are cut off, and a leader that is none any
 * more.
 */
#include "etcd_links.h"
#include "etcd_world.h"
#include "overlap.h"

#include <signal.h>

enum { MEMBERS = ETCD_MEMBERS };

static struct server members[MEMBERS];
static struct etcd_links *links; /* where one is cut off */

static void url_of(char url[300], const char *parameters)
{
    snprintf(url, 300, "etcd://127.0.0.1:%d,127.0.0.1:%d,127.0.0.1:%d?%s", members[0].port,
             members[1].port, members[2].port, parameters);
}

/* The member that leads, as it says itself. */
static int leader(void)
{
    for (int i = 0; i < MEMBERS; i++) {
        const char *answer = etcd_post(&members[i], "maintenance/status", "{}");
        const char *id = strstr(answer, "\"member_id\":\""), *of = strstr(answer, "\"leader\":\"");
        CHECK(id != NULL && of != NULL);
        if (strtoull(id + 13, NULL, 10) == strtoull(of + 10, NULL, 10)) {
            return i;
        }
    }
    FAIL("nobody leads");
}

/* ---- Workers that must never overlap ---------------------------------------------------- */

struct crew {
    char url[300];
    struct overlap_log *log;
    struct check_flag stop;
    _Atomic int rounds;
    _Atomic int lost;
};

static void work(void *arg)
{
    struct crew *crew = arg;
    snib *client = client_of(crew->url);
    while (!check_flag_is_set(&crew->stop)) {
        snib_options options = SNIB_OPTIONS;
        snib_lease *lease;
        options.wait_ms = check_ms(2 * LONG_MS);
        options.flags = SNIB_RETRY;
        if (snib_acquire(&lease, client, "name", &options, NULL) != SNIB_OK) {
            continue;
        }
        size_t belief = overlap_begin(
            crew->log, &(struct overlap_grant){.name = 1, .token = snib_token(lease)});
        int64_t left_ms = snib_left_ms(lease);
        overlap_deadline(crew->log, belief, check_now_ns() + left_ms * 1000000);
        if (left_ms > 0) {
            atomic_fetch_add(&crew->rounds, 1);
        }
        overlap_end(crew->log, belief);
        int code = snib_release(&lease, NULL);
        atomic_fetch_add(&crew->lost, code == SNIB_ELOST);
    }
    snib_close(client);
}

static struct crew *crew_start(pid_t pids[], int count)
{
    struct crew *crew = check_shared(sizeof *crew);
    crew->log = overlap_open(400000);
    url_of(crew->url, "ttl=5s&timeout=4s");
    for (int i = 0; i < count; i++) {
        pids[i] = check_spawn(work, crew);
    }
    return crew;
}

static bool has_worked(void *arg)
{
    static int goal;
    struct crew *crew = arg;
    if (goal == 0) {
        goal = atomic_load(&crew->rounds) + 30;
    }
    bool reached = atomic_load(&crew->rounds) >= goal;
    goal = reached ? 0 : goal;
    return reached;
}

static void crew_end(struct crew *crew, const pid_t pids[], int count)
{
    check_flag_set(&crew->stop);
    for (int i = 0; i < count; i++) {
        check_join(pids[i], 4 * LONG_MS);
    }
    overlap_assert(crew->log);
}

static bool has_waiter(void *member)
{
    return etcd_keys(member, "name/") == 2;
}

static bool nothing_left(void *arg)
{
    return etcd_keys(arg, "name/") == 0 && etcd_leases(arg) == 0;
}

/* Whatever happens to a member, work goes on, nobody overlaps, and nothing is left. */
static void disturb(void (*hurt)(struct server *), void (*mend)(struct server *), bool hits_leader)
{
    enum { WORKERS = 3 };
    pid_t pids[WORKERS];
    struct crew *crew = crew_start(pids, WORKERS);
    CHECK(check_until(has_worked, crew, 2 * LONG_MS));
    int hit = leader();
    hit = hits_leader ? hit : (hit + 1) % MEMBERS;
    hurt(&members[hit]);
    CHECK(check_until(has_worked, crew, 2 * LONG_MS));
    mend(&members[hit]);
    CHECK(check_until(has_worked, crew, 2 * LONG_MS));
    crew_end(crew, pids, WORKERS);
    CHECK(check_until(nothing_left, &members[(hit + 1) % MEMBERS], 2 * LONG_MS));
}

TEST_LIMIT(a_killed_leader_stops_nobody_for_long, 120)
{
    server_etcd_cluster(members, MEMBERS, NULL);
    disturb(server_kill, server_start, true);
}

TEST_LIMIT(a_stopped_leader_stops_nobody_for_long, 120)
{
    server_etcd_cluster(members, MEMBERS, NULL);
    disturb(server_pause, server_resume, true);
}

TEST_LIMIT(a_stopped_follower_stops_nobody_for_long, 120)
{
    server_etcd_cluster(members, MEMBERS, NULL);
    disturb(server_pause, server_resume, false);
}

static void cut_off(struct server *member)
{
    etcd_links_cut(links, (int)(member - members));
}

static void mend(struct server *member)
{
    (void)member;
    etcd_links_mend(links);
}

/* It goes on talking to clients, which must leave it. */
TEST_LIMIT(a_leader_that_is_cut_off_stops_nobody_for_long, 120)
{
    links = etcd_links_start(members);
    disturb(cut_off, mend, true);
    etcd_links_end(links);
}

TEST_LIMIT(a_follower_that_is_cut_off_stops_nobody_for_long, 120)
{
    links = etcd_links_start(members);
    disturb(cut_off, mend, false);
    etcd_links_end(links);
}

/* ---- Behind a member that is cut off ----------------------------------------------------- */

/* The holder knows that member alone, which takes its keep-alives as long as it believes to lead;
 * the others elect a leader, and let the next one in. */
static void hold_behind_a_cut(bool leads)
{
    enum { ROUNDS = 3 };
    struct waiter *waiters[ROUNDS];
    pid_t pids[ROUNDS];
    char url[300];
    links = etcd_links_start(members);
    for (int round = 0; round < ROUNDS; round++) {
        waiters[round] = waiter_new("");
        pids[round] = check_spawn(wait_in_line, waiters[round]);
    }
    for (int round = 0; round < ROUNDS; round++) {
        struct waiter *w = waiters[round];
        int cut = leads ? leader() : (leader() + 1) % MEMBERS;
        snprintf(w->url, sizeof w->url, "etcd://127.0.0.1:%d,127.0.0.1:%d?ttl=4s",
                 members[(cut + 1) % MEMBERS].port, members[(cut + 2) % MEMBERS].port);
        snprintf(url, sizeof url, "etcd://127.0.0.1:%d?ttl=4s&timeout=2s", members[cut].port);
        snib *client = client_of(url);
        snib_lease *lease = take(client, "name", NULL);
        uint64_t token = snib_token(lease);
        check_flag_set(&w->go);
        CHECK(check_until(has_waiter, &members[(cut + 1) % MEMBERS], LONG_MS));
        check_sleep_ms(450 * round); /* at another point between two renewals */
        etcd_links_cut(links, cut);
        while (snib_left_ms(lease) > 0) {
            CHECK(!check_flag_is_set(&w->held));
            check_sleep_ms(2);
        }
        int64_t stopped_ns = check_now_ns();
        check_flag_wait(&w->held, 2 * LONG_MS);
        CHECK_INT(atomic_load(&w->held_ns), >, stopped_ns - 2000000);
        CHECK_UINT(atomic_load(&w->token), >, token);
        check_flag_set(&w->let_go);
        check_join(pids[round], LONG_MS);
        etcd_links_mend(links); /* there may be an election now */
        CHECK_INT(snib_release(&lease, NULL), ==, SNIB_ELOST);
        snib_close(client);
        CHECK(check_until(nothing_left, &members[cut], 2 * LONG_MS));
    }
    etcd_links_end(links);
}

TEST_LIMIT(behind_a_leader_that_is_cut_off_a_lock_ends_in_time, 150)
{
    hold_behind_a_cut(true);
}

TEST_LIMIT(behind_a_follower_that_is_cut_off_a_lock_ends_in_time, 150)
{
    hold_behind_a_cut(false);
}

/* ---- A leader that is none any more ----------------------------------------------------- */

static bool key_is_gone(void *member)
{
    return etcd_keys(member, "name/") == 0;
}

/* Stopped, replaced, woken: it answers the keep-alives that waited in its socket with the whole
 * ttl, although another leads. A holder that talks to it alone must not count that. */
TEST_LIMIT(a_leader_that_was_replaced_does_not_make_a_holder_believe_too_long, 120)
{
    server_etcd_cluster(members, MEMBERS, NULL);
    int old = leader();
    for (int round = 0; round < 2; round++) {
        char url[300];
        snprintf(url, sizeof url, "etcd://127.0.0.1:%d?ttl=8s&timeout=20s", members[old].port);
        snib *client = client_of(url);
        snib_lease *lease = take(client, "name", NULL);
        struct server *other = &members[(old + 1) % MEMBERS];
        server_pause(&members[old]);
        check_sleep_ms(4500 + 1500 * round); /* a keep-alive is sent, and waits */
        server_resume(&members[old]);
        for (int i = 0; i < 4000 && snib_state(lease) != SNIB_LOST; i++) {
            bool gone = key_is_gone(other);
            if (gone) {
                CHECK_INT(snib_left_ms(lease), <=, 0);
                break;
            }
            if (i > 20 && snib_state(lease) == SNIB_HELD && snib_left_ms(lease) > 5000) {
                break; /* renewed under the new leader: all is well */
            }
            check_sleep_ms(5);
        }
        (void)snib_release(&lease, NULL);
        snib_close(client);
        old = leader();
    }
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Failovers under load: a master, two replicas and three sentinels; the master is killed, stopped,
 * or cut off, alone or with a replica on its side, while workers on both sides take turns.
 *
 * Half of the workers come by way of the sentinels. The others are on the master's side, whatever
 * happens to it, until all is mended. Each guards two counters: one that believes its lease, and
 * one that looks at the token, too.
 *
 * With wait=majority nobody may overlap, and that is what runs by default, three failovers of each
 * kind. SNIB_FAILOVERS=N makes it N; the figures without it and with wait=1 run only with that.
 * SNIB_FAILOVER_REPORT=FILE gets the rows of the table in docs/evidence.md.
 */
#include "overlap.h"
#include "redis_group.h"
#include "snib.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { WORKERS = 6, NAMES = 3, LEASE_MS = 2000, PATIENCE_MS = 90000, TURNS = 20, LAG_MS = 400 };

/* ---- What is guarded -------------------------------------------------------------------- */

struct guarded {
    _Atomic uint64_t value, writes; /* by who believes its lease */
    atomic_flag busy;               /* of what follows */
    uint64_t last;                  /* token */
    uint64_t fenced_value, fenced_writes;
};

static void enter(struct guarded *g)
{
    while (atomic_flag_test_and_set(&g->busy)) {
        check_sleep_ms(1);
    }
}

/* What there is, if this token may see it. */
static bool fenced_read(struct guarded *g, uint64_t token, uint64_t *value)
{
    enter(g);
    bool may = token >= g->last;
    g->last = may ? token : g->last;
    *value = g->fenced_value;
    atomic_flag_clear(&g->busy);
    return may;
}

static void fenced_write(struct guarded *g, uint64_t token, uint64_t value)
{
    enter(g);
    if (token >= g->last) {
        g->last = token;
        g->fenced_value = value;
        g->fenced_writes++;
    }
    atomic_flag_clear(&g->busy);
}

/* ---- Workers ---------------------------------------------------------------------------- */

struct crew {
    char url[512];        /* by way of the sentinels */
    char parameters[128]; /* the same for those on the master's side */
    struct overlap_log *log;
    struct guarded names[NAMES];
    _Atomic int near_port; /* of the node that those are with */
    struct check_flag stop;
    _Atomic long far_turns, near_turns;
};

struct worker {
    struct crew *crew;
    int number;
};

static void hold(struct crew *crew, snib_lease *lease, int name, int ms)
{
    struct guarded *g = &crew->names[name];
    uint64_t token = snib_token(lease), fenced = 0;
    size_t belief = overlap_begin(crew->log, &(struct overlap_grant){.name = (uint32_t)name});
    int64_t end_ns = check_now_ns() + ms * 1000000LL;
    uint64_t seen = atomic_load(&g->value);
    bool may = fenced_read(g, token, &fenced);
    int64_t now_ns, left_ms;
    do {
        check_sleep_ms(2);
        now_ns = check_now_ns();
        left_ms = snib_left_ms(lease);
        overlap_deadline(crew->log, belief, now_ns + left_ms * 1000000);
    } while (left_ms > 0 && now_ns < end_ns);
    if (left_ms > 0) {
        atomic_store(&g->value, seen + 1);
        atomic_fetch_add(&g->writes, 1);
        if (may) {
            fenced_write(g, token, fenced + 1);
        }
    }
    overlap_end(crew->log, belief);
}

static void work(void *arg)
{
    struct worker *self = arg;
    struct crew *crew = self->crew;
    bool near = self->number % 2 == 0;
    unsigned random = (unsigned)self->number * 7919 + 1;
    int port = 0;
    snib *client = NULL;
    while (!check_flag_is_set(&crew->stop)) {
        int wanted = near ? atomic_load(&crew->near_port) : 1;
        if (wanted != port) {
            char url[512];
            if (client) {
                snib_close(client);
            }
            snprintf(url, sizeof url, "redis://127.0.0.1:%d?%s", wanted, crew->parameters);
            CHECK_INT(snib_open(&client, near ? url : crew->url, NULL), ==, SNIB_OK);
            port = wanted;
        }
        char name[16];
        int which = rand_r(&random) % NAMES;
        snib_options options = SNIB_OPTIONS;
        snib_lease *lease = NULL;
        options.wait_ms = 1000;
        options.flags = SNIB_RETRY;
        snprintf(name, sizeof name, "name%d", which);
        if (snib_acquire(&lease, client, name, &options, NULL) != SNIB_OK) {
            check_sleep_ms(20);
            continue;
        }
        hold(crew, lease, which, rand_r(&random) % 4 ? 10 : 1500);
        (void)snib_release(&lease, NULL);
        atomic_fetch_add(near ? &crew->near_turns : &crew->far_turns, 1);
    }
    if (client) {
        snib_close(client);
    }
}

struct turns_goal {
    _Atomic long *turns;
    long goal;
};

static bool has_turned(void *arg)
{
    const struct turns_goal *goal = arg;
    return atomic_load(goal->turns) >= goal->goal;
}

/* No client hangs, or needs a restart. */
static void await_turns(_Atomic long *turns, int more)
{
    struct turns_goal goal = {turns, atomic_load(turns) + more};
    CHECK(check_until(has_turned, &goal, PATIENCE_MS));
}

/* ---- Failovers -------------------------------------------------------------------------- */

static struct redis_group group;

enum kind { KILL, STOP, ISOLATE, ISOLATE_WITH_REPLICA, IN_TURN };
static const char *const kind_names[] = {"kill", "stop", "isolate", "isolate with a replica",
                                         "in turn"};

/* A replica that hears everything late, and is to be promoted. What its link still carries when the
 * master goes is lost with it. */
static void make_lag(struct crew *crew, struct proxy *slow, int master, int late)
{
    proxy_start(slow, group.nodes[master].port);
    group_do(group.nodes[(late + 1) % 3].port, "CONFIG SET replica-priority 100");
    group_do(group.nodes[(late + 2) % 3].port, "CONFIG SET replica-priority 100");
    group_do(group.nodes[late].port, "CONFIG SET replica-priority 1");
    group_do(group.nodes[late].port, "REPLICAOF 127.0.0.1 %d", slow->port);
    group_await_replicas(group.nodes[master].port, 2);
    proxy_set(slow, PROXY_TO_CLIENT, PROXY_DELAY, LAG_MS);
    await_turns(&crew->far_turns, TURNS / 2);
}

static void fail_over(struct crew *crew, enum kind kind)
{
    struct proxy slow;
    int master = group_master(&group);
    CHECK_INT(master, >=, 0);
    int stays = (master + 1) % 3;
    switch (kind) {
    case KILL:
        make_lag(crew, &slow, master, stays);
        proxy_stop(&slow);
        server_kill(&group.nodes[master]);
        break;
    case STOP:
        make_lag(crew, &slow, master, stays);
        proxy_stop(&slow);
        server_pause(&group.nodes[master]);
        break;
    case ISOLATE_WITH_REPLICA:
        group_do(group.nodes[stays].port, "REPLICAOF 127.0.0.1 %d", group.nodes[master].port);
        group_await_replicas(group.nodes[master].port, 2);
        group_cut(&group, stays);
        group_cut(&group, master);
        break;
    default:
        group_cut(&group, master);
        break;
    }
    int next = group_await_change(&group, master);
    if (kind == KILL) {
        server_start(&group.nodes[master]);
        group_follow(&group, master, next);
    }
    /* With half of the servers cut off no majority follows the new master before they are back. */
    if (kind == ISOLATE_WITH_REPLICA) {
        check_sleep_ms(3 * LEASE_MS);
    } else {
        await_turns(&crew->far_turns, TURNS);
    }
    if (kind == STOP) {
        server_resume(&group.nodes[master]);
    } else if (kind != KILL) {
        group_mend(&group, master);
        group_mend(&group, stays);
    }
    group_settle(&group);
    atomic_store(&crew->near_port, group.nodes[group_master(&group)].port);
    await_turns(&crew->far_turns, TURNS);
    await_turns(&crew->near_turns, TURNS);
}

static void tell(const char *mode, enum kind kind, int failovers,
                 const struct overlap_report *report, const struct crew *crew)
{
    uint64_t writes = 0, value = 0, fenced_writes = 0, fenced_value = 0;
    for (int i = 0; i < NAMES; i++) {
        writes += atomic_load(&crew->names[i].writes);
        value += atomic_load(&crew->names[i].value);
        fenced_writes += crew->names[i].fenced_writes;
        fenced_value += crew->names[i].fenced_value;
    }
    const char *path = getenv("SNIB_FAILOVER_REPORT");
    FILE *file = path ? fopen(path, "a") : NULL;
    if (file) {
        fprintf(file, "| %s | %s | %d | %zu | %zu | %lld | %llu of %llu | %llu of %llu |\n", mode,
                kind_names[kind], failovers, report->beliefs, report->overlaps,
                (long long)report->worst_us / 1000, (unsigned long long)(writes - value),
                (unsigned long long)writes, (unsigned long long)(fenced_writes - fenced_value),
                (unsigned long long)fenced_writes);
        CHECK(fclose(file) == 0);
    }
    CHECK_UINT(fenced_value, ==, fenced_writes);
    if (strcmp(mode, "wait=majority") == 0) {
        CHECK_UINT(value, ==, writes);
    }
}

static void fail_over_under_load(const char *mode, enum kind kind)
{
    const char *wanted = getenv("SNIB_FAILOVERS");
    int failovers = wanted ? atoi(wanted) : 3;
    failovers *= kind == IN_TURN ? IN_TURN : 1;
    static struct worker workers[WORKERS];
    static struct overlap_report report;
    pid_t pids[WORKERS];
    struct crew *crew = check_shared(sizeof *crew);
    crew->log = overlap_open(2000000);
    group_start(&group, &(struct group_wish){.nodes = 3, .sentinels = 3});
    group_open_epoch(group.nodes[0].port, "snib", 3, LEASE_MS);
    snprintf(crew->parameters, sizeof crew->parameters,
             "quarantine=no&passing=no&ttl=%dms&max-lease=%dms&timeout=1s&%s", LEASE_MS, LEASE_MS,
             mode[0] == 'w' ? mode : "db=0");
    group_url(&group, crew->url, sizeof crew->url, crew->parameters);
    atomic_store(&crew->near_port, group.nodes[0].port);
    for (int i = 0; i < WORKERS; i++) {
        workers[i] = (struct worker){crew, i};
        pids[i] = check_spawn(work, &workers[i]);
    }
    await_turns(&crew->far_turns, TURNS);
    await_turns(&crew->near_turns, TURNS);
    for (int i = 0; i < failovers; i++) {
        fail_over(crew, kind == IN_TURN ? (enum kind)(i % IN_TURN) : kind);
    }
    check_flag_set(&crew->stop);
    for (int i = 0; i < WORKERS; i++) {
        check_join(pids[i], PATIENCE_MS);
    }
    bool clean = overlap_check(crew->log, &report);
    tell(mode, kind, failovers, &report, crew);
    if (mode[0] == 'w' && mode[5] == 'm' && !clean) {
        FAIL("%s", report.text);
    }
}

TEST_LIMIT(a_killed_master_gives_nobody_a_second_holder, 7200)
{
    fail_over_under_load("wait=majority", KILL);
}

TEST_LIMIT(a_stopped_master_gives_nobody_a_second_holder, 7200)
{
    fail_over_under_load("wait=majority", STOP);
}

TEST_LIMIT(a_master_that_is_cut_off_gives_nobody_a_second_holder, 7200)
{
    fail_over_under_load("wait=majority", ISOLATE);
}

TEST_LIMIT(a_master_that_is_cut_off_with_a_replica_gives_nobody_a_second_holder, 7200)
{
    fail_over_under_load("wait=majority", ISOLATE_WITH_REPLICA);
}

/* ---- For the table ---------------------------------------------------------------------- */

static bool counts(void)
{
    return getenv("SNIB_FAILOVERS") != NULL;
}

/* SNIB_FAILOVER_KIND=0 to 3, or all of them in turn. */
static enum kind kind_wanted(void)
{
    const char *kind = getenv("SNIB_FAILOVER_KIND");
    return kind ? (enum kind)(atoi(kind) % IN_TURN) : IN_TURN;
}

TEST_CASE(figures_without_wait, 7200, counts)
{
    fail_over_under_load("none", kind_wanted());
}

TEST_CASE(figures_with_wait_1, 7200, counts)
{
    fail_over_under_load("wait=1", kind_wanted());
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Mutual exclusion: between threads, clients and processes, with and without deaths.
 *
 * Everybody first tries and then waits, and the first one inside does not leave before somebody
 * was refused: so there is contention in every run. Inside, a counter is read, kept for a while
 * and written; two who got the same new value were inside together. The log of beliefs says the
 * same in another way, and checks the tokens.
 */
#include "conformance.h"
#include "overlap.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { VISITORS = 8, UPDATES = 200000 };

struct visitor {
    struct arena *arena;
    snib *client; /* NULL: one of its own */
    int rounds;   /* 0: until `enough` */
    int pause_us;
    _Atomic int inside;
};

struct arena {
    struct overlap_log *log;
    const char *url;
    char path[256];
    struct racy_counter counter;
    struct check_barrier start;
    struct check_flag enough;
    _Atomic int refused;
    _Atomic int visits;
    _Atomic unsigned char written[UPDATES]; /* how many updates led to this value */
    struct visitor visitors[VISITORS];
};

static struct arena *arena_new(size_t beliefs)
{
    struct arena *arena = check_shared(sizeof *arena);
    arena->log = overlap_open(beliefs);
    arena->url = place();
    snprintf(arena->path, sizeof arena->path, "%s/counter", check_tmpdir());
    for (int i = 0; i < VISITORS; i++) {
        arena->visitors[i].arena = arena;
    }
    return arena;
}

/* One update; two that led to the same value are one that was lost. */
static void update(struct visitor *visitor)
{
    struct arena *arena = visitor->arena;
    uint64_t value = racy_increment_file(&arena->counter, arena->path, visitor->pause_us);
    CHECK_UINT(value, <, UPDATES);
    CHECK_INT(atomic_fetch_add(&arena->written[value], 1), ==, 0);
}

static snib_lease *enter(struct arena *arena, snib *client)
{
    snib_options options = trying(SNIB_EXCLUSIVE);
    snib_lease *lease = NULL;
    snib_error error = {0};
    int code = snib_acquire(&lease, client, "counter", &options, &error);
    if (code == SNIB_EBUSY) {
        atomic_fetch_add(&arena->refused, 1);
        options.wait_ms = -1;
        code = snib_acquire(&lease, client, "counter", &options, &error);
    }
    CHECK_OK(code, error.message);
    return lease;
}

static void stay(struct visitor *visitor, snib_lease *lease)
{
    struct arena *arena = visitor->arena;
    struct overlap_grant grant = {.name = 1, .token = snib_token(lease)};
    size_t belief = overlap_begin(arena->log, &grant);
    int64_t left_ms = snib_left_ms(lease);
    if (left_ms != SNIB_FOREVER) {
        overlap_deadline(arena->log, belief, check_now_ns() + left_ms * 1000000);
    }
    atomic_store(&visitor->inside, 1);
    int64_t end = check_now_ns() + check_ms(PATIENCE_MS) * INT64_C(1000000);
    while (atomic_load(&arena->refused) == 0 && check_now_ns() < end) {
        check_sleep_ms(1);
    }
    update(visitor);
    atomic_fetch_add(&arena->visits, 1);
    atomic_store(&visitor->inside, 0);
    overlap_end(arena->log, belief);
}

static void visit(struct visitor *visitor, snib *client)
{
    struct arena *arena = visitor->arena;
    for (int i = 0; visitor->rounds == 0 || i < visitor->rounds; i++) {
        if (check_flag_is_set(&arena->enough)) {
            break;
        }
        snib_lease *lease = enter(arena, client);
        stay(visitor, lease);
        give(&lease);
    }
}

static void visit_as_process(void *arg)
{
    struct visitor *visitor = arg;
    snib *client = client_at(visitor->arena->url);
    visit(visitor, client);
    snib_close(client);
}

static void *visit_as_thread(void *arg)
{
    struct visitor *visitor = arg;
    if (visitor->client != NULL) {
        visit(visitor, visitor->client);
    } else {
        visit_as_process(visitor);
    }
    return NULL;
}

/* All visits were made, none was lost, none overlapped, and there was contention. */
static void judge(struct arena *arena, int visits)
{
    overlap_assert(arena->log);
    CHECK_INT(atomic_load(&arena->visits), ==, visits);
    CHECK_UINT(racy_read_file(arena->path), ==, (uint64_t)visits);
    CHECK_INT(atomic_load(&arena->refused), >, 0);
}

/* ---- Without deaths --------------------------------------------------------------------- */

enum { GUESTS = 4, ROUNDS = 200 };

static void exclude_threads(snib *client)
{
    pthread_t threads[GUESTS];
    struct arena *arena = arena_new(GUESTS * ROUNDS);
    for (int i = 0; i < GUESTS; i++) {
        arena->visitors[i].client = client;
        arena->visitors[i].rounds = ROUNDS;
        CHECK(pthread_create(&threads[i], NULL, visit_as_thread, &arena->visitors[i]) == 0);
    }
    for (int i = 0; i < GUESTS; i++) {
        CHECK(pthread_join(threads[i], NULL) == 0);
    }
    judge(arena, GUESTS * ROUNDS);
}

TEST_LIMIT(threads_of_one_client_exclude_each_other, 60)
{
    snib *client = client_here();
    exclude_threads(client);
    snib_close(client);
}

TEST_LIMIT(clients_of_one_process_exclude_each_other, 60)
{
    exclude_threads(NULL);
}

TEST_LIMIT(processes_exclude_each_other, 60)
{
    pid_t pids[GUESTS];
    struct arena *arena = arena_new(GUESTS * ROUNDS);
    for (int i = 0; i < GUESTS; i++) {
        arena->visitors[i].rounds = ROUNDS;
        pids[i] = check_spawn(visit_as_process, &arena->visitors[i]);
    }
    for (int i = 0; i < GUESTS; i++) {
        check_join(pids[i], 50000);
    }
    judge(arena, GUESTS * ROUNDS);
}

TEST(different_names_do_not_exclude_each_other)
{
    snib *client = client_here();
    snib *other = client_here();
    snib_lease *left = take(client, "left", NULL);
    snib_lease *right = take(other, "right", NULL);
    must_be_held(other, "left");
    must_be_held(client, "right");
    give(&left);
    give(&right);
    snib_close(other);
    snib_close(client);
}

/* A lock passes knowledge on: what one thread wrote before its release, the next can read after
 * its grant, without any other synchronisation. The thread sanitizer is the judge. */
struct notebook {
    snib *client;
    long pages;
};

static void *write_pages(void *arg)
{
    struct notebook *notebook = arg;
    for (int i = 0; i < ROUNDS; i++) {
        snib_lease *lease = take(notebook->client, "notebook", NULL);
        notebook->pages++;
        give(&lease);
    }
    return NULL;
}

TEST_LIMIT(a_grant_sees_what_was_written_before_the_release, 60)
{
    pthread_t threads[GUESTS];
    struct notebook notebook = {.client = client_here()};
    for (int i = 0; i < GUESTS; i++) {
        CHECK(pthread_create(&threads[i], NULL, write_pages, &notebook) == 0);
    }
    for (int i = 0; i < GUESTS; i++) {
        CHECK(pthread_join(threads[i], NULL) == 0);
    }
    CHECK_INT(notebook.pages, ==, GUESTS * ROUNDS);
    snib_close(notebook.client);
}

/* ---- With deaths ------------------------------------------------------------------------ */

/* Every other time one that is inside, else any. */
static int choose_victim(struct arena *arena, int turn, unsigned *seed)
{
    int any = (int)((unsigned)rand_r(seed) % VISITORS);
    if (turn % 2 == 0) {
        return any;
    }
    /* The one before may keep it beyond its death. */
    int64_t end = check_now_ns() + orphan_bound_ms(SHORT_TTL_MS) * INT64_C(1000000);
    while (check_now_ns() < end) {
        for (int i = 0; i < VISITORS; i++) {
            if (atomic_load(&arena->visitors[i].inside) != 0) {
                return i;
            }
        }
        usleep(20);
    }
    return any;
}

/* Kills and replaces; answers how many of the dead held the lock. */
static int kill_at_random(struct arena *arena, pid_t *pids, int kills)
{
    unsigned seed = 20261115;
    int holders = 0;
    for (int turn = 0; turn < kills; turn++) {
        usleep((unsigned)rand_r(&seed) % 20000);
        int victim = choose_victim(arena, turn, &seed);
        overlap_kill(arena->log, pids[victim]);
        holders += atomic_exchange(&arena->visitors[victim].inside, 0);
        pids[victim] = check_spawn(visit_as_process, &arena->visitors[victim]);
    }
    return holders;
}

/* Only an update whose maker was killed may be without a note. */
static void no_update_may_be_missing(struct arena *arena, int deaths)
{
    uint64_t value = racy_read_file(arena->path);
    uint64_t noted = 0;
    for (uint64_t i = 1; i <= value; i++) {
        noted += atomic_load(&arena->written[i]);
    }
    CHECK_UINT(noted, <=, value);
    CHECK_UINT(value - noted, <=, (uint64_t)deaths);
    CHECK_UINT(noted, >=, (uint64_t)atomic_load(&arena->visits));
    for (uint64_t i = value + 1; i < UPDATES; i++) {
        CHECK_INT(atomic_load(&arena->written[i]), ==, 0);
    }
}

TEST_LIMIT(no_update_is_lost_while_holders_are_killed, 120)
{
    bool at_once = (engine_traits() & SNIB_TRAIT_AT_ONCE) != 0;
    int kills = at_once ? 60 : 8;
    pid_t pids[VISITORS];
    struct arena *arena = arena_new(UPDATES);
    arena->url = with_leases() ? place_with(SHORT_TTL) : place();
    for (int i = 0; i < VISITORS; i++) {
        arena->visitors[i].pause_us = 200 + 100 * i;
        pids[i] = check_spawn(visit_as_process, &arena->visitors[i]);
    }
    int holders = kill_at_random(arena, pids, kills);
    int visits = atomic_load(&arena->visits);
    int64_t end = check_now_ns() + check_ms(2 * PATIENCE_MS) * INT64_C(1000000);
    while (atomic_load(&arena->visits) < visits + 2 * VISITORS && check_now_ns() < end) {
        check_sleep_ms(1); /* the living go on after the last death */
    }
    CHECK_INT(atomic_load(&arena->visits), >=, visits + 2 * VISITORS);
    check_flag_set(&arena->enough);
    for (int i = 0; i < VISITORS; i++) {
        check_join(pids[i], 2 * PATIENCE_MS);
    }
    overlap_assert(arena->log);
    no_update_may_be_missing(arena, kills);
    CHECK_INT(holders, >=, kills / 8);
    CHECK_INT(atomic_load(&arena->refused), >, 0);
}

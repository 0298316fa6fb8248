/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The SQL engines when things go wrong: servers killed and started again, sessions ended behind our
 * back, connections cut and silenced, processes killed. Each case has a server of its own.
 */
#include "sql_world.h"

#include <signal.h>

/* ---- Dead holders ----------------------------------------------------------------------- */

struct holder {
    const char *url;
    struct check_flag held;
    _Atomic uint64_t token;
};

static void hold_for_ever(void *arg)
{
    struct holder *holder = arg;
    snib *client = client_at(holder->url);
    snib_lease *lease = take(client, "name");
    atomic_store(&holder->token, snib_token(lease));
    check_flag_set(&holder->held);
    for (;;) {
        pause();
    }
}

static void a_killed_holder_frees_at_once_also_for_who_waits(struct world *w)
{
    struct holder *holder = check_shared(sizeof *holder);
    holder->url = url_at(w, w->server.port, "ttl=30s");
    pid_t pid = check_spawn(hold_for_ever, holder);
    check_flag_wait(&holder->held, PATIENCE_MS);
    snib *client = client_of(w, "");
    CHECK_INT(try_it(client, "name", NULL), ==, SNIB_EBUSY);
    int64_t start = check_now_ns();
    check_kill(pid);
    snib_lease *lease = take(client, "name");
    CHECK_INT((check_now_ns() - start) / 1000000, <, check_ms(5000)); /* of 30 s */
    CHECK_UINT(snib_token(lease), >, atomic_load(&holder->token));
    give(&lease);
    snib_close(client);
}
ON_SESSIONS(a_killed_holder_frees_at_once_also_for_who_waits)

static void a_killed_holder_keeps_it_for_its_lease(struct world *w)
{
    struct holder *holder = check_shared(sizeof *holder);
    holder->url = url_at(w, w->server.port, "ttl=2s");
    pid_t pid = check_spawn(hold_for_ever, holder);
    check_flag_wait(&holder->held, PATIENCE_MS);
    snib *client = client_of(w, "");
    check_kill(pid);
    CHECK_INT(try_it(client, "name", NULL), ==, SNIB_EBUSY);
    snib_lease *lease = take(client, "name");
    CHECK_UINT(snib_token(lease), >, atomic_load(&holder->token));
    give(&lease);
    snib_close(client);
}
ON_LEASES(a_killed_holder_keeps_it_for_its_lease)

/* ---- The session is ended by somebody else ---------------------------------------------- */

static void end_all_sessions(const struct world *w)
{
    if (is_postgres(w)) {
        do_sql(w, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                  " WHERE application_name = 'snib'");
        return;
    }
    char *ids = sql_at(w, "SELECT id FROM information_schema.processlist WHERE user = 'snib'"
                          " AND id <> CONNECTION_ID()");
    char *rest = ids;
    for (char *id; (id = strsep(&rest, "\n")) != NULL;) {
        char kill_it[64];
        snprintf(kill_it, sizeof kill_it, "KILL %s", id);
        if (id[0]) {
            do_sql(w, kill_it);
        }
    }
    free(ids);
}

static void a_holder_whose_session_was_ended_is_told_at_once(struct world *w)
{
    snib *client = client_of(w, "ttl=30s"), *other = client_of(w, "");
    snib_lease *lease = take(client, "name");
    uint64_t token = snib_token(lease);
    check_sleep_ms(200); /* a lock held for a moment is watched */
    end_all_sessions(w);
    CHECK(check_until(is_lost, lease, 5000));
    snib_lease *next = take(other, "name");
    CHECK_UINT(snib_token(next), >, token);
    CHECK_INT(snib_release(&lease, NULL), ==, SNIB_ELOST);
    CHECK_INT(snib_verify(next, NULL), ==, SNIB_OK);
    give(&next);
    snib_close(other);
    snib_close(client);
}
ON_SESSIONS(a_holder_whose_session_was_ended_is_told_at_once)

static void a_lease_outlives_its_connection(struct world *w)
{
    snib *client = client_of(w, "ttl=3s"), *other = client_of(w, "");
    snib_lease *lease = take(client, "name");
    end_all_sessions(w);
    CHECK_INT(try_it(other, "name", NULL), ==, SNIB_EBUSY);
    int64_t end = check_now_ns() + 5000000000LL;
    while (check_now_ns() < end) {
        CHECK_INT(snib_state(lease), !=, SNIB_LOST);
        check_sleep_ms(50);
    }
    CHECK_INT(try_it(other, "name", NULL), ==, SNIB_EBUSY);
    give(&lease);
    CHECK_INT(try_it(other, "name", NULL), ==, SNIB_OK);
    snib_close(other);
    snib_close(client);
}
ON_LEASES(a_lease_outlives_its_connection)

/* ---- The server is killed and started again --------------------------------------------- */

static void a_restarted_server_grants_nothing_until_old_leases_are_over(struct world *w)
{
    snib *client = client_of(w, "ttl=2s&max-lease=4s");
    snib_lease *lease = take(client, "name");
    uint64_t token = snib_token(lease);
    check_sleep_ms(200);
    server_kill(&w->server);
    CHECK(check_until(is_lost, lease, 5000));
    int64_t killed = check_now_ns();
    server_start(&w->server);
    snib *other = client_of(w, "ttl=2s&max-lease=4s");
    snib_error error = {0};
    CHECK_INT(try_it(other, "other name", &error), ==, SNIB_EUNSAFE);
    CHECK(strstr(error.message, "started anew") != NULL);
    snib *careless = client_of(w, "quarantine=no");
    CHECK_INT(try_it(careless, "yet another", NULL), ==, SNIB_OK);
    snib_lease *next = take(other, "name");
    CHECK_INT(check_now_ns() - killed, >=, 4000000000LL);
    CHECK_UINT(snib_token(next), >, token);
    give(&next);
    CHECK_INT(snib_release(&lease, NULL), ==, SNIB_ELOST);
    snib_close(careless);
    snib_close(other);
    snib_close(client);
}
ON_SESSIONS(a_restarted_server_grants_nothing_until_old_leases_are_over)

static void a_lease_outlives_a_crash_of_the_server(struct world *w)
{
    snib *client = client_of(w, "ttl=20s"), *other = client_of(w, "");
    snib_lease *lease = take(client, "name");
    uint64_t token = snib_token(lease);
    server_kill(&w->server);
    server_start(&w->server);
    CHECK_INT(try_it(other, "name", NULL), ==, SNIB_EBUSY);
    CHECK_INT(snib_verify(lease, NULL), ==, SNIB_OK);
    CHECK_UINT(snib_token(lease), ==, token);
    give(&lease);
    lease = take(other, "name");
    CHECK_UINT(snib_token(lease), >, token);
    give(&lease);
    snib_close(other);
    snib_close(client);
}
ON_LEASES(a_lease_outlives_a_crash_of_the_server)

static void tokens_grow_over_crashes_of_the_server(struct world *w)
{
    uint64_t last = 0;
    for (int round = 0; round < 3; round++) {
        snib *client = client_of(w, "quarantine=no");
        for (int i = 0; i < 40; i++) {
            snib_lease *lease = take(client, "name");
            CHECK_UINT(snib_token(lease), >, last);
            last = snib_token(lease);
            if (i == 39) {
                server_kill(&w->server); /* right after a grant */
                (void)!snib_release(&lease, NULL);
            } else {
                give(&lease);
            }
        }
        server_start(&w->server);
        snib_close(client);
    }
}
ON_SESSIONS(tokens_grow_over_crashes_of_the_server)

/* ---- Connections ------------------------------------------------------------------------ */

/* The host vanishes: nothing arrives any more, and nobody says so. */
static void a_holder_that_is_cut_off_knows_before_the_next_enters(struct world *w)
{
    struct proxy proxy;
    proxy_start(&proxy, w->server.port);
    snib *client = client_at(url_at(w, proxy.port, "ttl=3s&timeout=1s")), *other = client_of(w, "");
    CHECK_INT(try_it(other, "name", NULL), ==, SNIB_OK); /* makes the tables, which takes a while */
    snib_lease *lease = take(client, "name");
    uint64_t token = snib_token(lease);
    proxy_set(&proxy, PROXY_BOTH, PROXY_SWALLOW, 0);
    int64_t start = check_now_ns();
    snib_lease *next = take(other, "name");
    CHECK_INT(snib_state(lease), ==, SNIB_LOST);
    CHECK_INT((check_now_ns() - start) / 1000000, <, check_ms(8000));
    CHECK_UINT(snib_token(next), >, token);
    give(&next);
    proxy_cut(&proxy, PROXY_RESET);
    proxy_heal(&proxy);
    CHECK_INT(snib_release(&lease, NULL), ==, SNIB_ELOST);
    snib_close(other);
    snib_close(client);
}
ON_ALL(a_holder_that_is_cut_off_knows_before_the_next_enters)

/* Not promised: something in between ends the server's side alone. The holder believes on, and the
 * token is what keeps its late write out. */
static void a_middlebox_makes_two_holders_and_the_token_tells_them_apart(struct world *w)
{
    struct proxy proxy;
    char path[256];
    snprintf(path, sizeof path, "%s/resource", check_tmpdir());
    proxy_start(&proxy, w->server.port);
    snib *client = client_at(url_at(w, proxy.port, "ttl=20s")), *other = client_of(w, "");
    snib_lease *lease = take(client, "name");
    proxy_half_open(&proxy, PROXY_SERVER_SIDE, PROXY_CLOSE);
    snib_lease *next = take(other, "name");
    CHECK_INT(snib_state(lease), ==, SNIB_HELD); /* it cannot know yet */
    CHECK_INT(snib_guard(path, snib_token(next), NULL), ==, SNIB_OK);
    CHECK_INT(snib_guard(path, snib_token(lease), NULL), ==, SNIB_ELOST);
    give(&next);
    proxy_cut(&proxy, PROXY_RESET);
    CHECK(check_until(is_lost, lease, 5000));
    CHECK_INT(snib_release(&lease, NULL), ==, SNIB_ELOST);
    snib_close(other);
    snib_close(client);
}
ON_SESSIONS(a_middlebox_makes_two_holders_and_the_token_tells_them_apart)

/* At each step of a connection's life: from the first byte of the server's greeting to the answer
 * of a release. Whatever the step, the caller gets an answer in time and nothing is left behind. */
static void a_connection_cut_at_any_step_leaves_nothing_behind(struct world *w)
{
    static const int steps[] = {0, 10, 60, 200, 400, 500, 600, 700, 800, 900, 1100, 1500};
    struct proxy proxy;
    snib *other = client_of(w, "quarantine=no");
    CHECK_INT(try_it(other, "name", NULL), ==, SNIB_OK);
    proxy_start(&proxy, w->server.port);
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
        snib *client = client_at(url_at(w, proxy.port, "ttl=1s&timeout=2s&quarantine=no"));
        snib_options options = waiting(check_ms(4000));
        snib_lease *lease = NULL;
        proxy_after(&proxy, PROXY_TO_CLIENT, (uint64_t)steps[i], PROXY_BYTES, PROXY_THEN_RESET);
        int code = snib_acquire(&lease, client, "name", &options, NULL);
        if (code == SNIB_OK) {
            (void)!snib_release(&lease, NULL);
        } else {
            CHECK(code == SNIB_EUNREACH || code == SNIB_EUNKNOWN);
        }
        proxy_heal(&proxy);
        snib_close(client);
        lease = take(other, "name");
        give(&lease);
    }
    snib_close(other);
}
ON_ALL(a_connection_cut_at_any_step_leaves_nothing_behind)

/* An attempt that arrives after the release that followed it gets nothing. */
TEST_LIMIT(an_attempt_that_was_overtaken_by_its_release_is_refused, 60)
{
    struct world *w = world_new("postgres", "lease", NULL);
    snib *client = client_of(w, "");
    CHECK_INT(try_it(client, "name", NULL), ==, SNIB_OK);
    do_sql(w, "SELECT snib.lease_release('s', 'n', '1', 1, 5000)");
    char *late = sql_at(w, "SELECT status FROM snib.lease_attempt('s', 'n', '1', 1, 0, 1, 9000,"
                           " true, 'w', '')");
    CHECK_STR(late, "5");
    free(late);
    char *fresh = sql_at(w, "SELECT status FROM snib.lease_attempt('s', 'n', '2', 1, 0, 1, 9000,"
                            " true, 'w', '')");
    CHECK_STR(fresh, "1");
    free(fresh);
    snib_close(client);
}

/* ---- All of it at once ------------------------------------------------------------------ */

enum { WORKERS = 5, CHAOS_MS = 6000 };

struct worker {
    const char *url;
    struct overlap_log *log;
    struct check_flag *stop;
    _Atomic int *grants;
};

static int below(int bound, unsigned *seed)
{
    return (int)((unsigned)rand_r(seed) % (unsigned)bound);
}

static void work(void *arg)
{
    struct worker *self = arg;
    snib *client = client_at(self->url);
    snib_options options = waiting(500);
    unsigned seed = (unsigned)getpid();
    while (!check_flag_is_set(self->stop)) {
        snib_lease *lease = NULL;
        if (snib_acquire(&lease, client, "name", &options, NULL) != SNIB_OK) {
            check_sleep_ms(5);
            continue;
        }
        size_t belief = overlap_begin(
            self->log, &(struct overlap_grant){.name = 1, .token = snib_token(lease)});
        for (int i = below(8, &seed); i > 0 && snib_state(lease) == SNIB_HELD; i--) {
            int64_t left_ms = snib_left_ms(lease);
            overlap_deadline(self->log, belief, check_now_ns() + left_ms * 1000000);
            check_sleep_ms(2);
        }
        overlap_end(self->log, belief);
        atomic_fetch_add(self->grants, 1);
        (void)!snib_release(&lease, NULL);
    }
    snib_close(client);
}

static void faults_never_let_two_in(struct world *w)
{
    struct proxy proxy;
    struct worker *workers = check_shared(WORKERS * sizeof *workers);
    struct check_flag *stop = check_shared(sizeof *stop);
    _Atomic int *grants = check_shared(sizeof *grants);
    struct overlap_log *log = overlap_open(200000);
    pid_t pids[WORKERS];
    unsigned seed = 7;
    snib *first = client_of(w, "quarantine=no");
    CHECK_INT(try_it(first, "other", NULL), ==, SNIB_OK);
    snib_close(first);
    proxy_start(&proxy, w->server.port);
    for (int i = 0; i < WORKERS; i++) {
        workers[i] =
            (struct worker){.url = url_at(w, proxy.port, "ttl=1s&timeout=500ms&quarantine=no"),
                            .log = log,
                            .stop = stop,
                            .grants = grants};
        pids[i] = check_spawn(work, &workers[i]);
    }
    int64_t end = check_now_ns() + CHAOS_MS * 1000000LL;
    for (int i = 0; check_now_ns() < end; i++) {
        check_sleep_ms(100 + below(200, &seed));
        switch (i % 4) {
        case 0: { /* a process dies */
            int who = below(WORKERS, &seed);
            overlap_kill(log, pids[who]);
            pids[who] = check_spawn(work, &workers[who]);
            break;
        }
        case 1: /* nothing gets through for a while */
            proxy_set(&proxy, PROXY_BOTH, PROXY_STALL, 0);
            check_sleep_ms(below(1500, &seed));
            proxy_heal(&proxy);
            break;
        case 2: /* connections end: in session mode that is a loss, which takes time to be told */
            if (is_leased(w)) {
                proxy_cut(&proxy, PROXY_RESET);
            }
            break;
        default:
            break;
        }
    }
    check_flag_set(stop);
    proxy_heal(&proxy);
    for (int i = 0; i < WORKERS; i++) {
        check_join(pids[i], PATIENCE_MS);
    }
    CHECK_INT(atomic_load(grants), >, 5);
    overlap_assert(log);
}
ON_ALL(faults_never_let_two_in)

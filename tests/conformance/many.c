/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Several names at once: all or none, one deadline, no dead-lock; and many names held.
 */
#include "conformance.h"

#include <stdio.h>
#include <sys/resource.h>

static const char *const left_to_right[] = {"ant", "bee", "cat"};
static const char *const right_to_left[] = {"cat", "bee", "ant"};
enum { NAMES = 3 };

/* Must be refused; all of `out` must be NULL then. */
static int all_refused(snib *client, const char *const names[], size_t n,
                       const snib_options *options)
{
    char garbage;
    snib_lease *out[8];
    snib_error error = {0};
    for (size_t i = 0; i < n; i++) {
        out[i] = (snib_lease *)&garbage;
    }
    int code = snib_acquire_all(out, client, names, n, options, &error);
    CHECK_INT(code, <, 0);
    CHECK_INT(error.code, ==, code);
    CHECK(error.message[0] != '\0');
    for (size_t i = 0; i < n; i++) {
        CHECK(out[i] == NULL);
    }
    return code;
}

TEST(several_names_come_in_the_order_given)
{
    snib *client = client_here();
    snib *other = client_here();
    snib_lease *leases[NAMES];
    snib_error error = {0};
    CHECK_OK(snib_acquire_all(leases, client, right_to_left, NAMES, NULL, &error), error.message);
    for (int i = 0; i < NAMES; i++) {
        CHECK_STR(snib_name(leases[i]), right_to_left[i]);
        CHECK_INT(snib_state(leases[i]), ==, SNIB_HELD);
        CHECK_INT(snib_verify(leases[i], NULL), ==, SNIB_OK);
        must_be_held(other, right_to_left[i]);
    }
    for (int i = 0; i < NAMES; i++) {
        give(&leases[i]);
        must_be_free(other, right_to_left[i]);
    }
    snib_close(other);
    snib_close(client);
}

TEST(one_held_name_means_none)
{
    snib *client = client_here();
    snib *other = client_here();
    snib_options at_once = trying(SNIB_EXCLUSIVE);
    for (int held = 0; held < NAMES; held++) {
        snib_lease *lease = take(other, left_to_right[held], NULL);
        CHECK_INT(all_refused(client, left_to_right, NAMES, &at_once), ==, SNIB_EBUSY);
        CHECK_INT(all_refused(client, right_to_left, NAMES, &at_once), ==, SNIB_EBUSY);
        for (int i = 0; i < NAMES; i++) {
            if (i != held) {
                must_be_free(other, left_to_right[i]);
            }
        }
        CHECK_INT(snib_verify(lease, NULL), ==, SNIB_OK);
        give(&lease);
    }
    snib_close(other);
    snib_close(client);
}

TEST(one_deadline_for_all_of_them)
{
    enum { FIRST_MS = 2000, WAIT_MS = 3000 };
    snib *client = client_here();
    snib *other = client_here();
    snib_options passing = trying(SNIB_EXCLUSIVE);
    snib_options options = SNIB_OPTIONS;
    passing.max_hold_ms = FIRST_MS;
    options.wait_ms = WAIT_MS;
    snib_lease *first = take(other, "ant", &passing); /* ends while the others wait for it */
    snib_lease *last = take(other, "cat", NULL);
    int64_t start = check_now_ns();
    CHECK_INT(all_refused(client, left_to_right, NAMES, &options), ==, SNIB_EBUSY);
    CHECK_INT(elapsed_ms(start), >=, WAIT_MS);
    CHECK_INT(elapsed_ms(start), <, WAIT_MS + FIRST_MS * 3 / 4); /* else each had its own */
    CHECK_INT(snib_release(&first, NULL), ==, SNIB_ELOST);
    must_be_free(other, "ant");
    must_be_free(other, "bee");
    give(&last);
    snib_close(other);
    snib_close(client);
}

TEST(all_are_still_held_when_the_last_one_comes)
{
    enum { SHORT_MS = 300, LATER_MS = 1000 };
    snib *client = client_here();
    snib *other = client_here();
    snib_options passing = trying(SNIB_EXCLUSIVE);
    snib_options options = SNIB_OPTIONS;
    snib_lease *leases[NAMES];
    passing.max_hold_ms = LATER_MS;
    options.max_hold_ms = SHORT_MS; /* the first name's would be over before the last comes */
    snib_lease *last = take(other, "cat", &passing);
    int code = snib_acquire_all(leases, client, left_to_right, NAMES, &options, NULL);
    if (code == SNIB_OK) {
        for (int i = 0; i < NAMES; i++) {
            CHECK_INT(snib_state(leases[i]), !=, SNIB_LOST);
            give(&leases[i]);
        }
    } else {
        CHECK_INT(code, ==, SNIB_ELOST);
        for (int i = 0; i < NAMES; i++) {
            CHECK(leases[i] == NULL);
            must_be_free(other, left_to_right[i]);
        }
    }
    CHECK_INT(snib_release(&last, NULL), ==, SNIB_ELOST);
    snib_close(other);
    snib_close(client);
}

TEST(a_name_given_twice_is_refused)
{
    static const char *const twice[] = {"ant", "bee", "ant"};
    snib *client = client_here();
    snib_options mine = owned(snib_thread(), SNIB_EXCLUSIVE);
    CHECK_INT(all_refused(client, twice, 3, NULL), ==, SNIB_EINVAL);
    CHECK_INT(all_refused(client, twice, 3, &mine), ==, SNIB_EINVAL);
    must_be_free(client, "ant");
    must_be_free(client, "bee");
    snib_close(client);
}

TEST(one_bad_name_means_none)
{
    static const char *const bad[] = {"ant", "", "cat"};
    snib *client = client_here();
    CHECK_INT(all_refused(client, bad, 3, NULL), ==, SNIB_EINVAL);
    must_be_free(client, "ant");
    must_be_free(client, "cat");
    snib_close(client);
}

/* ---- Opposite orders -------------------------------------------------------------------- */

/* Everybody sees who is inside; two at once, or a lost turn, would show. */
struct crossing {
    struct check_barrier start;
    _Atomic int inside;
    _Atomic int met; /* rounds that found the first name taken */
    _Atomic long turns;
};

struct traveller {
    struct crossing *crossing;
    const char *const *names;
    snib *client;
};

enum { TRAVELLERS = 4, TURNS = 150 };

static void cross(struct crossing *crossing, snib *client, const char *const *names)
{
    check_barrier_wait(&crossing->start, TRAVELLERS, PATIENCE_MS);
    for (int turn = 0; turn < TURNS; turn++) {
        snib_lease *leases[NAMES];
        snib_options options = trying(SNIB_EXCLUSIVE);
        snib_error error = {0};
        int code = snib_acquire_all(leases, client, names, NAMES, &options, &error);
        if (code == SNIB_EBUSY) {
            atomic_fetch_add(&crossing->met, 1);
            options.wait_ms = -1;
            code = snib_acquire_all(leases, client, names, NAMES, &options, &error);
        }
        CHECK_OK(code, error.message);
        CHECK_INT(atomic_fetch_add(&crossing->inside, 1), ==, 0);
        /* The first to get here waits for the others to meet a taken name. */
        int64_t end = check_now_ns() + check_ms(PATIENCE_MS) * INT64_C(1000000);
        while (atomic_load(&crossing->met) == 0 && check_now_ns() < end) {
            check_sleep_ms(1);
        }
        atomic_fetch_add(&crossing->turns, 1);
        atomic_fetch_sub(&crossing->inside, 1);
        for (int i = 0; i < NAMES; i++) {
            give(&leases[i]);
        }
    }
}

static void cross_as_process(void *arg)
{
    struct traveller *traveller = arg;
    snib *client = client_here();
    cross(traveller->crossing, client, traveller->names);
    snib_close(client);
}

static void *cross_as_thread(void *arg)
{
    struct traveller *traveller = arg;
    cross(traveller->crossing, traveller->client, traveller->names);
    return NULL;
}

static void prepare_travellers(struct traveller *travellers, snib *client)
{
    struct crossing *crossing = check_shared(sizeof *crossing);
    for (int i = 0; i < TRAVELLERS; i++) {
        travellers[i].crossing = crossing;
        travellers[i].names = i % 2 == 0 ? left_to_right : right_to_left;
        travellers[i].client = client;
    }
}

static void all_must_have_crossed(const struct crossing *crossing)
{
    CHECK_INT(atomic_load(&crossing->turns), ==, TRAVELLERS * TURNS);
    CHECK_INT(atomic_load(&crossing->met), >, 0);
}

TEST_LIMIT(opposite_orders_in_processes_do_not_dead_lock, 240)
{
    struct traveller travellers[TRAVELLERS];
    pid_t pids[TRAVELLERS];
    (void)place();
    prepare_travellers(travellers, NULL);
    for (int i = 0; i < TRAVELLERS; i++) {
        pids[i] = check_spawn(cross_as_process, &travellers[i]);
    }
    for (int i = 0; i < TRAVELLERS; i++) {
        check_join(pids[i], 200000);
    }
    all_must_have_crossed(travellers[0].crossing);
}

TEST_LIMIT(opposite_orders_in_threads_do_not_dead_lock, 60)
{
    struct traveller travellers[TRAVELLERS];
    pthread_t threads[TRAVELLERS];
    snib *client = client_here();
    prepare_travellers(travellers, client);
    for (int i = 0; i < TRAVELLERS; i++) {
        CHECK(pthread_create(&threads[i], NULL, cross_as_thread, &travellers[i]) == 0);
    }
    for (int i = 0; i < TRAVELLERS; i++) {
        CHECK(pthread_join(threads[i], NULL) == 0);
    }
    all_must_have_crossed(travellers[0].crossing);
    snib_close(client);
}

/* ---- Many names ------------------------------------------------------------------------- */

enum { MANY = 2000, SPARE_DESCRIPTORS = 64 };

/* As many as this process may hold descriptors for, should each name need one. */
static int how_many(void)
{
    struct rlimit limit;
    CHECK(getrlimit(RLIMIT_NOFILE, &limit) == 0);
    limit.rlim_cur = limit.rlim_max < 4096 ? limit.rlim_max : 4096;
    CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
    rlim_t room = limit.rlim_cur - SPARE_DESCRIPTORS;
    return room < MANY ? (int)room : MANY;
}

static void name_number(char *name, size_t size, int number)
{
    snprintf(name, size, "job/%d", number);
}

TEST_LIMIT(thousands_of_names_are_held_at_once, 240)
{
    static snib_lease *leases[MANY];
    int count = how_many();
    (void)place(); /* what it starts is not the client's */
    int threads = own_threads();
    int descriptors = check_fd_count();
    char name[32];
    snib *client = client_here();
    for (int i = 0; i < count; i++) {
        name_number(name, sizeof name, i);
        leases[i] = take(client, name, NULL);
    }
    CHECK(at_most_threads(threads + 2));
    CHECK_INT(check_fd_count(), <=, descriptors + count + SPARE_DESCRIPTORS / 2);
    snib *other = client_here();
    for (int i = 0; i < count; i += 97) {
        name_number(name, sizeof name, i);
        must_be_held(other, name);
    }
    for (int i = 0; i < count; i++) {
        give(&leases[i]);
    }
    for (int i = 0; i < count; i += 97) {
        name_number(name, sizeof name, i);
        must_be_free(other, name);
    }
    snib_close(other);
    snib_close(client);
    CHECK_INT(check_fd_count(), <=, descriptors);
}

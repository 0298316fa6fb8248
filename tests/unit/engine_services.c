/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the core does for an engine beside asking it: sleeping for it, being roused by its threads,
 * driving it at a date, waiting for what it undoes, taking back what it promised.
 */
#include "fake_engine.h"

#include <sched.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>

static bool above(void *arg)
{
    const int *least = arg;
    return atomic_load(&fake.rounds) > *least;
}

static void wait_rounds(int least)
{
    CHECK(check_until(above, &least, 5000));
}

/* ---- Rousing ---------------------------------------------------------------------------- */

static atomic_int letters; /* from a thread of the engine's library */
static atomic_int read_letters;

static void attend(struct snib__claim *claim)
{
    claim->session->attend = 1;
}

static void take_letters(struct snib__session *s)
{
    (void)s;
    atomic_fetch_add(&read_letters, atomic_exchange(&letters, 0));
}

static void *write_letters(void *arg)
{
    snib *client = arg;
    for (int i = 1; i <= 100; i++) {
        atomic_fetch_add(&letters, 1);
        snib__rouse(&client->session);
        for (int k = 0; k < 5000 && atomic_load(&read_letters) < i; k++) {
            check_sleep_ms(1);
        }
        CHECK_INT(atomic_load(&read_letters), ==, i);
    }
    return NULL;
}

TEST(a_foreign_thread_rouses_whoever_drives)
{
    fake.on_attempt = attend;
    fake.on_drive = take_letters;
    snib *client = fake_client("fake://here");
    snib_lease *lease = fake_acquire(client, NULL);
    pthread_t thread;
    CHECK_INT(pthread_create(&thread, NULL, write_letters, client), ==, 0);
    CHECK_INT(pthread_join(thread, NULL), ==, 0);
    CHECK_INT(atomic_load(&fake.rounds), <, 1000); /* by the descriptor, and not by looking often */
    CHECK_INT(snib_release(&lease, NULL), ==, SNIB_OK);
    snib_close(client);
}

TEST(rousing_somebody_who_has_not_gone_to_sleep_yet_is_not_forgotten)
{
    fake.on_drive = take_letters;
    snib *client = fake_client("fake://here");
    atomic_fetch_add(&letters, 1);
    snib__rouse(&client->session); /* before there is anything to wake */
    CHECK_INT(atomic_load(&fake.rounds), ==, 0);
    snib__enter(client);
    client->session.attend = 1;
    snib__leave(client);
    wait_rounds(1); /* once around, and the sleep that follows ends at once */
    CHECK_INT(atomic_load(&read_letters), ==, 1);
    check_sleep_ms(50);
    CHECK_INT(atomic_load(&fake.rounds), ==, 2); /* and then it sleeps */
    snib_close(client);
}

/* ---- Descriptors ------------------------------------------------------------------------ */

static atomic_int ready_at = -1;

static void look_at_descriptors(struct snib__session *s)
{
    (void)s;
    for (size_t i = 0; i < fake.fd_count; i++) {
        uint64_t count;
        if (fake.fds[i].revents & POLLIN) {
            CHECK_INT(read(fake.fds[i].fd, &count, sizeof count), ==, sizeof count);
            atomic_store(&ready_at, (int)i);
        }
        fake.fds[i].revents = 0;
    }
}

static bool is_ready(void *arg)
{
    return atomic_load(&ready_at) == *(const int *)arg;
}

TEST(an_engine_sleeps_on_as_many_descriptors_as_it_was_promised)
{
    for (int i = 0; i < FAKE_FDS; i++) {
        fake.fds[i] = (struct pollfd){.fd = eventfd(0, EFD_CLOEXEC), .events = POLLIN};
        CHECK(fake.fds[i].fd >= 0);
    }
    fake.fd_count = FAKE_FDS;
    fake.on_attempt = attend;
    fake.on_drive = look_at_descriptors;
    snib *client = fake_client("fake://here");
    snib_lease *lease = fake_acquire(client, NULL);
    for (int i = FAKE_FDS - 1; i >= 0; i -= 9) {
        uint64_t one = 1;
        CHECK_INT(write(fake.fds[i].fd, &one, sizeof one), ==, sizeof one);
        CHECK(check_until(is_ready, &i, 5000));
    }
    CHECK_INT(snib_release(&lease, NULL), ==, SNIB_OK);
    snib_close(client);
    for (int i = 0; i < FAKE_FDS; i++) {
        close(fake.fds[i].fd);
    }
}

/* ---- Answers that nobody waits for ------------------------------------------------------- */

static bool nothing_is_owed(void *arg)
{
    snib *client = arg;
    pthread_mutex_lock(&client->lock); /* not by snib__enter: who leaves calls the keeper */
    size_t owed = fake.owed_count;
    pthread_mutex_unlock(&client->lock);
    return owed == 0;
}

static void release_untold(snib *client)
{
    snib_options options = SNIB_OPTIONS;
    options.flags = SNIB_ASYNC_RELEASE;
    snib_lease *lease = fake_acquire(client, &options);
    CHECK_INT(snib_release(&lease, NULL), ==, SNIB_OK);
}

TEST(the_answer_to_a_release_that_nobody_waits_for_is_read_all_the_same)
{
    fake.sends = true;
    snib *client = fake_client("fake://here");
    for (int i = 0; i < 3; i++) {
        release_untold(client);
        CHECK(check_until(nothing_is_owed, client, 5000));
        check_sleep_ms(20); /* and then the keeper sleeps */
    }
    snib_close(client);
}

TEST(releases_that_nobody_waits_for_are_read_together)
{
    fake.sends = true;
    snib *client = fake_client("fake://here");
    int64_t start_ns = check_now_ns();
    for (int i = 0; i < 500; i++) {
        release_untold(client);
        usleep(100); /* the keeper could come each time */
    }
    int64_t took_ms = (check_now_ns() - start_ns) / SNIB__MS;
    CHECK_INT(atomic_load(&fake.drives), <=, took_ms + 10);
    CHECK(check_until(nothing_is_owed, client, 5000));
    snib_close(client);
}

static size_t owed_at_close;

static void note_owed(struct snib__session *session)
{
    (void)session;
    owed_at_close = fake.owed_count;
}

TEST(a_client_is_closed_when_the_last_answer_that_nobody_waits_for_was_read)
{
    fake.sends = true;
    fake.on_close = note_owed;
    for (int i = 0; i < 20; i++) {
        snib *client = fake_client("fake://here");
        owed_at_close = 1;
        release_untold(client);
        release_untold(client);
        snib_close(client);
        CHECK_INT(owed_at_close, ==, 0);
    }
}

/* ---- The keeper stays out of the way ----------------------------------------------------- */

static void doze(struct snib__session *session)
{
    snib__sleep(session, NULL, 0, snib__now().boot_ns + 200000);
}

static int64_t sleeps_of(int who)
{
    struct rusage usage;
    CHECK_INT(getrusage(who, &usage), ==, 0);
    return usage.ru_nvcsw;
}

/* On one processor, and where nobody is interrupted by whom it wakes, the keeper runs when the
 * other thread sleeps, and finds it driving. */
TEST(a_thread_that_acquires_and_releases_wakes_nobody)
{
    enum { TURNS = 500 };
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET((size_t)sched_getcpu(), &one);
    CHECK_INT(sched_setaffinity(0, sizeof one, &one), ==, 0);
    CHECK_INT(sched_setscheduler(0, SCHED_BATCH, &(struct sched_param){0}), ==, 0);
    fake.sends = true;
    fake.on_drive = doze;
    snib *client = fake_client("fake://here");
    snib_options options = SNIB_OPTIONS;
    options.max_hold_ms = 60000; /* a date for the keeper */
    int64_t others = sleeps_of(RUSAGE_SELF) - sleeps_of(RUSAGE_THREAD);
    for (int i = 0; i < TURNS; i++) {
        snib_lease *lease = fake_acquire(client, &options);
        CHECK_INT(snib_release(&lease, NULL), ==, SNIB_OK);
    }
    others = sleeps_of(RUSAGE_SELF) - sleeps_of(RUSAGE_THREAD) - others;
    CHECK_INT(others, <, TURNS / 5);
    snib_close(client);
}

/* ---- A date ----------------------------------------------------------------------------- */

static atomic_llong date_ns, driven_ns;

static void make_date(struct snib__claim *claim)
{
    claim->session->wake_ns = snib__now().boot_ns + 200 * SNIB__MS;
    atomic_store(&date_ns, claim->session->wake_ns);
}

static void note_time(struct snib__session *s)
{
    (void)s;
    if (atomic_load(&driven_ns) == 0) {
        atomic_store(&driven_ns, snib__now().boot_ns);
    }
}

TEST(an_engine_is_driven_at_its_date_although_nobody_waits)
{
    fake.on_attempt = make_date;
    fake.on_drive = note_time;
    snib *client = fake_client("fake://here");
    snib_lease *lease = fake_acquire(client, NULL);
    CHECK_INT(atomic_load(&fake.drives), ==, 0);
    wait_rounds(0);
    CHECK_INT(atomic_load(&driven_ns), >=, atomic_load(&date_ns));
    CHECK_INT(atomic_load(&driven_ns), <, atomic_load(&date_ns) + check_ms(1000) * SNIB__MS);
    check_sleep_ms(50); /* the date was for once */
    CHECK_INT(atomic_load(&fake.drives), <=, 2);
    CHECK_INT(snib_release(&lease, NULL), ==, SNIB_OK);
    snib_close(client);
}

/* ---- Undoing ---------------------------------------------------------------------------- */

static atomic_llong undone_at_ns; /* SNIB__NEVER: it never is */
static atomic_int undoing_at_close = -1;

static void leave_something(struct snib__session *s)
{
    s->undoing = 1;
}

static void undo(struct snib__session *s)
{
    if (s->undoing && snib__now().boot_ns >= atomic_load(&undone_at_ns)) {
        s->undoing = 0;
    }
}

static void note_close(struct snib__session *s)
{
    atomic_store(&undoing_at_close, s->undoing);
}

static int64_t close_and_measure_ms(snib *client)
{
    int64_t start_ns = check_now_ns();
    snib_close(client);
    return (check_now_ns() - start_ns) / SNIB__MS;
}

static snib *client_that_undoes(const char *url)
{
    fake.on_release = leave_something;
    fake.on_drive = undo;
    fake.on_close = note_close;
    atomic_store(&undone_at_ns, SNIB__NEVER);
    snib *client = fake_client(url);
    snib_lease *lease = fake_acquire(client, NULL);
    CHECK_INT(snib_release(&lease, NULL), ==, SNIB_OK); /* nobody waits for the undoing here */
    return client;
}

static void *finish_undoing(void *arg)
{
    snib *client = arg;
    check_sleep_ms(150);
    atomic_store(&undone_at_ns, 1);
    snib__rouse(&client->session);
    return NULL;
}

TEST(close_waits_until_everything_is_undone)
{
    snib *client = client_that_undoes("fake://here?timeout=2s");
    pthread_t thread;
    CHECK_INT(pthread_create(&thread, NULL, finish_undoing, client), ==, 0);
    int64_t took_ms = close_and_measure_ms(client);
    CHECK_INT(atomic_load(&undoing_at_close), ==, 0);
    CHECK_INT(took_ms, >=, 100);
    CHECK_INT(took_ms, <, check_ms(1500)); /* at once then, whoever drives */
    CHECK_INT(pthread_join(thread, NULL), ==, 0);
}

TEST(close_does_not_wait_longer_than_a_request_may_take)
{
    snib *client = client_that_undoes("fake://here?timeout=200ms");
    int64_t took_ms = close_and_measure_ms(client);
    CHECK_INT(atomic_load(&undoing_at_close), ==, 1);
    CHECK_INT(took_ms, >=, 600);
    CHECK_INT(took_ms, <, check_ms(3000));
}

/* ---- Traits ----------------------------------------------------------------------------- */

static void find_less(struct snib__claim *claim)
{
    snib__traits(claim->session,
                 (fake_engine.traits | SNIB_TRAIT_FAIR) & ~(unsigned)SNIB_TRAIT_SHARED);
}

TEST(what_contact_does_not_find_is_refused_from_then_on)
{
    fake.on_attempt = find_less;
    snib *client = fake_client("fake://here");
    CHECK_UINT(snib_traits(client), ==, SNIB_TRAIT_SHARED | SNIB_TRAIT_COUNTED);
    snib_lease *lease = fake_acquire(client, NULL);
    CHECK_UINT(snib_traits(client), ==, SNIB_TRAIT_COUNTED); /* fewer, and no other ones */
    CHECK_INT(snib_release(&lease, NULL), ==, SNIB_OK);
    snib_options o = SNIB_OPTIONS;
    snib_error error;
    o.mode = SNIB_SHARED;
    CHECK_INT(snib_acquire(&lease, client, "name", &o, &error), ==, SNIB_ENOTSUP);
    CHECK(strstr(error.message, "fake: no shared locks") != NULL);
    o.mode = SNIB_COUNTED;
    o.permits = 2;
    lease = fake_acquire(client, &o);
    CHECK_INT(snib_release(&lease, NULL), ==, SNIB_OK);
    snib_close(client);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Waiting: order, wake-ups that are not lost, and processes that die, stop or cannot be seen. */
#include "engines/file/waking.h"
#include "file_test.h"

#include "engines/file/ring.h"

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>

/* ---- Order ------------------------------------------------------------------------------ */

TEST(a_newcomer_does_not_pass_a_waiter_when_the_lock_is_free)
{
    snib *client = client_here();
    snib *other = client_here();
    snib_lease *lease = take(client, "x");
    struct helper *w = waiter(client, "x", SNIB_EXCLUSIVE);
    check_stop(w->pid); /* so that the lock stays free after the release */
    give(&lease);
    CHECK_INT(inspect(client, "x").holders, ==, 0);
    CHECK_INT(try_it(client, "x"), ==, SNIB_EBUSY);
    CHECK_INT(try_it(other, "x"), ==, SNIB_EBUSY);
    snib_error error;
    CHECK_INT(try_with(other, "x", waiting(SNIB_SHARED, 0), &error), ==, SNIB_EBUSY);
    check_cont(w->pid);
    must_come_at_once(w);
    let_go(w);
    snib_close(other);
    snib_close(client);
}

TEST_LIMIT(a_stopped_waiter_is_passed_and_keeps_its_place, 60)
{
    snib *client = client_here();
    snib_lease *lease = take(client, "x");
    struct helper *first = waiter(client, "x", SNIB_EXCLUSIVE);
    struct helper *second = waiter(client, "x", SNIB_EXCLUSIVE);
    struct helper *third = waiter(client, "x", SNIB_EXCLUSIVE);
    struct helper *fourth = waiter(client, "x", SNIB_EXCLUSIVE);
    check_stop(first->pid);
    int64_t start = check_now_ns();
    give(&lease);
    check_flag_wait(&second->held, PATIENCE_MS);
    CHECK_INT(elapsed_ms(start), >=, 900);
    CHECK_INT(elapsed_ms(start), <, check_ms(6000));
    CHECK(!check_flag_is_set(&first->held));
    CHECK_INT(inspect(client, "x").waiters, ==, 3);
    /* Known to be stopped, it does not cost the next one a second again. */
    let_go(second);
    must_come_at_once(third);
    check_cont(first->pid);
    check_sleep_ms(100);
    let_go(third);
    must_come_at_once(first); /* before the fourth */
    CHECK(!check_flag_is_set(&fourth->held));
    let_go(first);
    must_come_at_once(fourth);
    let_go(fourth);
    snib_close(client);
}

TEST(a_waiting_writer_stops_new_readers_and_then_readers_go_together)
{
    snib *client = client_here();
    snib *other = client_here();
    snib_error error;
    snib_options shared = waiting(SNIB_SHARED, PATIENCE_MS);
    snib_lease *reader = take_with(client, "x", &shared);
    CHECK_INT(try_with(other, "x", shared, &error), ==, 0);
    struct helper *writer = waiter(client, "x", SNIB_EXCLUSIVE);
    CHECK_INT(try_with(other, "x", shared, &error), ==, SNIB_EBUSY);
    CHECK_INT(try_with(client, "x", shared, &error), ==, SNIB_EBUSY);
    struct helper *readers[4];
    for (int i = 0; i < 4; i++) {
        readers[i] = waiter(client, "x", SNIB_SHARED);
    }
    struct helper *last = waiter(client, "x", SNIB_EXCLUSIVE);
    give(&reader);
    must_come_at_once(writer);
    CHECK_INT(inspect(client, "x").waiters, ==, 5);
    let_go(writer);
    for (int i = 0; i < 4; i++) {
        must_come_at_once(readers[i]);
    }
    CHECK(!check_flag_is_set(&last->held));
    CHECK_INT(inspect(client, "x").holders, ==, 4);
    for (int i = 0; i < 4; i++) {
        let_go(readers[i]);
    }
    must_come_at_once(last);
    let_go(last);
    snib_close(other);
    snib_close(client);
}

TEST(readers_behind_a_writer_that_gives_up_go_at_once)
{
    snib *client = client_here();
    snib_options shared = waiting(SNIB_SHARED, PATIENCE_MS);
    snib_lease *reader = take_with(client, "x", &shared);
    struct helper *writer = helper_make("x", waiting(SNIB_EXCLUSIVE, 400));
    helper_start(writer);
    await_waiters(client, "x", 1);
    struct helper *first = waiter(client, "x", SNIB_SHARED);
    struct helper *second = waiter(client, "x", SNIB_SHARED);
    check_flag_wait(&writer->held, PATIENCE_MS);
    CHECK_INT(writer->code, ==, SNIB_EBUSY);
    must_come_at_once(first);
    must_come_at_once(second);
    let_go(first);
    let_go(second);
    check_join(writer->pid, PATIENCE_MS);
    give(&reader);
    snib_close(client);
}

TEST(permits_are_given_in_order_and_several_at_a_time)
{
    snib *client = client_here();
    snib_options three = counting(3, PATIENCE_MS);
    snib_lease *leases[3];
    struct helper *w[5];
    for (int i = 0; i < 3; i++) {
        leases[i] = take_with(client, "x", &three);
    }
    for (int i = 0; i < 5; i++) {
        w[i] = helper_make("x", three);
        helper_start(w[i]);
        await_waiters(client, "x", (size_t)i + 1);
    }
    give(&leases[1]);
    must_come_at_once(w[0]);
    CHECK(!check_flag_is_set(&w[1]->held));
    give(&leases[0]);
    give(&leases[2]);
    must_come_at_once(w[1]);
    must_come_at_once(w[2]);
    CHECK(!check_flag_is_set(&w[3]->held));
    check_kill(w[0]->pid);
    check_kill(w[2]->pid);
    must_come_at_once(w[3]);
    must_come_at_once(w[4]);
    CHECK_INT(inspect(client, "x").holders, ==, 3);
    let_go(w[1]);
    let_go(w[3]);
    let_go(w[4]);
    CHECK_INT(inspect(client, "x").holders, ==, 0);
    snib_close(client);
}

struct reader {
    pthread_t thread;
    snib *client;
};

static void *read_once(void *arg)
{
    struct reader *r = arg;
    snib_options shared = waiting(SNIB_SHARED, PATIENCE_MS);
    snib_lease *lease = take_with(r->client, "x", &shared);
    give(&lease);
    return NULL;
}

static int count_waiters(const snib_seen *seen, void *arg)
{
    *(int *)arg += seen->place > 0;
    return 0;
}

/* More than are rung in one go. */
TEST(many_readers_of_many_sessions_all_come)
{
    enum { READERS = 3 * RINGS_MAX };
    static struct reader readers[READERS];
    snib *client = client_here();
    snib_lease *lease = take(client, "x");
    for (int i = 0; i < READERS; i++) {
        readers[i].client = client_here();
        CHECK(pthread_create(&readers[i].thread, NULL, read_once, &readers[i]) == 0);
    }
    for (int count = 0; count < READERS; check_sleep_ms(1)) {
        count = 0;
        CHECK_INT(snib_inspect(client, "x", count_waiters, &count, NULL), ==, 0);
    }
    give(&lease);
    int64_t start = check_now_ns();
    for (int i = 0; i < READERS; i++) {
        pthread_join(readers[i].thread, NULL);
        snib_close(readers[i].client);
    }
    CHECK_INT(elapsed_ms(start), <, check_ms(AT_ONCE_MS));
    snib_close(client);
}

/* ---- Death ------------------------------------------------------------------------------ */

TEST(the_lock_of_a_killed_holder_is_the_next_waiters_at_once)
{
    snib *client = client_here();
    struct helper *h = holder("x", SNIB_EXCLUSIVE);
    struct helper *w = waiter(client, "x", SNIB_EXCLUSIVE);
    check_sleep_ms(50);
    check_kill(h->pid);
    must_come_at_once(w);
    CHECK_UINT(w->token, >, h->token);
    let_go(w);
    snib_close(client);
}

TEST(a_killed_waiter_is_not_in_the_way)
{
    snib *client = client_here();
    snib_lease *lease = take(client, "x");
    struct helper *first = waiter(client, "x", SNIB_EXCLUSIVE);
    struct helper *second = waiter(client, "x", SNIB_EXCLUSIVE);
    check_kill(first->pid);
    CHECK_INT(inspect(client, "x").waiters, ==, 1);
    give(&lease);
    must_come_at_once(second);
    let_go(second);
    CHECK_INT(try_it(client, "x"), ==, 0);
    snib_close(client);
}

TEST(holder_and_first_waiter_killed_together_leave_the_lock_to_the_second)
{
    snib *client = client_here();
    for (int i = 0; i < 5; i++) {
        struct helper *h = holder("x", SNIB_EXCLUSIVE);
        struct helper *first = waiter(client, "x", SNIB_EXCLUSIVE);
        struct helper *second = waiter(client, "x", SNIB_EXCLUSIVE);
        kill(h->pid, SIGKILL);
        kill(first->pid, SIGKILL);
        must_come_at_once(second);
        let_go(second);
        check_kill(h->pid);
        check_kill(first->pid);
    }
    snib_close(client);
}

/* Its predecessor leaves without dying: from then on the holder must be watched. */
TEST(the_second_waiter_watches_the_holder_after_the_first_gave_up)
{
    snib *client = client_here();
    struct helper *h = holder("x", SNIB_EXCLUSIVE);
    struct helper *first = helper_make("x", waiting(SNIB_EXCLUSIVE, 300));
    helper_start(first);
    await_waiters(client, "x", 1);
    struct helper *second = waiter(client, "x", SNIB_EXCLUSIVE);
    check_flag_wait(&first->held, PATIENCE_MS);
    CHECK_INT(first->code, ==, SNIB_EBUSY);
    check_sleep_ms(50);
    check_kill(h->pid);
    must_come_at_once(second);
    let_go(second);
    check_join(first->pid, PATIENCE_MS);
    snib_close(client);
}

TEST(a_writer_watches_one_reader_after_another)
{
    snib *client = client_here();
    struct helper *readers[3];
    for (int i = 0; i < 3; i++) {
        readers[i] = holder("x", SNIB_SHARED);
    }
    struct helper *writer = waiter(client, "x", SNIB_EXCLUSIVE);
    check_kill(readers[1]->pid);
    let_go(readers[0]);
    check_sleep_ms(50);
    CHECK(!check_flag_is_set(&writer->held));
    check_kill(readers[2]->pid);
    must_come_at_once(writer);
    let_go(writer);
    snib_close(client);
}

static void die_holding(void *arg)
{
    struct helper *h = arg;
    snib *client = client_at(h->url);
    snib_lease *lease = take(client, h->name);
    h->token = snib_token(lease);
    check_flag_set(&h->held);
    raise(SIGKILL);
}

TEST_LIMIT(a_hundred_holders_killed_in_turn_cost_nobody_two_seconds, 60)
{
    snib *client = client_here();
    uint64_t last = 0;
    int64_t start = check_now_ns();
    for (int i = 0; i < 100; i++) {
        struct helper *h = helper_make("x", waiting(SNIB_EXCLUSIVE, PATIENCE_MS));
        h->pid = check_spawn(die_holding, h);
        check_flag_wait(&h->held, PATIENCE_MS);
        snib_lease *lease = take(client, "x");
        CHECK_UINT(h->token, >, last);
        CHECK_UINT(snib_token(lease), >, h->token);
        last = snib_token(lease);
        give(&lease);
        check_kill(h->pid);
    }
    CHECK_INT(elapsed_ms(start), <, check_ms(20000));
    snib_close(client);
}

/* ---- Bells ------------------------------------------------------------------------------ */

/* The address of the bell of the waiter in this record. */
static socklen_t bell_of(const char *name, uint32_t index, struct sockaddr_un *out,
                         uint64_t *cookie)
{
    struct record r;
    int fd = open(lock_path(name), O_RDONLY | O_CLOEXEC);
    CHECK(fd >= 0);
    CHECK(pread(fd, &r, sizeof r, record_at(index)) == (ssize_t)sizeof r);
    close(fd);
    CHECK_INT(r.state, ==, RECORD_WAITING);
    *cookie = r.cookie;
    *out = (struct sockaddr_un){.sun_family = AF_UNIX};
    int n = snprintf(out->sun_path + 1, sizeof out->sun_path - 1, "snib/%u/%016llx", r.pid,
                     (unsigned long long)r.session);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
}

static int send_junk(const char *name, const void *bytes, size_t size, int times)
{
    struct sockaddr_un address;
    uint64_t cookie;
    int sent = 0;
    socklen_t length = bell_of(name, 1, &address, &cookie);
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    CHECK(fd >= 0);
    for (int i = 0; i < times; i++) {
        sent += sendto(fd, bytes, size, MSG_DONTWAIT, (struct sockaddr *)&address, length) > 0;
    }
    close(fd);
    return sent;
}

TEST(a_ring_lost_to_a_full_bell_is_made_good)
{
    snib *client = client_here();
    snib_lease *lease = take(client, "x");
    struct helper *w = waiter(client, "x", SNIB_EXCLUSIVE);
    check_stop(w->pid);
    CHECK_INT(send_junk("x", "junk", 4, 1000), <, 1000); /* until it is full */
    give(&lease);
    check_cont(w->pid);
    must_come_at_once(w);
    let_go(w);
    snib_close(client);
}

TEST(junk_and_forged_rings_do_no_harm)
{
    struct {
        char magic[8];
        uint32_t type, reserved;
        uint64_t cookie, token;
        char who[104];
    } forged;
    snib *client = client_here();
    snib_lease *lease = take(client, "x");
    struct helper *w = waiter(client, "x", SNIB_EXCLUSIVE);
    struct sockaddr_un address;
    uint64_t cookie;
    bell_of("x", 1, &address, &cookie);
    char big[4000];
    memset(big, 'x', sizeof big);
    memset(&forged, 0xff, sizeof forged);
    memcpy(forged.magic, "snibbell", 8);
    for (uint32_t type = 0; type < 4; type++) {
        forged.type = type;
        for (int known = 0; known < 2; known++) {
            forged.cookie = known ? cookie : ~cookie;
            send_junk("x", &forged, sizeof forged, 1);
            send_junk("x", &forged, 24, 1);
            send_junk("x", &forged, 23, 1);
            send_junk("x", big, sizeof big, 1);
            check_sleep_ms(5);
        }
    }
    CHECK(!check_flag_is_set(&w->held));
    CHECK(check_alive(w->pid));
    give(&lease);
    must_come_at_once(w);
    let_go(w);
    snib_close(client);
}

struct ring {
    char magic[8];
    uint32_t type, reserved;
    uint64_t cookie;
};

TEST(a_ring_for_the_second_does_not_let_it_pass_the_first)
{
    struct ring ring = {.magic = "snibbell", .type = 1};
    snib *client = client_here();
    snib_lease *lease = take(client, "x");
    struct helper *first = waiter(client, "x", SNIB_EXCLUSIVE);
    struct helper *second = helper_make("x", waiting(SNIB_EXCLUSIVE, PATIENCE_MS));
    helper_start(second);
    await_waiters(client, "x", 2);
    struct sockaddr_un address;
    socklen_t length = bell_of("x", 2, &address, &ring.cookie);
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    CHECK(fd >= 0);
    check_stop(first->pid);
    give(&lease); /* the first is rung, and cannot come */
    for (int i = 0; i < 20; i++) {
        sendto(fd, &ring, sizeof ring, MSG_DONTWAIT, (struct sockaddr *)&address, length);
        check_sleep_ms(10);
        CHECK(!check_flag_is_set(&second->held));
    }
    check_cont(first->pid);
    must_come_at_once(first);
    let_go(first);
    must_come_at_once(second);
    let_go(second);
    close(fd);
    snib_close(client);
}

static void *take_and_give(void *arg)
{
    snib_lease *lease = take(arg, "x");
    give(&lease);
    return NULL;
}

/* How long the gate was closed in an earlier turn says nothing about now: who comes goes around a
 * gate that has been closed for a second, not past those who wait at one that closed just now. */
TEST_LIMIT(a_gate_that_was_closed_in_an_earlier_turn_counts_anew, 60)
{
    snib *client = client_here();
    snib *other = client_here();
    snib_error error;
    struct ring ring = {.magic = "snibbell", .type = 1};
    struct sockaddr_un address;
    pthread_t thread;
    snib_lease *lease = take(client, "x");
    CHECK_INT(pthread_create(&thread, NULL, take_and_give, other), ==, 0);
    await_waiters(client, "x", 1);
    bell_of("x", 1, &address, &ring.cookie);
    struct keeper *k = close_gate("x");
    int64_t closed_ns = check_now_ns();
    CHECK_INT(send_junk("x", &ring, sizeof ring, 1), ==, 1); /* called in vain, it finds it so, */
    check_sleep_ms(100);                                     /* again and again */
    give(&lease);
    CHECK_INT(pthread_join(thread, NULL), ==, 0); /* and then it is called and needs no gate */
    check_kill(k->pid);

    lease = take(client, "x");
    struct helper *first = waiter(client, "x", SNIB_EXCLUSIVE);
    check_stop(first->pid);
    give(&lease);
    while (elapsed_ms(closed_ns) < 1200) {
        check_sleep_ms(10);
    }
    k = close_gate("x");
    int64_t start = check_now_ns();
    snib_options options = waiting(SNIB_EXCLUSIVE, 200);
    int code = snib_acquire(&lease, other, "x", &options, &error);
    CHECK(code == SNIB_EBUSY || elapsed_ms(start) >= 900);
    snib_release(&lease, NULL);
    check_kill(k->pid);
    check_cont(first->pid);
    check_flag_wait(&first->held, PATIENCE_MS);
    let_go(first);
    snib_close(other);
    snib_close(client);
}

static struct flock any_lock(const char *name)
{
    struct flock found = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    int fd = open(lock_path(name), O_RDWR | O_CLOEXEC);
    CHECK(fd >= 0);
    CHECK_INT(fcntl(fd, F_OFD_GETLK, &found), ==, 0);
    close(fd);
    return found;
}

TEST(a_holder_that_has_waited_leaves_nothing_locked)
{
    snib *one = client_here();
    snib *two = client_here();
    snib_error error;
    for (int i = 0; i < 3; i++) {
        pthread_t thread;
        snib_lease *lease = take(one, "x");
        CHECK_INT(pthread_create(&thread, NULL, take_and_give, two), ==, 0);
        await_waiters(one, "x", 1);
        give(&lease);
        CHECK_INT(pthread_join(thread, NULL), ==, 0);
        CHECK_INT(any_lock("x").l_type, ==, F_UNLCK);
        /* nobody uses it: it may become another kind of lock */
        CHECK_INT(try_with(one, "x", counting(2, 0), &error), ==, 0);
    }
    snib_close(two);
    snib_close(one);
}

TEST(a_bell_that_is_hung_up_while_a_thread_sleeps_wakes_it)
{
    struct waking waking = {0};
    struct source source = {0};
    snib__file_waking_init(&waking);
    CHECK_INT(snib__file_waking_open(&waking), ==, 0);
    struct pollfd kicked = {.fd = waking.kick, .events = POLLIN};
    snib__file_waking_hear(&waking, 0, &source);
    CHECK_INT(poll(&kicked, 1, 0), ==, 0); /* nobody sleeps */
    waking.sleeping_until = SNIB__NEVER;
    snib__file_waking_hear(&waking, 0, &source);
    CHECK_INT(poll(&kicked, 1, 0), ==, 1);
    snib__file_waking_close(&waking);
}

TEST(sessions_of_one_process_ring_each_other)
{
    snib *one = client_here();
    snib *two = client_here();
    pthread_t thread;
    snib_lease *lease = take(one, "x");
    CHECK(pthread_create(&thread, NULL, take_and_give, two) == 0);
    await_waiters(one, "x", 1);
    int64_t start = check_now_ns();
    give(&lease);
    pthread_join(thread, NULL);
    CHECK_INT(elapsed_ms(start), <, check_ms(AT_ONCE_MS));
    /* A session that is closed with its locks held lets go of them, too. */
    lease = take(one, "x");
    CHECK(pthread_create(&thread, NULL, take_and_give, two) == 0);
    await_waiters(one, "x", 1);
    start = check_now_ns();
    snib_close(one);
    pthread_join(thread, NULL);
    CHECK_INT(elapsed_ms(start), <, check_ms(AT_ONCE_MS));
    snib_release(&lease, NULL);
    snib_close(two);
}

/* ---- Those who cannot be seen or heard -------------------------------------------------- */

static void wait_without_network(void *arg)
{
    CHECK(unshare(CLONE_NEWNET) == 0);
    helper_main(arg);
}

static void need_namespaces(void)
{
    if (geteuid() != 0) {
        SKIP("needs root");
    }
}

/* A bell is not heard in another network namespace; its session looks more often instead. */
TEST(a_waiter_in_another_network_namespace_comes_soon)
{
    need_namespaces();
    struct helper *w = helper_make("x", waiting(SNIB_EXCLUSIVE, PATIENCE_MS));
    snib *client = client_here();
    snib_lease *lease = take(client, "x");
    pid_t pid = check_spawn(wait_without_network, w);
    await_waiters(client, "x", 1);
    check_sleep_ms(100);
    int64_t start = check_now_ns();
    give(&lease);
    check_flag_wait(&w->held, PATIENCE_MS);
    CHECK_INT(elapsed_ms(start), <, check_ms(1500));
    check_flag_set(&w->let_go);
    check_join(pid, PATIENCE_MS);
    snib_close(client);
}

TEST(a_holder_killed_in_another_pid_namespace_is_missed_soon)
{
    need_namespaces();
    struct helper *h = helper_make("x", waiting(SNIB_EXCLUSIVE, PATIENCE_MS));
    snib *client = client_here();
    pid_t outer = fork();
    CHECK(outer >= 0);
    if (outer == 0) {
        if (unshare(CLONE_NEWPID) != 0) {
            _exit(1);
        }
        pid_t inner = fork();
        if (inner == 0) {
            helper_main(h);
            _exit(0);
        }
        waitpid(inner, NULL, 0);
        _exit(0);
    }
    check_flag_wait(&h->held, PATIENCE_MS);
    struct helper *w = waiter(client, "x", SNIB_EXCLUSIVE);
    check_sleep_ms(100);
    int64_t start = check_now_ns();
    /* The first process of a pid namespace dies with what it is told by its parent's namespace;
     * find it as the only child of `outer`. */
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/task/%d/children", outer, outer);
    FILE *file = fopen(path, "r");
    int inner = 0;
    CHECK(file != NULL && fscanf(file, "%d", &inner) == 1);
    fclose(file);
    kill(inner, SIGKILL);
    check_flag_wait(&w->held, PATIENCE_MS);
    CHECK_INT(elapsed_ms(start), <, check_ms(1500));
    let_go(w);
    check_wait(outer, PATIENCE_MS);
    snib_close(client);
}

static void use_up_descriptors(struct helper *h)
{
    struct rlimit limit;
    (void)h;
    CHECK(getrlimit(RLIMIT_NOFILE, &limit) == 0);
    limit.rlim_cur = (rlim_t)check_fd_count() + 1; /* the lock file; no bell, no pidfd */
    CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
}

TEST(a_waiter_without_descriptors_for_bell_and_watch_comes_soon)
{
    snib *client = client_here();
    struct helper *h = holder("x", SNIB_EXCLUSIVE);
    struct helper *w = helper_make("x", waiting(SNIB_EXCLUSIVE, PATIENCE_MS));
    w->before = use_up_descriptors;
    helper_start(w);
    await_waiters(client, "x", 1);
    int64_t start = check_now_ns();
    check_kill(h->pid);
    check_flag_wait(&w->held, PATIENCE_MS);
    CHECK_INT(w->code, ==, 0);
    CHECK_INT(elapsed_ms(start), <, check_ms(1500));
    let_go(w);
    snib_close(client);
}

/* ---- Limits ----------------------------------------------------------------------------- */

TEST_LIMIT(a_queue_has_an_end_and_says_so, 120)
{
    enum { MOST = RECORDS_MAX - 1 };
    snib *client = client_here();
    snib_error error;
    snib_options shared = waiting(SNIB_SHARED, 0);
    snib_lease **leases = calloc(MOST, sizeof(snib_lease *));
    CHECK(leases != NULL);
    for (size_t i = 0; i < MOST; i++) {
        leases[i] = take_with(client, "x", &shared);
    }
    CHECK_INT(try_with(client, "x", shared, &error), ==, SNIB_ENOTSUP);
    CHECK(strstr(error.message, "more than 4095") != NULL);
    give(&leases[77]);
    leases[77] = take_with(client, "x", &shared);
    for (size_t i = 0; i < MOST; i++) {
        give(&leases[i]);
    }
    free(leases);
    CHECK_INT(try_it(client, "x"), ==, 0);
    snib_close(client);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* What others are told about a lock is what the kernel says, never an old note; and asking a
 * holder to give up. */
#include "file_test.h"

#include <fcntl.h>
#include <signal.h>
#include <time.h>

static int64_t wall_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

TEST(a_free_name_shows_nobody_and_makes_no_file)
{
    snib *client = client_here();
    CHECK_INT(inspect(client, "never").holders, ==, 0);
    CHECK(access(lock_path("never"), F_OK) != 0);
    CHECK_INT(try_it(client, "x"), ==, 0);
    struct seen seen = inspect(client, "x");
    CHECK_INT(seen.holders + seen.waiters, ==, 0);
    snib_close(client);
}

TEST(holders_and_waiters_are_shown_in_order_with_all_that_is_known)
{
    snib *client = client_here();
    int64_t before = wall_ms();
    snib_options options = waiting(SNIB_EXCLUSIVE, PATIENCE_MS);
    options.label = "nightly";
    snib_lease *lease = take_with(client, "x", &options);
    struct helper *first = waiter(client, "x", SNIB_SHARED);
    struct helper *second = waiter(client, "x", SNIB_EXCLUSIVE);
    struct seen seen = inspect(client, "x");
    char end[32];
    snprintf(end, sizeof end, ":%d", (int)getpid());
    CHECK_INT(seen.holders, ==, 1);
    CHECK_INT(seen.waiters, ==, 2);
    CHECK(strstr(seen.all[0].who, end) != NULL);
    CHECK_STR(seen.all[0].label, "nightly");
    CHECK_STR(seen.all[0].name, "x");
    CHECK_UINT(seen.all[0].token, ==, snib_token(lease));
    CHECK_INT(seen.all[0].mode, ==, SNIB_EXCLUSIVE);
    CHECK(seen.all[0].left_ms == SNIB_FOREVER);
    CHECK_INT(seen.all[0].since_unix_ms, >=, before);
    CHECK_INT(seen.all[0].since_unix_ms, <=, wall_ms());
    CHECK_INT(seen.all[1].mode, ==, SNIB_SHARED);
    CHECK_INT(seen.all[2].mode, ==, SNIB_EXCLUSIVE);
    CHECK_STR(seen.all[1].label, "helper");
    CHECK_UINT(seen.all[1].token, ==, 0);
    snprintf(end, sizeof end, ":%d", (int)second->pid);
    CHECK(strstr(seen.all[2].who, end) != NULL);
    give(&lease);
    check_flag_wait(&first->held, PATIENCE_MS);
    let_go(first);
    check_flag_wait(&second->held, PATIENCE_MS);
    let_go(second);
    snib_close(client);
}

TEST(all_shared_and_counted_holders_are_shown)
{
    snib *client = client_here();
    snib_options shared = waiting(SNIB_SHARED, 0);
    snib_options three = counting(3, 0);
    snib_lease *own[2] = {take_with(client, "r", &shared), take_with(client, "c", &three)};
    struct helper *a = holder("r", SNIB_SHARED);
    struct helper *b = helper_make("c", counting(3, PATIENCE_MS));
    helper_start(b);
    check_flag_wait(&b->held, PATIENCE_MS);
    struct seen seen = inspect(client, "r");
    CHECK_INT(seen.holders, ==, 2);
    CHECK_UINT(seen.all[0].token, ==, snib_token(own[0]));
    CHECK_UINT(seen.all[1].token, ==, a->token);
    seen = inspect(client, "c");
    CHECK_INT(seen.holders, ==, 2);
    CHECK_INT(seen.all[0].permits, ==, 3);
    CHECK_INT(seen.all[0].mode, ==, SNIB_COUNTED);
    CHECK_UINT(seen.all[1].token, ==, b->token);
    check_kill(a->pid);
    check_kill(b->pid);
    CHECK_INT(inspect(client, "r").holders, ==, 1);
    CHECK_INT(inspect(client, "c").holders, ==, 1);
    give(&own[0]);
    give(&own[1]);
    CHECK_INT(inspect(client, "r").holders, ==, 0);
    CHECK_INT(inspect(client, "c").holders, ==, 0);
    snib_close(client);
}

TEST(a_killed_holder_is_gone_and_a_stopped_one_is_not)
{
    snib *client = client_here();
    struct helper *h = holder("x", SNIB_EXCLUSIVE);
    check_stop(h->pid);
    CHECK_INT(inspect(client, "x").holders, ==, 1);
    CHECK_INT(try_it(client, "x"), ==, SNIB_EBUSY);
    check_kill(h->pid);
    CHECK_INT(inspect(client, "x").holders, ==, 0); /* its note is still in the file */
    h = holder("x", SNIB_EXCLUSIVE);
    CHECK_UINT(inspect(client, "x").all[0].token, ==, h->token);
    let_go(h);
    CHECK_INT(inspect(client, "x").holders, ==, 0);
    snib_close(client);
}

struct mute {
    char path[600];
    struct check_flag locked;
};

/* A holder that is stopped between locking and writing. */
static void lock_and_say_nothing(void *arg)
{
    struct mute *m = arg;
    struct slot_owner me = {.pid = (uint32_t)getpid(), .nonce = 4711};
    int fd = open(m->path, O_RDWR | O_CLOEXEC);
    CHECK(fd >= 0);
    CHECK_INT(snib__file_lock_range(fd, F_WRLCK, SLOT_AT, slot_length(me)), ==, 0);
    check_flag_set(&m->locked);
    pause();
}

TEST(a_holder_that_has_written_nothing_is_shown_by_its_number_and_not_by_an_old_note)
{
    snib *client = client_here();
    struct mute *m = check_shared(sizeof *m);
    snprintf(m->path, sizeof m->path, "%s", lock_path("x"));
    CHECK_INT(try_it(client, "x"), ==, 0); /* leaves our own note behind */
    pid_t pid = check_spawn(lock_and_say_nothing, m);
    check_flag_wait(&m->locked, PATIENCE_MS);
    struct seen seen = inspect(client, "x");
    char who[32];
    snprintf(who, sizeof who, "pid %d", pid);
    CHECK_INT(seen.holders, ==, 1);
    CHECK_STR(seen.all[0].who, who);
    CHECK_UINT(seen.all[0].token, ==, 0);
    CHECK_INT(seen.all[0].since_unix_ms, ==, 0);
    snib_error error;
    CHECK_INT(try_with(client, "x", waiting(SNIB_EXCLUSIVE, 0), &error), ==, SNIB_EBUSY);
    CHECK_STR(error.holder, who);
    CHECK_INT(snib_break(client, "x", 1, &error), ==, SNIB_EBUSY);
    check_kill(pid);
    CHECK_INT(inspect(client, "x").holders, ==, 0);
    snib_close(client);
}

TEST(a_list_shows_what_is_in_use_and_starts_as_asked)
{
    snib *client = client_here();
    snib_error error;
    const char *const names[] = {"a/1", "a/2", "a", ".a", "b%/x"};
    snib_lease *leases[5];
    for (int i = 0; i < 5; i++) {
        leases[i] = take(client, names[i]);
    }
    CHECK_INT(try_it(client, "a/free"), ==, 0);
    char stray[300];
    snprintf(stray, sizeof stray, "%s/README", locks());
    fclose(fopen(stray, "w"));
    snprintf(stray, sizeof stray, "%s/a%%2Fstrange.lock", locks());
    FILE *file = fopen(stray, "w");
    fputs("not one of ours", file);
    fclose(file);
    static struct seen seen;
    CHECK_OK(snib_list(client, NULL, note_seen, &seen, &error), error.message);
    CHECK_INT(seen.holders, ==, 5);
    memset(&seen, 0, sizeof seen);
    CHECK_OK(snib_list(client, "a/", note_seen, &seen, &error), error.message);
    CHECK_INT(seen.holders, ==, 2);
    memset(&seen, 0, sizeof seen);
    CHECK_OK(snib_list(client, "b%/", note_seen, &seen, &error), error.message);
    CHECK_INT(seen.holders, ==, 1);
    CHECK_STR(seen.all[0].name, "b%/x");
    for (int i = 0; i < 5; i++) {
        give(&leases[i]);
    }
    snib_close(client);
}

/* ---- Asking a holder to give up --------------------------------------------------------- */

TEST(a_holder_that_does_not_listen_cannot_be_broken_and_is_named)
{
    snib *client = client_here();
    snib_error error;
    char pid[32];
    struct helper *h = holder("x", SNIB_EXCLUSIVE);
    snprintf(pid, sizeof pid, "process %d ", h->pid);
    int64_t start = check_now_ns();
    CHECK_INT(snib_break(client, "x", h->token, &error), ==, SNIB_EBUSY);
    CHECK_INT(elapsed_ms(start), <, check_ms(1000));
    if (!strstr(error.message, pid) || !strstr(error.message, "(helper)") ||
        !strstr(error.message, "does not listen")) {
        FAIL("%s", error.message);
    }
    CHECK_INT(inspect(client, "x").holders, ==, 1);
    CHECK_INT(snib_break(client, "x", h->token - 1, &error), ==, SNIB_ELOST);
    let_go(h);
    CHECK_INT(snib_break(client, "x", h->token, &error), ==, SNIB_ELOST);
    CHECK_INT(snib_break(client, "never", 1, &error), ==, SNIB_ELOST);
    snib_close(client);
}

struct listener {
    char url[300];
    int mode;
    bool late;     /* begins to listen while it holds */
    bool stubborn; /* is told, and keeps the lock */
    struct check_flag held, told, done;
    uint64_t token;
    char why[160];
};

static void on_event(const snib_event *event, void *arg)
{
    struct listener *l = arg;
    if (event->state == SNIB_LOST) {
        snprintf(l->why, sizeof l->why, "%s", event->why);
        check_flag_set(&l->told);
    }
}

static void listen_and_hold(void *arg)
{
    struct listener *l = arg;
    snib_options options = waiting(l->mode, PATIENCE_MS);
    snib_error error;
    options.permits = l->mode == SNIB_COUNTED ? 2 : 1;
    options.label = "listener";
    if (!l->late) {
        options.on_event = on_event;
        options.arg = l;
    }
    snib *client = client_at(l->url);
    snib_lease *lease = take_with(client, "x", &options);
    l->token = snib_token(lease);
    int fd = l->late ? snib_fd(lease) : -1;
    if (l->late) {
        CHECK(fd >= 0);
        CHECK_OK(snib_verify(lease, &error), error.message);
    }
    check_flag_set(&l->held);
    if (l->late) {
        struct pollfd poll_fd = {.fd = fd, .events = POLLIN};
        CHECK_INT(poll(&poll_fd, 1, check_ms(PATIENCE_MS)), ==, 1);
        check_flag_set(&l->told);
    }
    check_flag_wait(&l->told, PATIENCE_MS);
    CHECK_INT(snib_state(lease), ==, SNIB_LOST);
    if (l->stubborn) {
        check_flag_wait(&l->done, PATIENCE_MS);
    }
    CHECK_INT(snib_release(&lease, &error), ==, SNIB_ELOST);
    snib_close(client);
}

static void a_listener_gives_up(int mode, bool late)
{
    struct listener *l = check_shared(sizeof *l);
    snib *client = client_here();
    snib_error error;
    snprintf(l->url, sizeof l->url, "%s", locks_url());
    l->mode = mode;
    l->late = late;
    pid_t pid = check_spawn(listen_and_hold, l);
    check_flag_wait(&l->held, PATIENCE_MS);
    CHECK_INT(snib_break(client, "x", l->token + 1, &error), ==, SNIB_ELOST);
    CHECK(!check_flag_is_set(&l->told));
    CHECK_OK(snib_break(client, "x", l->token, &error), error.message);
    CHECK_INT(inspect(client, "x").holders, ==, 0);
    check_join(pid, PATIENCE_MS);
    if (!late) {
        CHECK(strstr(l->why, "asked to give up by ") != NULL);
    }
    snib_close(client);
}

TEST(a_holder_that_listens_is_asked_and_gives_up)
{
    a_listener_gives_up(SNIB_EXCLUSIVE, false);
}

TEST(a_shared_holder_that_listens_is_asked_and_gives_up)
{
    a_listener_gives_up(SNIB_SHARED, false);
}

TEST(a_counted_holder_that_listens_is_asked_and_gives_up)
{
    a_listener_gives_up(SNIB_COUNTED, false);
}

TEST(a_holder_that_begins_to_listen_is_asked_and_gives_up)
{
    a_listener_gives_up(SNIB_EXCLUSIVE, true);
}

TEST(a_holder_that_is_asked_and_keeps_the_lock_is_named)
{
    struct listener *l = check_shared(sizeof *l);
    snib *client = client_here();
    snib_error error;
    snprintf(l->url, sizeof l->url, "%s", locks_url());
    l->stubborn = true;
    pid_t pid = check_spawn(listen_and_hold, l);
    check_flag_wait(&l->held, PATIENCE_MS);
    CHECK_INT(snib_break(client, "x", l->token, &error), ==, SNIB_EBUSY);
    CHECK(strstr(error.message, "has not given it up") != NULL);
    CHECK(check_flag_is_set(&l->told));
    CHECK_INT(try_it(client, "x"), ==, SNIB_EBUSY); /* the kernel has the last word */
    check_flag_set(&l->done);
    check_join(pid, PATIENCE_MS);
    CHECK_INT(try_it(client, "x"), ==, 0);
    snib_close(client);
}

static struct check_flag own_told;

static void on_own_event(const snib_event *event, void *arg)
{
    (void)arg;
    if (event->state == SNIB_LOST) {
        check_flag_set(&own_told);
        snib_lease *lease = event->lease;
        snib_release(&lease, NULL);
    }
}

TEST(a_client_can_ask_itself)
{
    snib *client = client_here();
    snib_error error;
    snib_options options = waiting(SNIB_EXCLUSIVE, 0);
    options.on_event = on_own_event;
    snib_lease *lease = take_with(client, "x", &options);
    CHECK_OK(snib_break(client, "x", snib_token(lease), &error), error.message);
    CHECK(check_flag_is_set(&own_told));
    snib_close(client);
}

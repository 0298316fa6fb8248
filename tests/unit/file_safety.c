/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Schedules that break a naive file lock. Each is first shown to break a
 * naive form, then snib is shown to survive it.
 */
#include "file_test.h"

#include <fcntl.h>
#include <grp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/wait.h>

/* ---- 50: one directory per user, whatever the environment -------------------------------- */

enum { USER = 54321 };

static void private_mounts(void)
{
    if (geteuid() != 0) {
        SKIP("needs root");
    }
    if (unshare(CLONE_NEWNS) != 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0) {
        SKIP("no mount namespace of its own: %s", strerror(errno));
    }
}

static const char *naive_directory(void)
{
    const char *runtime = getenv("XDG_RUNTIME_DIR");
    return runtime ? runtime : "/tmp";
}

static void as_shell(void)
{
    setenv("XDG_RUNTIME_DIR", "/run/user/54321", 1);
    setenv("XDG_STATE_HOME", "/elsewhere", 1);
    setenv("HOME", "/home/somebody", 1);
    setenv("TMPDIR", "/var/tmp", 1);
}

static void as_cron(void)
{
    clearenv();
    setenv("HOME", "/", 1);
}

static void cron_and_shell_exclude_each_other(void)
{
    as_shell();
    char naive[64];
    snprintf(naive, sizeof naive, "%s", naive_directory());
    snib *shell = client_at("file:");
    snib_lease *lease = take(shell, "x");
    as_cron();
    CHECK(strcmp(naive, naive_directory()) != 0); /* the naive form locks in two places */
    snib *cron = client_at("file:");
    CHECK_INT(try_it(cron, "x"), ==, SNIB_EBUSY);
    give(&lease);
    snib_close(shell);
    snib_close(cron);
}

TEST(safety_50_cron_and_shell_of_root_lock_the_same_file)
{
    struct stat st;
    private_mounts();
    CHECK(mount("snibtest", "/var/lib", "tmpfs", 0, "mode=755") == 0);
    cron_and_shell_exclude_each_other();
    CHECK(stat("/var/lib/snib/x.lock", &st) == 0); /* not /run: it outlives a reboot */
    CHECK_INT(st.st_mode & 07777, ==, 0600);
    CHECK(stat("/var/lib/snib", &st) == 0);
    CHECK_INT(st.st_mode & 07777, ==, 0700);
}

static void user_main(void *arg)
{
    const char *home = arg;
    CHECK(setgroups(0, NULL) == 0);
    CHECK(setgid(USER) == 0);
    CHECK(setuid(USER) == 0);
    cron_and_shell_exclude_each_other();
    struct stat st;
    char path[400];
    snprintf(path, sizeof path, "%s/.local/state/snib", home);
    CHECK(stat(path, &st) == 0);
    CHECK_INT(st.st_mode & 07777, ==, 0700);
}

TEST(safety_50_cron_and_shell_of_a_user_lock_the_same_file)
{
    char home[300];
    char passwd[300];
    private_mounts();
    snprintf(home, sizeof home, "%s/home", check_tmpdir());
    snprintf(passwd, sizeof passwd, "%s/passwd", check_tmpdir());
    CHECK(mkdir(home, 0700) == 0);
    CHECK(chown(home, USER, USER) == 0);
    FILE *file = fopen(passwd, "w");
    CHECK(file != NULL);
    fprintf(file, "root:x:0:0::/root:/bin/sh\nsnibtest:x:%d:%d::%s:/bin/sh\n", USER, USER, home);
    fclose(file);
    CHECK(chmod(passwd, 0644) == 0);
    CHECK(mount(passwd, "/etc/passwd", NULL, MS_BIND, NULL) == 0);
    check_join(check_spawn(user_main, home), PATIENCE_MS);
}

TEST(safety_50_tokens_go_on_after_a_reboot)
{
    snib *client = client_here();
    snib_lease *lease = take(client, "x");
    uint64_t before = snib_token(lease);
    give(&lease);
    snib_close(client);
    /* All that a reboot leaves is the file; and even without it the clock is the floor. */
    client = client_here();
    lease = take(client, "x");
    CHECK_UINT(snib_token(lease), >, before);
    before = snib_token(lease);
    give(&lease);
    snib_close(client);
    CHECK(unlink(lock_path("x")) == 0);
    client = client_here();
    lease = take(client, "x");
    CHECK_UINT(snib_token(lease), >, before);
    give(&lease);
    snib_close(client);
}

/* ---- 51: one counter, under one lock ---------------------------------------------------- */

TEST(safety_51_permits_draw_their_tokens_from_one_counter)
{
    /* Naive: a file per slot, each with its own counter. */
    uint64_t naive[2] = {41, 41};
    CHECK_UINT(++naive[0], ==, ++naive[1]);

    struct helper *h[3];
    for (int i = 0; i < 3; i++) {
        h[i] = helper_make("x", counting(3, PATIENCE_MS));
        helper_start(h[i]);
    }
    for (int i = 0; i < 3; i++) {
        check_flag_wait(&h[i]->held, PATIENCE_MS);
        CHECK_INT(h[i]->code, ==, 0);
    }
    CHECK(h[0]->token != h[1]->token && h[1]->token != h[2]->token && h[0]->token != h[2]->token);
    for (int i = 0; i < 3; i++) {
        let_go(h[i]);
    }
}

TEST(safety_51_readers_share_the_last_writers_token)
{
    snib *client = client_here();
    snib_lease *writer = take(client, "x");
    uint64_t token = snib_token(writer);
    give(&writer);
    struct helper *a = holder("x", SNIB_SHARED);
    struct helper *b = holder("x", SNIB_SHARED);
    CHECK_UINT(a->token, ==, token);
    CHECK_UINT(b->token, ==, token); /* a guard that takes nothing smaller takes both */
    let_go(a);
    let_go(b);
    writer = take(client, "x");
    CHECK_UINT(snib_token(writer), >, token);
    give(&writer);
    snib_close(client);
}

TEST(safety_51_the_first_reader_of_a_name_has_a_token)
{
    struct helper *a = holder("x", SNIB_SHARED);
    CHECK_UINT(a->token, >, 0);
    let_go(a);
}

/* ---- 52: forked children ---------------------------------------------------------------- */

static bool ofd_free(const char *path)
{
    int fd = open(path, O_RDWR | O_CLOEXEC);
    CHECK(fd >= 0);
    int sys = snib__file_lock_range(fd, F_WRLCK, 0, 1);
    close(fd);
    return sys == 0;
}

struct forked {
    struct check_flag ready, stop;
    pid_t child;
};

static pid_t fork_idle_child(struct forked *f)
{
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        check_flag_set(&f->ready);
        check_flag_wait(&f->stop, PATIENCE_MS);
        _exit(0);
    }
    check_flag_wait(&f->ready, PATIENCE_MS);
    return child;
}

TEST(safety_52_a_release_frees_the_lock_although_a_forked_child_lives)
{
    char path[300];
    struct forked *f = check_shared(2 * sizeof *f);
    snprintf(path, sizeof path, "%s/naive", check_tmpdir());
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    CHECK_INT(snib__file_lock_range(fd, F_WRLCK, 0, 1), ==, 0);
    pid_t child = fork_idle_child(&f[0]);
    close(fd);
    CHECK(!ofd_free(path)); /* naive: release by close */
    check_flag_set(&f[0].stop);
    CHECK(check_wait(child, PATIENCE_MS) == 0);

    snib *client = client_here();
    snib *other = client_here();
    snib_options shared = waiting(SNIB_SHARED, 0);
    snib_options two = counting(2, 0);
    snib_lease *exclusive = take(client, "x");
    snib_lease *reader = take_with(client, "y", &shared);
    snib_lease *permit = take_with(client, "z", &two);
    child = fork_idle_child(&f[1]);
    give(&exclusive);
    give(&reader);
    give(&permit);
    CHECK_INT(try_it(other, "x"), ==, 0);
    CHECK_INT(try_it(other, "y"), ==, 0);
    CHECK_INT(try_it(other, "z"), ==, 0);
    check_flag_set(&f[1].stop);
    CHECK(check_wait(child, PATIENCE_MS) == 0);
    snib_close(other);
    snib_close(client);
}

TEST(safety_52_closing_in_a_forked_child_leaves_the_parents_locks)
{
    snib *client = client_here();
    snib *other = client_here();
    snib_options shared = waiting(SNIB_SHARED, 0);
    snib_lease *exclusive = take(client, "x");
    snib_lease *reader = take_with(client, "y", &shared);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        snib_error error;
        int code = snib_release(&exclusive, &error);
        snib_release(&reader, &error);
        snib_close(client);
        _exit(code == SNIB_ESTATE ? 0 : 1);
    }
    CHECK(check_wait(child, PATIENCE_MS) == 0);
    CHECK_INT(try_it(other, "x"), ==, SNIB_EBUSY);
    CHECK_INT(try_it(other, "y"), ==, SNIB_EBUSY);
    give(&exclusive);
    give(&reader);
    CHECK_INT(try_it(other, "x"), ==, 0);
    CHECK_INT(try_it(other, "y"), ==, 0);
    snib_close(other);
    snib_close(client);
}

static void hold_and_fork(void *arg)
{
    struct forked *f = arg;
    snib *client = client_here();
    take(client, "x");
    f->child = fork();
    if (f->child == 0) {
        check_flag_wait(&f->stop, PATIENCE_MS);
        _exit(0);
    }
    check_flag_set(&f->ready);
    pause();
}

/* The case that remains, and is stated in snib.h. */
TEST(safety_52_a_killed_holders_lock_lives_as_long_as_its_forked_child)
{
    struct forked *f = check_shared(sizeof *f);
    snib *client = client_here();
    pid_t pid = check_spawn(hold_and_fork, f);
    check_flag_wait(&f->ready, PATIENCE_MS);
    struct helper *w = waiter(client, "x", SNIB_EXCLUSIVE);
    check_kill(pid);
    check_sleep_ms(300);
    CHECK(!check_flag_is_set(&w->held));
    CHECK_INT(inspect(client, "x").holders, ==, 1);
    check_flag_set(&f->stop); /* the child ends: nobody watches it, so the waiter looks often */
    int64_t start = check_now_ns();
    check_flag_wait(&w->held, PATIENCE_MS);
    CHECK_INT(elapsed_ms(start), <, check_ms(1500));
    let_go(w);
    snib_close(client);
}

/* As when snib run is killed and its guardian ends a moment later, with the job. */
TEST(safety_52_a_child_that_ends_soon_after_its_parent_does_not_cost_a_long_pause)
{
    int64_t best_ms = PATIENCE_MS;
    snib *client = client_here();
    for (int i = 0; i < 5; i++) {
        struct forked *f = check_shared(sizeof *f);
        pid_t pid = check_spawn(hold_and_fork, f);
        check_flag_wait(&f->ready, PATIENCE_MS);
        struct helper *w = waiter(client, "x", SNIB_EXCLUSIVE);
        check_kill(pid);
        check_sleep_ms(10);
        int64_t start = check_now_ns();
        check_flag_set(&f->stop);
        check_flag_wait(&w->held, PATIENCE_MS);
        best_ms = elapsed_ms(start) < best_ms ? elapsed_ms(start) : best_ms;
        let_go(w);
    }
    CHECK_INT(best_ms, <, 100); /* it would look again only after 250 ms, or 225 */
    snib_close(client);
}

static void ignore_end(snib_lease *lease, const snib_error *error, void *arg)
{
    (void)lease;
    (void)error;
    (void)arg;
}

static void wait_and_fork(void *arg)
{
    struct forked *f = arg;
    snib *client = client_here();
    snib_error error;
    snib_ticket ticket;
    CHECK_OK(snib_acquire_async(&ticket, client, "x", NULL, ignore_end, NULL, &error),
             error.message);
    f->child = fork();
    if (f->child == 0) {
        check_flag_wait(&f->stop, 2 * PATIENCE_MS);
        _exit(0);
    }
    check_flag_set(&f->ready);
    pause();
}

/* Its descriptor lives on in the child, so it looks alive; it is passed like a stopped one. */
TEST(safety_52_a_dead_waiter_kept_alive_by_its_child_is_passed)
{
    struct forked *f = check_shared(sizeof *f);
    snib *client = client_here();
    snib_lease *lease = take(client, "x");
    pid_t pid = check_spawn(wait_and_fork, f);
    check_flag_wait(&f->ready, PATIENCE_MS);
    await_waiters(client, "x", 1);
    struct helper *w = waiter(client, "x", SNIB_EXCLUSIVE);
    check_kill(pid);
    CHECK_INT(inspect(client, "x").waiters, ==, 2);
    int64_t start = check_now_ns();
    give(&lease);
    check_flag_wait(&w->held, PATIENCE_MS);
    CHECK_INT(elapsed_ms(start), <, check_ms(6000));
    let_go(w);
    check_flag_set(&f->stop);
    snib_close(client);
}

/* ---- 53: waiting for whichever is free -------------------------------------------------- */

TEST(safety_53_a_waiter_gets_whichever_permit_is_free)
{
    for (int which = 0; which < 2; which++) {
        struct helper *h[2];
        snib *client = client_here();
        for (int i = 0; i < 2; i++) {
            h[i] = helper_make("x", counting(2, PATIENCE_MS));
            helper_start(h[i]);
            check_flag_wait(&h[i]->held, PATIENCE_MS);
        }
        /* Naive: blocked on one of the two, whichever it is; the other comes free. */
        struct helper *w = helper_make("x", counting(2, PATIENCE_MS));
        helper_start(w);
        await_waiters(client, "x", 1);
        int64_t start = check_now_ns();
        let_go(h[which]);
        check_flag_wait(&w->held, PATIENCE_MS);
        CHECK_INT(w->code, ==, 0);
        CHECK_INT(elapsed_ms(start), <, check_ms(1000));
        let_go(w);
        let_go(h[1 - which]);
        snib_close(client);
    }
}

static volatile sig_atomic_t signals;

static void count_signal(int number)
{
    (void)number;
    signals++;
}

TEST(safety_53_a_timed_wait_needs_neither_signal_nor_thread)
{
    for (int i = 1; i < NSIG; i++) {
        if (i != SIGCHLD) {
            signal(i, count_signal);
        }
    }
    struct helper *h = holder("x", SNIB_EXCLUSIVE);
    snib *client = client_here();
    int threads = check_thread_count();
    snib_options options = waiting(SNIB_EXCLUSIVE, 250);
    snib_error error;
    snib_lease *none;
    int64_t start = check_now_ns();
    CHECK_INT(snib_acquire(&none, client, "x", &options, &error), ==, SNIB_EBUSY);
    CHECK_INT(elapsed_ms(start), >=, 250);
    CHECK_INT(elapsed_ms(start), <, check_ms(1000));
    CHECK(strstr(error.holder, "helper") != NULL);
    CHECK_INT(signals, ==, 0);
    CHECK_INT(check_thread_count(), ==, threads);
    let_go(h);
    snib_close(client);
}

/* ---- 54: two kinds of kernel locks ------------------------------------------------------ */

TEST(safety_54_a_path_excludes_users_of_flock)
{
    char path[300];
    snprintf(path, sizeof path, "%s/job", check_tmpdir());
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    CHECK(fd >= 0);
    CHECK(flock(fd, LOCK_EX | LOCK_NB) == 0);
    CHECK(ofd_free(path)); /* naive: a byte-range lock on the same file sees nothing of it */

    snib *client = client_here();
    snib_error error;
    CHECK_INT(try_with(client, path, waiting(SNIB_EXCLUSIVE, 0), &error), ==, SNIB_EBUSY);
    CHECK(strstr(error.holder, "(flock)") != NULL);
    CHECK(flock(fd, LOCK_UN) == 0);
    snib_lease *lease = take(client, path);
    CHECK(flock(fd, LOCK_EX | LOCK_NB) != 0);
    CHECK(flock(fd, LOCK_SH | LOCK_NB) != 0);
    give(&lease);
    CHECK(flock(fd, LOCK_EX | LOCK_NB) == 0);
    close(fd);
    snib_close(client);
}

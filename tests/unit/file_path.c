/* SPDX-License-Identifier: Apache-2.0 */
/* Names that are paths, beside the real flock(1). */
#include "file_test.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/wait.h>

static char path[300];

static const char *job(void)
{
    snprintf(path, sizeof path, "%s/job", check_tmpdir());
    return path;
}

static void need_flock(void)
{
    if (system("flock -V > /dev/null 2>&1") != 0) {
        SKIP("flock(1) is not installed");
    }
}

/* flock(1) with these options: 0 got it, 1 did not. */
static int flock_says(const char *options)
{
    char command[400];
    snprintf(command, sizeof command, "flock -n %s %s true", options, path);
    int status = system(command);
    CHECK(WIFEXITED(status));
    return WEXITSTATUS(status);
}

/* `flock PATH sleep`, until killed. */
static pid_t flock_holds(const char *option)
{
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        execlp("flock", "flock", "-n", "-F", option, path, "sleep", "60", (char *)NULL);
        _exit(127);
    }
    check_manage(pid);
    int fd = open(path, O_RDONLY | O_CREAT | O_CLOEXEC, 0666);
    CHECK(fd >= 0);
    int64_t start = check_now_ns();
    while (flock(fd, LOCK_EX | LOCK_NB) == 0) {
        flock(fd, LOCK_UN);
        CHECK_INT(elapsed_ms(start), <, check_ms(PATIENCE_MS));
        check_sleep_ms(1);
    }
    close(fd);
    return pid;
}

TEST(a_path_held_here_is_closed_to_flock_and_open_afterwards)
{
    need_flock();
    job();
    snib *client = client_here();
    snib_lease *lease = take(client, path);
    CHECK_INT(flock_says("-x"), ==, 1);
    CHECK_INT(flock_says("-s"), ==, 1);
    give(&lease);
    CHECK_INT(flock_says("-x"), ==, 0);
    snib_options shared = waiting(SNIB_SHARED, 0);
    lease = take_with(client, path, &shared);
    snib_lease *second = take_with(client, path, &shared);
    CHECK_INT(flock_says("-s"), ==, 0);
    CHECK_INT(flock_says("-x"), ==, 1);
    give(&lease);
    CHECK_INT(flock_says("-x"), ==, 1);
    give(&second);
    CHECK_INT(flock_says("-x"), ==, 0);
    snib_close(client);
}

TEST(a_path_held_by_flock_is_refused_and_the_slot_given_back)
{
    need_flock();
    job();
    snib *client = client_here();
    snib *other = client_here();
    snib_error error;
    char who[64];
    pid_t pid = flock_holds("-x");
    snprintf(who, sizeof who, "pid %d (flock)", pid);
    CHECK_INT(try_with(client, path, waiting(SNIB_EXCLUSIVE, 0), &error), ==, SNIB_EBUSY);
    CHECK_STR(error.holder, who);
    CHECK_INT(try_with(other, path, waiting(SNIB_SHARED, 0), &error), ==, SNIB_EBUSY);
    CHECK_STR(error.holder, who);
    struct seen seen = inspect(client, path);
    CHECK_INT(seen.holders, ==, 1);
    CHECK_STR(seen.all[0].who, who);
    CHECK_INT(seen.all[0].mode, ==, SNIB_EXCLUSIVE);
    check_kill(pid);
    CHECK_INT(try_it(client, path), ==, 0);
    CHECK_INT(inspect(client, path).holders, ==, 0);
    snib_close(other);
    snib_close(client);
}

TEST(a_wait_for_flock_ends_when_its_holder_does)
{
    need_flock();
    job();
    snib *client = client_here();
    int late = 0;
    for (int i = 0; i < 4; i++) {
        pid_t pid = flock_holds(i % 2 ? "-s" : "-x");
        struct helper *w = helper_make(path, waiting(SNIB_EXCLUSIVE, PATIENCE_MS));
        helper_start(w);
        check_flag_wait(&w->ready, PATIENCE_MS);
        check_sleep_ms(1500); /* past the short pauses: only the watch makes it prompt */
        CHECK(!check_flag_is_set(&w->held));
        /* It has the slot meanwhile: others of ours queue behind it. */
        CHECK_INT(try_it(client, path), ==, SNIB_EBUSY);
        int64_t start = check_now_ns();
        check_kill(pid);
        check_flag_wait(&w->held, PATIENCE_MS);
        CHECK_INT(w->code, ==, 0);
        late += elapsed_ms(start) >= check_ms(400);
        let_go(w);
    }
    CHECK_INT(late, <=, 1); /* the machine may do nothing for a moment */
    snib_close(client);
}

TEST(a_wait_for_flock_ends_when_it_is_unlocked_by_a_process_that_lives)
{
    job();
    snib *client = client_here();
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    CHECK(flock(fd, LOCK_EX) == 0);
    struct helper *w = helper_make(path, waiting(SNIB_EXCLUSIVE, PATIENCE_MS));
    helper_start(w);
    check_flag_wait(&w->ready, PATIENCE_MS);
    check_sleep_ms(200);
    CHECK(!check_flag_is_set(&w->held));
    CHECK(flock(fd, LOCK_UN) == 0);
    check_flag_wait(&w->held, PATIENCE_MS);
    CHECK(flock(fd, LOCK_EX | LOCK_NB) != 0);
    let_go(w);
    close(fd);
    snib_close(client);
}

TEST(a_wait_for_flock_ends_at_its_deadline_and_gives_the_slot_back)
{
    job();
    snib *client = client_here();
    snib *other = client_here();
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    CHECK(flock(fd, LOCK_EX) == 0);
    snib_options options = waiting(SNIB_EXCLUSIVE, 200);
    snib_error error;
    snib_lease *none;
    int64_t start = check_now_ns();
    CHECK_INT(snib_acquire(&none, client, path, &options, &error), ==, SNIB_EBUSY);
    CHECK_INT(elapsed_ms(start), >=, 200);
    CHECK(strstr(error.holder, "(flock)") != NULL);
    CHECK(flock(fd, LOCK_UN) == 0);
    CHECK_INT(try_it(other, path), ==, 0);
    close(fd);
    snib_close(other);
    snib_close(client);
}

TEST(a_directory_is_locked_as_flock_does_it)
{
    need_flock();
    snprintf(path, sizeof path, "%s/folder", check_tmpdir());
    CHECK(mkdir(path, 0755) == 0);
    snib *client = client_here();
    snib_lease *lease = take(client, path);
    CHECK_INT(flock_says("-x"), ==, 1);
    give(&lease);
    CHECK_INT(flock_says("-x"), ==, 0);
    snib_close(client);
}

TEST(safety_59_a_path_is_one_lock_however_it_is_spelt)
{
    char other[320];
    snib_error error;
    snib *client = client_here();
    struct helper *h = holder(job(), SNIB_EXCLUSIVE);
    snprintf(other, sizeof other, "%s//./job/", check_tmpdir());
    struct seen seen = inspect(client, other);
    CHECK_INT(seen.holders, ==, 1);
    CHECK_STR(seen.all[0].label, "helper"); /* not a stranger that has flock */
    CHECK_STR(seen.all[0].name, job());
    struct helper *w = waiter(client, other, SNIB_EXCLUSIVE);
    CHECK_INT(inspect(client, job()).waiters, ==, 1);
    CHECK_INT(snib_break(client, other, h->token, &error), ==, SNIB_EBUSY); /* does not listen */
    let_go(h);
    must_come_at_once(w);
    let_go(w);
    snib_close(client);
}

TEST(a_link_is_followed_as_flock_does_it)
{
    need_flock();
    char target[300];
    snprintf(target, sizeof target, "%s/target", check_tmpdir());
    CHECK(symlink(target, job()) == 0);
    snib *client = client_here();
    snib_lease *lease = take(client, path);
    CHECK_INT(flock_says("-x"), ==, 1);
    /* By its other name it is another lock of snib's, and the same of flock's. */
    CHECK_INT(try_it(client, target), ==, SNIB_EBUSY);
    give(&lease);
    CHECK_INT(try_it(client, target), ==, 0);
    snib_close(client);
}

TEST(a_path_that_cannot_be_locked_is_an_error_and_nothing_is_held)
{
    snib *client = client_here();
    snib_error error;
    snprintf(path, sizeof path, "%s/missing/job", check_tmpdir());
    CHECK_INT(try_with(client, path, waiting(SNIB_EXCLUSIVE, 0), &error), ==, SNIB_ESYS);
    CHECK_INT(error.sys, ==, ENOENT);
    CHECK_INT(inspect(client, path).holders, ==, 0);
    snprintf(path, sizeof path, "%s/pipe", check_tmpdir());
    CHECK(mkfifo(path, 0600) == 0);
    CHECK_INT(try_with(client, path, waiting(SNIB_EXCLUSIVE, 0), &error), ==, SNIB_EINVAL);
    CHECK(strstr(error.message, "neither a file nor a directory") != NULL);
    CHECK_INT(try_with(client, job(), counting(2, 0), &error), ==, SNIB_ENOTSUP);
    snib_close(client);
}

TEST(a_path_removed_under_flock_is_noticed)
{
    job();
    snib *client = client_here();
    snib_error error;
    snib_lease *lease = take(client, path);
    CHECK_OK(snib_verify(lease, &error), error.message);
    CHECK(unlink(path) == 0);
    CHECK_INT(snib_verify(lease, &error), ==, SNIB_ELOST);
    snib_release(&lease, NULL);
    /* Removed while somebody waits: what counts is where the path leads in the end. */
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    CHECK(flock(fd, LOCK_EX) == 0);
    struct helper *w = helper_make(path, waiting(SNIB_EXCLUSIVE, PATIENCE_MS));
    helper_start(w);
    check_flag_wait(&w->ready, PATIENCE_MS);
    check_sleep_ms(100);
    CHECK(unlink(path) == 0);
    check_flag_wait(&w->held, PATIENCE_MS);
    struct stat st;
    CHECK(stat(path, &st) == 0);
    let_go(w);
    close(fd);
    snib_close(client);
}

TEST(the_cause_is_said_once)
{
    snib *client = client_here();
    snib_error error;
    snprintf(path, sizeof path, "%s/no/such/place", check_tmpdir());
    CHECK_INT(try_with(client, path, waiting(SNIB_EXCLUSIVE, 0), &error), ==, SNIB_ESYS);
    const char *said = strstr(error.message, strerror(ENOENT));
    CHECK(said != NULL);
    CHECK(strstr(said + 1, strerror(ENOENT)) == NULL);
    snib_close(client);
}

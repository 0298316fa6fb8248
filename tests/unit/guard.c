/* SPDX-License-Identifier: Apache-2.0 */
/*
 * snib_guard: who is admitted, what is left on the disk, and what happens when the call is killed,
 * stopped or refused by the system in the middle.
 *
 * The three calls that reach the disk are replaced in this program, so that a case can count them,
 * fail them, or do something exactly there.
 */
#include "check.h"

#include <snib.h>

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define PATIENCE_MS 10000

/* ---- In place of the system's ----------------------------------------------------------- */

static int flushes;
static int fail_flush, fail_write; /* errno */
static void (*at_flush)(void);

int fdatasync(int fd)
{
    flushes++;
    if (at_flush) {
        void (*act)(void) = at_flush;
        at_flush = NULL;
        act();
    }
    errno = fail_flush;
    return fail_flush ? -1 : (int)syscall(SYS_fdatasync, fd);
}

int fsync(int fd)
{
    flushes++;
    errno = fail_flush;
    return fail_flush ? -1 : (int)syscall(SYS_fsync, fd);
}

/* What pwrite is called with 64-bit offsets. */
ssize_t pwrite64(int fd, const void *bytes, size_t size, __off64_t at)
{
    errno = fail_write;
    return fail_write ? -1 : (ssize_t)syscall(SYS_pwrite64, fd, bytes, size, at);
}

/* ---- Helpers ---------------------------------------------------------------------------- */

static char target[300], sidecar[300];

static void prepare(void)
{
    snprintf(target, sizeof target, "%s/data", check_tmpdir());
    snprintf(sidecar, sizeof sidecar, "%s/.data.snib-token", check_tmpdir());
}

static void admitted(uint64_t token)
{
    snib_error error = {0};
    CHECK_OK(snib_guard(target, token, &error), error.message);
}

static void too_old(uint64_t token, uint64_t newer)
{
    snib_error error = {0};
    CHECK_INT(snib_guard(target, token, &error), ==, SNIB_ELOST);
    CHECK_INT(error.code, ==, SNIB_ELOST);
    CHECK_UINT(error.holder_token, ==, newer);
    CHECK(strstr(error.message, target) != NULL);
}

static void refused(const char *path, uint64_t token, int code, int sys)
{
    snib_error error = {0};
    int before = check_fd_count();
    CHECK_INT(snib_guard(path, token, &error), ==, code);
    CHECK_INT(error.code, ==, code);
    CHECK_INT(error.sys, ==, sys);
    CHECK(error.message[0] != '\0');
    CHECK_INT(check_fd_count(), ==, before);
}

static void put(const char *path, const void *bytes, size_t size)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    CHECK(fd >= 0);
    CHECK_INT(write(fd, bytes, size), ==, size);
    close(fd);
}

static const char *content(const char *path)
{
    static char text[256];
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    CHECK(fd >= 0);
    ssize_t n = read(fd, text, sizeof text - 1);
    CHECK(n >= 0);
    text[n] = '\0';
    close(fd);
    return text;
}

/* ---- Who is admitted -------------------------------------------------------------------- */

TEST(a_larger_token_is_admitted_and_an_older_one_is_not)
{
    prepare();
    admitted(7);
    admitted(9);
    too_old(8, 9);
    too_old(1, 9);
    admitted(UINT64_MAX);
    too_old(UINT64_MAX - 1, UINT64_MAX);
    admitted(UINT64_MAX);
}

TEST(an_equal_token_is_admitted_again_without_a_flush)
{
    prepare();
    admitted(7);
    flushes = 0;
    for (int i = 0; i < 10; i++) {
        admitted(7);
    }
    CHECK_INT(flushes, ==, 0);
    admitted(8);
    CHECK_INT(flushes, >, 0);
}

TEST(the_path_need_not_exist_and_is_not_made)
{
    prepare();
    admitted(7);
    CHECK_INT(access(target, F_OK), ==, -1);
    CHECK_STR(content(sidecar), "snib-token 00000000000000000007 durable\n");
}

TEST(each_path_has_a_guard_of_its_own)
{
    char other[400];
    prepare();
    admitted(7);
    snprintf(other, sizeof other, "%s2", target);
    CHECK_INT(snib_guard(other, 1, NULL), ==, SNIB_OK);
    too_old(6, 7);
}

TEST(one_file_by_several_ways_to_its_directory_has_one_guard)
{
    char other[400];
    prepare();
    admitted(7);
    CHECK_INT(mkdir(target, 0755), ==, 0);
    snprintf(other, sizeof other, "%s//", target);
    CHECK_INT(snib_guard(other, 6, NULL), ==, SNIB_ELOST);
    snprintf(other, sizeof other, "%s/../data", target);
    CHECK_INT(snib_guard(other, 6, NULL), ==, SNIB_ELOST);
    CHECK_INT(chdir(check_tmpdir()), ==, 0);
    CHECK_INT(snib_guard("data", 6, NULL), ==, SNIB_ELOST);
    CHECK_INT(snib_guard("./data", 6, NULL), ==, SNIB_ELOST);
    CHECK_INT(symlink(".", "here"), ==, 0);
    CHECK_INT(snib_guard("here/data", 6, NULL), ==, SNIB_ELOST);
}

TEST(what_has_no_place_beside_it_is_refused)
{
    static const char *const bad[] = {"/", "//", ".", "..", "./", "/tmp/..", "/tmp/.//"};
    char path[400];
    refused(NULL, 7, SNIB_EINVAL, 0);
    refused("", 7, SNIB_EINVAL, 0);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        refused(bad[i], 7, SNIB_EINVAL, 0);
    }
    prepare();
    refused(target, 0, SNIB_EINVAL, 0);
    snprintf(path, sizeof path, "%s/%0244d", check_tmpdir(), 0);
    refused(path, 7, SNIB_EINVAL, 0);
    path[strlen(path) - 1] = '\0';
    CHECK_INT(snib_guard(path, 7, NULL), ==, SNIB_OK);
    snprintf(path, sizeof path, "%s/none/data", check_tmpdir());
    refused(path, 7, SNIB_ESYS, ENOENT);
    snprintf(path, sizeof path, "%s/x", sidecar);
    admitted(7);
    refused(path, 7, SNIB_ESYS, ENOTDIR);
}

/* ---- What lies there already ------------------------------------------------------------ */

TEST(a_guard_that_cannot_be_read_refuses_and_is_left_alone)
{
    static const char *const garbage[] = {
        "\n",
        "hello\n",
        "snib-token 00000000000000000007\n",
        "snib-token 00000000000000000007 durable",
        "snib-token 00000000000000000007 durablex",
        "snib-token 00000000000000000007 durable\n\n",
        "snib-token 00000000000000000007 duraple\n",
        "snib-token 00000000000000000007 somehow\n",
        "snib-token 0000000000000000000x durable\n",
        "snib-token -0000000000000000007 durable\n",
        "snib-token 99999999999999999999 durable\n",
        "snib-tokem 00000000000000000007 durable\n",
    };
    prepare();
    for (size_t i = 0; i < sizeof garbage / sizeof garbage[0]; i++) {
        put(sidecar, garbage[i], strlen(garbage[i]));
        refused(target, 9, SNIB_EUNSAFE, 0);
        CHECK_STR(content(sidecar), garbage[i]);
    }
    static const char zeros[40];
    put(sidecar, zeros, sizeof zeros);
    refused(target, 9, SNIB_EUNSAFE, 0);
}

TEST(an_empty_guard_has_admitted_nobody)
{
    prepare();
    put(sidecar, "", 0);
    admitted(3);
    too_old(2, 3);
}

TEST(a_link_or_a_fifo_in_its_place_is_refused)
{
    char other[400];
    prepare();
    snprintf(other, sizeof other, "%s/other", check_tmpdir());
    put(other, "", 0);
    CHECK_INT(symlink(other, sidecar), ==, 0);
    refused(target, 7, SNIB_EUNSAFE, ELOOP);
    CHECK_STR(content(other), "");
    CHECK_INT(unlink(sidecar), ==, 0);
    CHECK_INT(mkfifo(sidecar, 0666), ==, 0);
    refused(target, 7, SNIB_EUNSAFE, 0);
    CHECK_INT(unlink(sidecar), ==, 0);
    CHECK_INT(mkdir(sidecar, 0755), ==, 0);
    refused(target, 7, SNIB_ESYS, EISDIR);
}

/* ---- The system says no ----------------------------------------------------------------- */

static void without_privileges(void *arg)
{
    (void)arg;
    if (geteuid() == 0) {
        CHECK_INT(setgid(65534), ==, 0);
        CHECK_INT(setuid(65534), ==, 0);
    }
    refused(target, 9, SNIB_EDENIED, EACCES);
}

TEST(a_directory_that_cannot_be_written_refuses)
{
    char folder[256];
    snprintf(folder, sizeof folder, "%s/closed", check_tmpdir());
    CHECK_INT(mkdir(folder, 0755), ==, 0);
    snprintf(target, sizeof target, "%s/closed/data", check_tmpdir());
    CHECK_INT(chmod(folder, 0555), ==, 0);
    check_join(check_spawn(without_privileges, NULL), PATIENCE_MS);
    CHECK_INT(chmod(folder, 0755), ==, 0);
    admitted(7); /* from here on there is a file, but not theirs */
    snprintf(sidecar, sizeof sidecar, "%s/.data.snib-token", folder);
    CHECK_INT(chmod(sidecar, 0444), ==, 0);
    check_join(check_spawn(without_privileges, NULL), PATIENCE_MS);
    too_old(6, 7);
}

TEST(a_full_disk_refuses_and_forgets_nothing)
{
    prepare();
    fail_write = ENOSPC;
    refused(target, 7, SNIB_ESYS, ENOSPC);
    CHECK_STR(content(sidecar), "");
    fail_write = 0;
    admitted(5);
    fail_write = ENOSPC;
    refused(target, 7, SNIB_ESYS, ENOSPC);
    too_old(4, 5);
    admitted(5);
    fail_write = 0;
    admitted(6);
}

static void with_a_limit(void *arg)
{
    const rlim_t *bytes = arg;
    struct rlimit limit = {.rlim_cur = *bytes, .rlim_max = *bytes};
    signal(SIGXFSZ, SIG_IGN);
    CHECK_INT(setrlimit(RLIMIT_FSIZE, &limit), ==, 0);
    refused(target, 7, SNIB_ESYS, *bytes ? ENOSPC : EFBIG);
}

TEST(a_line_that_fits_only_in_part_leaves_nothing)
{
    rlim_t none = 0, some = 20;
    prepare();
    check_join(check_spawn(with_a_limit, &none), PATIENCE_MS);
    CHECK_STR(content(sidecar), "");
    check_join(check_spawn(with_a_limit, &some), PATIENCE_MS);
    CHECK_STR(content(sidecar), "");
    admitted(1);
}

TEST(a_token_that_may_not_be_on_the_disk_is_not_admitted)
{
    prepare();
    fail_flush = EIO;
    refused(target, 7, SNIB_ESYS, EIO);
    too_old(6, 7); /* nobody knows: the older one stays out */
    refused(target, 7, SNIB_ESYS, EIO);
    fail_flush = 0;
    flushes = 0;
    admitted(7);
    CHECK_INT(flushes, ==, 2); /* the line, and its entry in the directory */
    CHECK_STR(content(sidecar), "snib-token 00000000000000000007 durable\n");
}

/* ---- In the middle of it ---------------------------------------------------------------- */

static void kill_self(void)
{
    raise(SIGKILL);
}

static void ask_and_die(void *arg)
{
    at_flush = kill_self;
    CHECK(snib_guard(target, *(uint64_t *)arg, NULL) == 0); /* not reached */
}

TEST(a_check_killed_before_the_flush_is_finished_by_the_next)
{
    uint64_t token = 7;
    prepare();
    int status = check_wait(check_spawn(ask_and_die, &token), PATIENCE_MS);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    CHECK_STR(content(sidecar), "snib-token 00000000000000000007 pending\n");
    too_old(6, 7);
    flushes = 0;
    admitted(7);
    CHECK_INT(flushes, ==, 2);
    token = 8;
    status = check_wait(check_spawn(ask_and_die, &token), PATIENCE_MS);
    CHECK(WIFSIGNALED(status));
    admitted(9);
    CHECK_STR(content(sidecar), "snib-token 00000000000000000009 durable\n");
}

static void stop_self(void)
{
    raise(SIGSTOP);
}

static void ask_and_stop(void *arg)
{
    snib_error error = {0};
    (void)arg;
    at_flush = stop_self;
    CHECK_INT(snib_guard(target, 7, &error), ==, SNIB_ELOST);
    CHECK_UINT(error.holder_token, ==, 8);
}

TEST(a_check_that_is_stopped_keeps_nobody_out_and_comes_too_late)
{
    prepare();
    pid_t paused = check_spawn(ask_and_stop, NULL);
    int status;
    CHECK_INT(waitpid(paused, &status, WUNTRACED), ==, paused);
    CHECK(WIFSTOPPED(status));
    admitted(8);
    check_cont(paused);
    check_join(paused, PATIENCE_MS);
    too_old(7, 8);
}

static void remove_sidecar(void)
{
    CHECK_INT(unlink(sidecar), ==, 0);
}

static void rewrite_sidecar(void)
{
    put(sidecar, "snib-token 00000000000000000003 durable\n", 40);
}

TEST(a_guard_removed_meanwhile_is_made_again)
{
    prepare();
    at_flush = remove_sidecar;
    admitted(7);
    too_old(6, 7);
    at_flush = rewrite_sidecar;
    refused(target, 8, SNIB_EUNSAFE, 0);
}

TEST(a_guard_that_stays_locked_is_refused_in_bounded_time)
{
    struct flock all = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    prepare();
    admitted(7);
    int fd = open(sidecar, O_RDWR | O_CLOEXEC);
    CHECK(fd >= 0);
    CHECK_INT(fcntl(fd, F_OFD_SETLK, &all), ==, 0);
    refused(target, 8, SNIB_EBUSY, 0);
    close(fd);
    admitted(8);
}

/* ---- All at once ------------------------------------------------------------------------ */

enum { PROCESSES = 8, ROUNDS = 200 };

struct crowd {
    struct check_barrier start;
    _Atomic uint64_t next;     /* tokens are drawn from here */
    _Atomic uint64_t greatest; /* admitted and back in the caller */
    _Atomic uint64_t count, refusals;
};

static void take_part(void *arg)
{
    struct crowd *crowd = arg;
    check_barrier_wait(&crowd->start, PROCESSES, PATIENCE_MS);
    for (int i = 0; i < ROUNDS; i++) {
        uint64_t token = atomic_fetch_add(&crowd->next, 1) + 1;
        if (i % 3 == 0) {
            sched_yield();
        }
        uint64_t before = atomic_load(&crowd->greatest);
        snib_error error = {0};
        int rc = snib_guard(target, token, &error);
        if (rc == SNIB_ELOST) {
            CHECK_UINT(error.holder_token, >, token);
            atomic_fetch_add(&crowd->refusals, 1);
            continue;
        }
        CHECK_OK(rc, error.message);
        CHECK_UINT(token, >=, before);
        atomic_fetch_add(&crowd->count, 1);
        uint64_t seen = atomic_load(&crowd->greatest);
        while (seen < token && !atomic_compare_exchange_weak(&crowd->greatest, &seen, token)) {
        }
    }
}

TEST_LIMIT(nobody_is_admitted_after_somebody_newer, 120)
{
    struct crowd *crowd = check_shared(sizeof *crowd);
    pid_t pids[PROCESSES];
    char last[64];
    prepare();
    for (int i = 0; i < PROCESSES; i++) {
        pids[i] = check_spawn(take_part, crowd);
    }
    for (int i = 0; i < PROCESSES; i++) {
        check_join(pids[i], 100000);
    }
    CHECK_UINT(atomic_load(&crowd->count) + atomic_load(&crowd->refusals), ==, PROCESSES * ROUNDS);
    CHECK_UINT(atomic_load(&crowd->greatest), ==, PROCESSES * ROUNDS);
    snprintf(last, sizeof last, "snib-token %020" PRIu64 " durable\n",
             (uint64_t)(PROCESSES * ROUNDS));
    CHECK_STR(content(sidecar), last);
}

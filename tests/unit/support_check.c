/*
 * The harness tested by itself: cases that fail on purpose ("victims") are only there when this
 * program is run with --victim, which the other cases do, in a process of its own, to look at
 * its verdict.
 */
#include "check.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__)
#define WITH_LEAK_CHECK 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define WITH_LEAK_CHECK 1
#endif
#endif
#ifndef WITH_LEAK_CHECK
#define WITH_LEAK_CHECK 0
#endif

/* ---- Victims ---------------------------------------------------------------------------- */

static bool is_victim(void)
{
    return check_option("victim") != NULL;
}

#define VICTIM(name) TEST_CASE(name, CHECK_DEFAULT_LIMIT_SECONDS, is_victim)

/* Leaves a note for the case that watches. */
static void leave_note(const char *format, ...) __attribute__((format(printf, 1, 2)));

static void leave_note(const char *format, ...)
{
    const char *path = check_option("note");
    FILE *file = path != NULL ? fopen(path, "we") : NULL;
    CHECK(file != NULL);
    va_list arguments;
    va_start(arguments, format);
    vfprintf(file, format, arguments);
    va_end(arguments);
    fclose(file);
}

VICTIM(victim_passes)
{
    CHECK(true);
    CHECK_INT(1, <, 2);
    CHECK_UINT(UINT64_MAX, >, 1);
    CHECK_STR("same", "same");
    CHECK_STR(NULL, NULL);
    CHECK_OK(0, NULL);
}

VICTIM(victim_compares_numbers)
{
    CHECK_INT(1 + 1, ==, 3);
}

VICTIM(victim_compares_strings)
{
    const char *nothing = NULL;
    CHECK_STR(nothing, "something");
}

VICTIM(victim_gets_an_error)
{
    CHECK_OK(-5, "no such lock");
}

static void fail_here(void *arg)
{
    (void)arg;
    FAIL("deep %s", "inside");
}

static void *fail_in_thread(void *arg)
{
    fail_here(arg);
    return NULL;
}

VICTIM(victim_fails_in_a_thread)
{
    pthread_t thread;
    CHECK_INT(pthread_create(&thread, NULL, fail_in_thread, NULL), ==, 0);
    pthread_join(thread, NULL);
}

VICTIM(victim_fails_in_a_helper)
{
    check_join(check_spawn(fail_here, NULL), 10000);
}

VICTIM(victim_ignores_its_failing_helper)
{
    CHECK(check_wait(check_spawn(fail_here, NULL), 10000) != -1);
}

VICTIM(victim_crashes)
{
    leave_note("%s", check_tmpdir());
    char path[512];
    snprintf(path, sizeof path, "%s/sub", check_tmpdir());
    CHECK_INT(mkdir(path, 0), ==, 0);
    abort();
}

VICTIM(victim_exits_with_a_status)
{
    exit(7);
}

VICTIM(victim_skips)
{
    SKIP("there is no %s here", "server");
}

static void sleep_long(void *arg)
{
    (void)arg;
    for (int i = 0; i < 600; i++) {
        check_sleep_ms(1000);
    }
}

VICTIM(victim_leaves_a_running_child)
{
    check_spawn(sleep_long, NULL);
}

static void nothing_to_do(void *arg)
{
    (void)arg;
}

VICTIM(victim_leaves_an_ended_child)
{
    check_spawn(nothing_to_do, NULL);
}

VICTIM(victim_manages_its_child)
{
    check_manage(check_spawn(sleep_long, NULL));
}

/* A process in a session of its own, whose parent is gone. */
static void make_orphan(void *arg)
{
    struct check_flag *noted = arg;
    if (fork() == 0) {
        setsid();
        leave_note("%d", getpid());
        check_flag_set(noted);
        sleep_long(NULL);
        _exit(0);
    }
    check_flag_wait(noted, 10000);
}

VICTIM(victim_leaves_an_orphan)
{
    check_join(check_spawn(make_orphan, check_shared(sizeof(struct check_flag))), 10000);
}

TEST_CASE(victim_hangs_with_an_orphan, 1, is_victim)
{
    check_join(check_spawn(make_orphan, check_shared(sizeof(struct check_flag))), 10000);
    sleep_long(NULL);
}

VICTIM(victim_leaks_memory)
{
    static void *volatile kept;
    for (size_t i = 0; i < 100; i++) { /* the address of one may be left over on the stack */
        kept = malloc(100 + i);
        CHECK(kept != NULL);
    }
    kept = NULL;
}

VICTIM(victim_wants_an_option_and_an_argument)
{
    CHECK_STR(check_option("engine"), "file");
    CHECK_STR(check_option("equal"), "sign");
    CHECK_STR(check_option("other"), NULL);
    CHECK_STR(check_args()[0], "--list");
    CHECK_STR(check_args()[1], NULL);
}

VICTIM(victim_shows_a_log)
{
    char path[512];
    snprintf(path, sizeof path, "%s/log", check_tmpdir());
    FILE *file = fopen(path, "we");
    CHECK(file != NULL);
    fputs("first\nlast words of the server\n", file);
    fclose(file);
    check_show_on_failure("the server", path);
    FAIL("it did not work");
}

/* ---- Looking at victims ----------------------------------------------------------------- */

struct verdict {
    int status;
    char output[16384];
    char note[512];
};

static void read_all(const char *path, char *text, size_t size)
{
    text[0] = '\0';
    FILE *file = fopen(path, "re");
    if (file != NULL) {
        text[fread(text, 1, size - 1, file)] = '\0';
        fclose(file);
    }
}

static _Noreturn void become(const char *const *arguments, const char *output, const char *ci)
{
    int descriptor = open(output, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    dup2(descriptor, STDOUT_FILENO);
    dup2(descriptor, STDERR_FILENO);
    setenv("CI", ci, 1);
    setenv("SNIB_TEST_SLOW", "1", 1); /* the victims' time-outs are what takes long here */
    execv("/proc/self/exe", (char *const *)(uintptr_t)arguments);
    _exit(127);
}

static struct verdict run_self(const char *const *arguments, const char *ci)
{
    struct verdict verdict;
    char output[512];
    char note[512];
    snprintf(output, sizeof output, "%s/output", check_tmpdir());
    snprintf(note, sizeof note, "%s/note", check_tmpdir());
    const char *all[16] = {"self", "--victim", "yes", "--note", note};
    for (int i = 0; arguments[i] != NULL; i++) {
        all[5 + i] = arguments[i];
    }
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        become(all, output, ci);
    }
    int status = check_wait(pid, 25000);
    CHECK(status != -1 && WIFEXITED(status));
    verdict.status = WEXITSTATUS(status);
    read_all(output, verdict.output, sizeof verdict.output);
    read_all(note, verdict.note, sizeof verdict.note);
    return verdict;
}

static struct verdict run_victim(const char *name)
{
    const char *const arguments[] = {name, NULL};
    return run_self(arguments, "");
}

static void check_has(const struct verdict *verdict, const char *text)
{
    if (strstr(verdict->output, text) == NULL) {
        FAIL("\"%s\" is not in this output:\n%s", text, verdict->output);
    }
}

static void check_fails(const char *name, const char *why)
{
    struct verdict verdict = run_victim(name);
    char line[128];
    snprintf(line, sizeof line, "not ok %s", name);
    check_has(&verdict, line);
    check_has(&verdict, why);
    check_has(&verdict, "\n0 passed, 1 failed\n");
    CHECK_INT(verdict.status, ==, 1);
}

TEST(a_passing_case_is_ok)
{
    struct verdict verdict = run_victim("victim_passes");
    check_has(&verdict, "ok victim_passes (");
    check_has(&verdict, "\n1 passed, 0 failed\n");
    CHECK_INT(verdict.status, ==, 0);
}

TEST(a_failed_assertion_shows_place_and_values)
{
    check_fails("victim_compares_numbers", "unit/support_check.c:");
    check_fails("victim_compares_numbers", ": 1 + 1 == 3, but the values are 2 and 3\n");
    check_fails("victim_compares_strings", "the values are NULL and \"something\"\n");
    check_fails("victim_gets_an_error", "-5 answers -5: no such lock\n");
}

TEST(an_assertion_in_a_thread_fails_the_case)
{
    check_fails("victim_fails_in_a_thread", "deep inside");
}

TEST(an_assertion_in_a_helper_fails_the_case)
{
    check_fails("victim_fails_in_a_helper", "deep inside");
    check_fails("victim_fails_in_a_helper", "exited with status 99");
    check_fails("victim_ignores_its_failing_helper", "deep inside");
}

TEST(a_crash_fails_the_case_and_leaves_no_folder)
{
    struct verdict verdict = run_victim("victim_crashes");
    check_has(&verdict, "not ok victim_crashes");
    CHECK_INT(verdict.status, ==, 1);
    CHECK(strlen(verdict.note) > 1);
    CHECK_INT(access(verdict.note, F_OK), ==, -1);
}

TEST(an_exit_status_fails_the_case)
{
    check_fails("victim_exits_with_a_status", "exited with status 7");
}

TEST(a_skip_gives_its_reason)
{
    struct verdict verdict = run_victim("victim_skips");
    check_has(&verdict, "skip victim_skips: there is no server here\n");
    check_has(&verdict, "\n0 passed, 0 failed, 1 skipped\n");
    CHECK_INT(verdict.status, ==, 0);
}

TEST(a_skip_is_a_failure_in_ci)
{
    const char *const arguments[] = {"victim_skips", NULL};
    struct verdict verdict = run_self(arguments, "true");
    check_has(&verdict, "not ok victim_skips");
    check_has(&verdict, "there is no server here\n");
    CHECK_INT(verdict.status, ==, 1);
}

TEST(a_child_left_behind_fails_the_case)
{
    check_fails("victim_leaves_a_running_child", "still running");
    check_fails("victim_leaves_an_ended_child", "the case left a child process");
}

TEST(a_managed_child_may_stay)
{
    CHECK_INT(run_victim("victim_manages_its_child").status, ==, 0);
}

static pid_t noted_process(const struct verdict *verdict)
{
    pid_t pid = (pid_t)strtol(verdict->note, NULL, 10);
    CHECK(pid > 1);
    return pid;
}

TEST_LIMIT(an_orphan_left_behind_fails_the_case_and_is_killed, 60)
{
    struct verdict verdict = run_victim("victim_leaves_an_orphan");
    check_has(&verdict, "the case left a process behind");
    CHECK_INT(verdict.status, ==, 1);
    CHECK(!check_alive(noted_process(&verdict)));
}

TEST_LIMIT(a_time_out_kills_everything_the_case_started, 60)
{
    struct verdict verdict = run_victim("victim_hangs_with_an_orphan");
    check_has(&verdict, "over its limit of ");
    CHECK_INT(verdict.status, ==, 1);
    CHECK(!check_alive(noted_process(&verdict)));
}

TEST(a_leak_fails_the_case_where_leaks_are_checked)
{
    CHECK_INT(run_victim("victim_leaks_memory").status, ==, WITH_LEAK_CHECK);
}

TEST(options_and_arguments_reach_the_case)
{
    const char *const arguments[] = {
        "--engine", "file", "victim_wants_an_option_and_an_argument", "--equal=sign", "--",
        "--list",   NULL};
    struct verdict verdict = run_self(arguments, "");
    check_has(&verdict, "\n1 passed, 0 failed\n");
}

TEST(the_list_has_what_applies_in_order)
{
    const char *const list[] = {"--list", NULL};
    struct verdict verdict = run_self(list, "");
    check_has(&verdict, "victim_passes\nvictim_compares_numbers\n");
    check_has(&verdict, "a_passing_case_is_ok\n");
    CHECK(is_victim() == false);
}

TEST(an_unknown_case_is_refused)
{
    struct verdict verdict = run_victim("no_such_case");
    check_has(&verdict, "no such case: no_such_case");
    CHECK_INT(verdict.status, ==, 2);
}

TEST(a_log_is_shown_when_the_case_fails)
{
    check_fails("victim_shows_a_log", "last lines of the server:\n    first\n    last words");
}

/* ---- Helpers ---------------------------------------------------------------------------- */

static void count_up(void *arg)
{
    _Atomic uint64_t *counter = arg;
    for (;;) {
        atomic_fetch_add(counter, 1);
        check_sleep_ms(1);
    }
}

struct above {
    _Atomic uint64_t *counter;
    uint64_t value;
};

static bool is_above(void *arg)
{
    struct above *above = arg;
    return atomic_load(above->counter) > above->value;
}

TEST(a_stopped_process_stands_still_until_it_goes_on)
{
    _Atomic uint64_t *counter = check_shared(sizeof *counter);
    pid_t pid = check_spawn(count_up, counter);
    struct above above = {counter, 0};
    CHECK(check_until(is_above, &above, 10000));
    check_stop(pid);
    above.value = atomic_load(counter);
    check_sleep_ms(50);
    CHECK_UINT(atomic_load(counter), ==, above.value);
    CHECK(check_alive(pid));
    check_cont(pid);
    CHECK(check_until(is_above, &above, 10000));
    check_kill(pid);
    CHECK(!check_alive(pid));
}

struct meeting {
    struct check_flag start;
    struct check_barrier barrier;
    _Atomic int rounds[4];
};

static struct meeting *meeting;

static void meet(void *arg)
{
    _Atomic int *own = arg;
    check_flag_wait(&meeting->start, 10000);
    for (int round = 1; round <= 50; round++) {
        atomic_store(own, round);
        check_barrier_wait(&meeting->barrier, 4, 10000);
        for (int i = 0; i < 4; i++) {
            CHECK_INT(atomic_load(&meeting->rounds[i]), ==, round);
        }
        check_barrier_wait(&meeting->barrier, 4, 10000);
    }
}

TEST(flags_and_barriers_hold_processes_together)
{
    pid_t pids[4];
    meeting = check_shared(sizeof *meeting);
    for (int i = 0; i < 4; i++) {
        pids[i] = check_spawn(meet, &meeting->rounds[i]);
    }
    CHECK(!check_flag_is_set(&meeting->start));
    check_flag_set(&meeting->start);
    for (int i = 0; i < 4; i++) {
        check_join(pids[i], 20000);
    }
}

static void exit_with_3(void *arg)
{
    (void)arg;
    exit(3);
}

TEST(wait_tells_how_a_process_ended)
{
    pid_t pid = check_spawn(sleep_long, NULL);
    CHECK_INT(check_wait(pid, 20), ==, -1);
    kill(pid, SIGTERM);
    int status = check_wait(pid, 10000);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
    status = check_wait(check_spawn(exit_with_3, NULL), 10000);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 3);
}

static void *idle(void *arg)
{
    check_flag_wait(arg, 10000);
    return NULL;
}

TEST(threads_and_descriptors_are_counted)
{
    struct check_flag flag = {0};
    pthread_t thread;
    int threads = check_thread_count();
    CHECK_INT(pthread_create(&thread, NULL, idle, &flag), ==, 0);
    CHECK_INT(check_thread_count(), >, threads);
    check_flag_set(&flag);
    pthread_join(thread, NULL);

    int descriptors = check_fd_count();
    int pair[2];
    CHECK_INT(pipe(pair), ==, 0);
    CHECK_INT(check_fd_count(), ==, descriptors + 2);
    close(pair[0]);
    close(pair[1]);
    CHECK_INT(check_fd_count(), ==, descriptors);
}

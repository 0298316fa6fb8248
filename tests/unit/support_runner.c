/*
 * The parallel runner, with plain shells as programs and with this program's own cases.
 */
#include "check.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static bool is_victim(void)
{
    return check_option("victim") != NULL;
}

static bool is_watcher(void)
{
    return !is_victim();
}

TEST_CASE(victim_passes, 10, is_victim)
{
    CHECK_STR(check_option("victim"), "yes");
}

TEST_CASE(victim_fails, 10, is_victim)
{
    FAIL("this is why");
}

TEST_CASE(victim_skips, 10, is_victim)
{
    SKIP("no such server");
}

struct outcome {
    int status;
    char output[16384];
};

/* The runner lies beside this program or in a folder above it. */
static void find_runner(char path[static PATH_MAX])
{
    char folder[PATH_MAX / 2];
    ssize_t length = readlink("/proc/self/exe", folder, sizeof folder - 1);
    CHECK(length > 0);
    folder[length] = '\0';
    for (char *slash; (slash = strrchr(folder, '/')) != NULL;) {
        *slash = '\0';
        snprintf(path, PATH_MAX, "%s/runner", folder);
        if (access(path, X_OK) == 0) {
            return;
        }
    }
    SKIP("the runner is not built");
}

static const char *self(const char *arguments)
{
    static char text[PATH_MAX + 256];
    char program[PATH_MAX];
    ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
    CHECK(length > 0);
    program[length] = '\0';
    snprintf(text, sizeof text, "%s %s", program, arguments);
    return text;
}

static struct outcome run(const char *const *arguments)
{
    struct outcome outcome;
    char runner[PATH_MAX];
    char file[512];
    find_runner(runner);
    snprintf(file, sizeof file, "%s/output", check_tmpdir());
    const char *all[16] = {runner};
    for (int i = 0; arguments[i] != NULL; i++) {
        all[1 + i] = arguments[i];
    }
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        int descriptor = open(file, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
        dup2(descriptor, STDOUT_FILENO);
        dup2(descriptor, STDERR_FILENO);
        setenv("CI", "", 1);
        setenv("TMPDIR", check_tmpdir(), 1);
        execv(runner, (char *const *)(uintptr_t)all);
        _exit(127);
    }
    int status = check_wait(pid, 25000);
    CHECK(status != -1 && WIFEXITED(status));
    outcome.status = WEXITSTATUS(status);
    FILE *read_back = fopen(file, "re");
    CHECK(read_back != NULL);
    outcome.output[fread(outcome.output, 1, sizeof outcome.output - 1, read_back)] = '\0';
    fclose(read_back);
    return outcome;
}

static void check_has(const struct outcome *outcome, const char *text)
{
    if (strstr(outcome->output, text) == NULL) {
        FAIL("\"%s\" is not in this output:\n%s", text, outcome->output);
    }
}

TEST_WHEN(every_case_of_a_program_is_counted, is_watcher)
{
    const char *const arguments[] = {"--label", "plain", "-j", "2", self("--victim yes"), NULL};
    struct outcome outcome = run(arguments);
    check_has(&outcome, "not ok [plain] support_runner --victim yes victim_fails: exit status 1\n");
    check_has(&outcome, "this is why\n");
    check_has(&outcome, "skip [plain] support_runner --victim yes victim_skips: no such server\n");
    check_has(&outcome, "support_runner --victim yes: 1 passed, 1 failed, 1 skipped, ");
    check_has(&outcome, "\n1 passed, 1 failed, 1 skipped\n");
    CHECK_INT(outcome.status, ==, 1);
}

TEST_WHEN(the_last_line_adds_up, is_watcher)
{
    const char *const arguments[] = {"--slowest", "exec:/bin/true", "exec:/bin/sh -c true",
                                     "exec:/bin/false", NULL};
    struct outcome outcome = run(arguments);
    check_has(&outcome, "true: 1 passed, 0 failed, ");
    check_has(&outcome, "sh -c true: 1 passed, 0 failed, ");
    check_has(&outcome, "not ok false: exit status 1\n");
    check_has(&outcome, "slow ");
    check_has(&outcome, "\n2 passed, 1 failed\n");
    CHECK_INT(outcome.status, ==, 1);
}

TEST_WHEN(all_well_is_status_0, is_watcher)
{
    const char *const arguments[] = {"exec:/bin/true", NULL};
    struct outcome outcome = run(arguments);
    check_has(&outcome, "\n1 passed, 0 failed\n");
    CHECK_INT(outcome.status, ==, 0);
}

static const char *write_script(const char *name, const char *text)
{
    static char path[512];
    snprintf(path, sizeof path, "%s/%s", check_tmpdir(), name);
    FILE *file = fopen(path, "we");
    CHECK(file != NULL);
    fputs(text, file);
    fclose(file);
    return path;
}

TEST_WHEN(a_program_over_its_time_is_killed_with_its_children, is_watcher)
{
    char program[600];
    char pid_file[512];
    snprintf(pid_file, sizeof pid_file, "%s/pid", check_tmpdir());
    const char *script = write_script("hang", "sleep 1000 & echo $! > $1\nwait\n");
    snprintf(program, sizeof program, "exec:/bin/sh %s %s", script, pid_file);
    const char *const arguments[] = {"--timeout", "1", program, NULL};
    struct outcome outcome = run(arguments);
    check_has(&outcome, ": killed after ");
    check_has(&outcome, "\n0 passed, 1 failed\n");
    int child = 0;
    FILE *file = fopen(pid_file, "re");
    CHECK(file != NULL && fscanf(file, "%d", &child) == 1);
    fclose(file);
    CHECK(!check_alive(child));
}

TEST_WHEN(a_program_that_cannot_list_its_cases_is_a_failure, is_watcher)
{
    const char *const arguments[] = {"/bin/false", NULL};
    struct outcome outcome = run(arguments);
    check_has(&outcome, "not ok false: --list failed\n");
    check_has(&outcome, "\n0 passed, 1 failed\n");
    CHECK_INT(outcome.status, ==, 1);
}

TEST_WHEN(a_plain_program_skips_with_77, is_watcher)
{
    char program[600];
    snprintf(program, sizeof program, "exec:/bin/sh %s",
             write_script("skip", "echo the reason\nexit 77\n"));
    const char *const arguments[] = {program, NULL};
    struct outcome outcome = run(arguments);
    check_has(&outcome, ": the reason\n");
    check_has(&outcome, "\n0 passed, 0 failed, 1 skipped\n");
    CHECK_INT(outcome.status, ==, 0);
}

TEST_WHEN(a_case_that_is_left_out_is_not_run, is_watcher)
{
    char program[600];
    snprintf(program, sizeof program, "/bin/sh %s",
             write_script("two", "case $1 in --list) echo good; echo bad;; bad) exit 1;; esac\n"));
    const char *const arguments[] = {"--without", "bad", program, NULL};
    struct outcome outcome = run(arguments);
    check_has(&outcome, "\n1 passed, 0 failed\n");
    CHECK_INT(outcome.status, ==, 0);
}

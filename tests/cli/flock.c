/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A crontab moves from flock(1) to snib run line by line.
 *
 * The lines are the forms in which people write them, with the jobs replaced by short ones. Each
 * is run with flock and with snib run, once with the lock free and once with it held by flock
 * itself, by way of `sh -c` as cron does it. Output and status must be the same but for one
 * thing: where flock says 1 for "held" and nothing else was asked for, snib says 75.
 */
#include "capture.h"
#include "stage.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define PATIENCE_MS 20000

/* @ stands for the command, # for the folder. */
static const char *const lines[] = {
    "@ -n #/job.lock echo ran",
    "@ -n #/job.lock -c 'echo ran && exit 3'",
    "@ -n #/job.lock --command 'echo \"$0\"; exit 0'",
    "@ -xn #/job.lock sh -c 'cd / && pwd'",
    "@ -n -x #/job.lock echo a b  'c  d'",
    "@ -nx #/job.lock echo ran",
    "@ --nonblock #/job.lock echo ran",
    "@ --nb #/job.lock echo ran",
    "@ --nonblock --conflict-exit-code 0 #/job.lock echo ran",
    "@ -n -E 0 #/job.lock echo ran",
    "@ -n -E 200 #/job.lock false",
    "@ -w 0 #/job.lock echo ran",
    "@ -w 0.1 #/job.lock echo ran",
    "@ -w 1 -E 7 #/job.lock sh -c 'exit 9'",
    "@ --wait 0.1 #/job.lock echo ran",
    "@ --timeout=0.1 #/job.lock echo ran",
    "@ -e -w 0.1 #/job.lock echo ran",
    "@ -o -n #/job.lock echo ran",
    "@ --close --exclusive -n #/job.lock echo ran",
    "@ -n #/job.lock nice -n 19 echo ran",
    "@ -n #/job.lock timeout 10 sh -c 'echo out; echo err >&2; exit 4'",
    "@ -n '#/a lock with blanks' echo ran",
    "@ -n #/job.lock echo ran > #/out 2>&1; status=$?; cat #/out; exit $status",
    "@ -n #/job.lock sh -c 'kill -TERM $$'",
    "@ -n #/job.lock sh -c 'kill -KILL $$'",
    "echo in | @ -n #/job.lock cat",
    "@ -n #/job.lock true && echo yes || echo no",
    "cd # && @ -n #/job.lock pwd",
    "A=1 B=2 @ -n #/job.lock sh -c 'echo $A$B'",
    "@ -s -n #/job.lock echo ran",
    "@ --shared -w 0.1 #/job.lock echo ran",
    "@ -n # echo a folder is a lock too",
    "(@ -n #/job.lock echo ran) 2>/dev/null",
    "[ -d # ] && @ -n #/job.lock env -i sh -c 'echo $HOME ran'",
    "@ -n -- #/job.lock echo ran",
};

static void fill(char *out, size_t size, const char *line, const char *command)
{
    size_t used = 0;
    for (const char *p = line; *p; p++) {
        const char *text = *p == '@' ? command : *p == '#' ? check_tmpdir() : NULL;
        used += (size_t)(text ? snprintf(out + used, size - used, "%s", text)
                              : snprintf(out + used, size - used, "%c", *p));
        CHECK(used < size);
    }
}

static struct capture *run(const char *line, const char *command)
{
    char script[2048];
    fill(script, sizeof script, line, command);
    struct capture *copy = malloc(sizeof *copy);
    CHECK(copy != NULL);
    *copy = *capture_command((const char *const[]){"sh", "-c", script, NULL});
    return copy;
}

static void compare(const char *line, bool held)
{
    struct capture *flock = run(line, "flock");
    struct capture *snib = run(line, STAGE_SNIB " run");
    bool busy = held && flock->status == 1 && snib->status == 75;
    if ((flock->status != snib->status && !busy) || strcmp(flock->out, snib->out) != 0 ||
        strcmp(flock->err, snib->err) != 0) {
        FAIL("%s (%s): flock %d '%s' '%s', snib %d '%s' '%s'", line, held ? "held" : "free",
             flock->status, flock->out, flock->err, snib->status, snib->out, snib->err);
    }
    free(flock);
    free(snib);
}

static void need_flock(void)
{
    stage_file();
    unsetenv("SHELL");
    if (capture_command((const char *const[]){"flock", "--version", NULL})->status != 0) {
        SKIP("flock is not here; package util-linux");
    }
}

TEST_LIMIT(crontab_lines_mean_the_same_when_the_lock_is_free, 120)
{
    need_flock();
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        compare(lines[i], false);
    }
}

TEST_LIMIT(crontab_lines_mean_the_same_when_flock_holds_the_lock, 120)
{
    struct actor holder;
    char script[600];
    need_flock();
    snprintf(script, sizeof script,
             "cd %s && exec 7>job.lock 8>'a lock with blanks' 9<. && flock 7 && flock 8 && flock 9 "
             "&& echo held && read a",
             check_tmpdir());
    stage_start(&holder, (const char *const[]){"sh", "-c", script, NULL});
    CHECK_STR(stage_line(holder.out, PATIENCE_MS), "held");
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        compare(lines[i], true);
    }
    kill(holder.pid, SIGTERM);
    CHECK_INT(stage_end(&holder, PATIENCE_MS), ==, 128 + SIGTERM);
}

TEST(flock_and_snib_exclude_each_other_on_a_path)
{
    struct actor holder;
    char path[300];
    need_flock();
    snprintf(path, sizeof path, "%s/job.lock", check_tmpdir());
    stage_snib(&holder, "run", path, "--", "sh", "-c", "echo in; read a");
    CHECK_STR(stage_line(holder.out, PATIENCE_MS), "in");
    const char *const try[] = {"flock", "-n", path, "true", NULL};
    CHECK_INT(capture_command(try)->status, ==, 1);
    CHECK(write(holder.in, "\n", 1) == 1);
    CHECK_INT(stage_end(&holder, PATIENCE_MS), ==, 0);
    CHECK_INT(capture_command(try)->status, ==, 0);
}

TEST(break_names_who_holds_a_path_by_flock)
{
    struct actor holder;
    char path[300], shell[400];
    need_flock();
    snprintf(path, sizeof path, "%s/job.lock", check_tmpdir());
    snprintf(shell, sizeof shell, "exec 9>'%s'; flock 9; echo in; read a", path);
    const char *const script[] = {"sh", "-c", shell, NULL};
    stage_start(&holder, script);
    CHECK_STR(stage_line(holder.out, PATIENCE_MS), "in");
    const struct capture *said = capture("break", path);
    CHECK_INT(said->status, ==, 75);
    CHECK(strstr(said->err, "(flock)") != NULL);
    said = capture("break", "--yes", path);
    CHECK_INT(said->status, ==, 75);
    CHECK(strstr(said->err, "end that process") != NULL);
    CHECK(write(holder.in, "\n", 1) == 1);
    CHECK_INT(stage_end(&holder, PATIENCE_MS), ==, 0);
}

TEST(the_shell_of_c_is_the_user_s)
{
    need_flock();
    setenv("SHELL", "/bin/echo", 1);
    const struct capture *said = capture("run", "x", "-c", "a  b");
    CHECK_STR(said->out, "-c a  b\n");
    setenv("SHELL", "", 1);
    CHECK_STR(capture("run", "x", "-c", "echo a  b")->out, "a b\n");
}

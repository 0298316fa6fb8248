/* SPDX-License-Identifier: Apache-2.0 */
/* Names that are paths, in several spellings: one lock, whose run waits neither for itself nor for
 * the run around it. */
#include "capture.h"
#include "stage.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <stdio.h>
#include <string.h>

static char spelt[4][300];

static void spell(void)
{
    const char *folder = check_tmpdir();
    stage_file(); /* not the directory of this user */
    snprintf(spelt[0], sizeof spelt[0], "%s/job", folder);
    snprintf(spelt[1], sizeof spelt[1], "%s//job", folder);
    snprintf(spelt[2], sizeof spelt[2], "%s/./job", folder);
    snprintf(spelt[3], sizeof spelt[3], "/%s/.//job/", folder);
}

TEST(safety_59_a_path_and_its_other_spelling_are_one_lock_given_twice)
{
    spell();
    for (int i = 1; i < 4; i++) {
        const struct capture *said =
            capture("run", "-w", "5", "--also", spelt[0], spelt[i], "--", "true");
        CHECK_INT(said->status, ==, 64);
        CHECK(strstr(said->err, "is given twice"));
    }
}

TEST(safety_59_a_run_inside_a_run_sees_the_same_path_in_another_spelling)
{
    spell();
    for (int i = 1; i < 4; i++) {
        const struct capture *said =
            capture("run", spelt[0], "--", STAGE_SNIB, "run", "-w", "5", spelt[i], "--", "true");
        CHECK_INT(said->status, ==, 64);
        CHECK(strstr(said->err, "around this one"));
        said = capture("run", spelt[i], "--", STAGE_SNIB, "run", "-w", "5", spelt[0], "--", "true");
        CHECK_INT(said->status, ==, 64);
        CHECK(strstr(said->err, "around this one"));
    }
}

/* One directory, several ways to it: they exclude each other, and a run does not wait for the one
 * around it. */
TEST(a_directory_and_its_other_spellings_are_one_place)
{
    char plain[300], url[6][340];
    stage_file();
    snprintf(plain, sizeof plain, "%s/real dir", check_tmpdir());
    CHECK(mkdir(plain, 0700) == 0);
    snprintf(plain, sizeof plain, "%s/way", check_tmpdir());
    CHECK(symlink(check_tmpdir(), plain) == 0);
    snprintf(url[0], sizeof url[0], "file://%s/real%%20dir", check_tmpdir());
    snprintf(url[1], sizeof url[1], "file://%s/real%%20dir/", check_tmpdir());
    snprintf(url[2], sizeof url[2], "file://%s/./real%%20dir/.", check_tmpdir());
    snprintf(url[3], sizeof url[3], "file://%s/way/real%%20dir", check_tmpdir());
    snprintf(url[4], sizeof url[4], "file://%s/real%%20dir?timeout=7s", check_tmpdir());
    snprintf(url[5], sizeof url[5], "file://%s//real%%20dir", check_tmpdir());
    for (int i = 0; i < 6; i++) {
        const struct capture *said = capture("run", "-U", url[0], "x", "--", STAGE_SNIB, "run",
                                             "-n", "-U", url[i], "x", "--", "true");
        CHECK_INT(said->status, ==, 75);
        said = capture("run", "-U", url[0], "x", "--", STAGE_SNIB, "run", "-w", "20", "-U", url[i],
                       "x", "--", "true");
        CHECK_INT(said->status, ==, 64);
        CHECK(strstr(said->err, "around this one"));
    }
}

/* `9>file` and flock's descriptor: a habit that would lock something else without a word. */
TEST(a_name_that_is_an_open_descriptor_is_warned_of_with_the_path_to_use)
{
    char path[300];
    stage_file();
    snprintf(path, sizeof path, "%s/job.lock", check_tmpdir());
    setenv("FILE", path, 1);
    const struct capture *said = capture_command(
        (const char *const[]){"bash", "-c", STAGE_SNIB " run -n 9 true 9>\"$FILE\"", NULL});
    CHECK_INT(said->status, ==, 0);
    CHECK(strstr(said->err, "not descriptor 9") != NULL);
    CHECK(strstr(said->err, path) != NULL);
    CHECK_STR(capture("run", "9", "--", "true")->err, ""); /* a name like another */
}

TEST(a_name_that_is_also_a_file_here_is_warned_of_with_the_path_to_use)
{
    char path[300];
    stage_file();
    CHECK(chdir(check_tmpdir()) == 0);
    snprintf(path, sizeof path, "%s/job.lock", check_tmpdir());
    int fd = open("job.lock", O_CREAT | O_WRONLY | O_CLOEXEC, 0644);
    CHECK(fd >= 0);
    close(fd);
    const struct capture *said = capture("run", "job.lock", "--", "true");
    CHECK_INT(said->status, ==, 0);
    CHECK(strstr(said->err, path) != NULL);
    CHECK_STR(capture("run", path, "--", "true")->err, "");
    CHECK_STR(capture("run", "no-such-file", "--", "true")->err, "");
}

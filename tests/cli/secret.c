/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A password in a URL is seen nowhere: not in arguments, environments, messages, by anybody.
 */
#include "capture.h"
#include "stage.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#define PATIENCE_MS 20000
#define PASSWORD "h0rse-battery"

/* The fake engine does not mind a user and a password. */
static const char *secret_url(void)
{
    static char url[400];
    (void)stage_fake("ttl=30s");
    snprintf(url, sizeof url, "fake://me:" PASSWORD "@host%s/fake?ttl=30s", check_tmpdir());
    return url;
}

/* Arguments or environment of a process, with what is NUL made readable. */
static const char *read_proc(pid_t pid, const char *what)
{
    static char text[65536];
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/%s", pid, what);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    CHECK(fd >= 0);
    ssize_t n = read(fd, text, sizeof text - 1);
    CHECK(n >= 0);
    close(fd);
    for (ssize_t i = 0; i < n; i++) {
        text[i] = text[i] ? text[i] : ' ';
    }
    text[n] = '\0';
    return text;
}

static bool shows_the_rest(void *arg)
{
    return strstr(read_proc(*(pid_t *)arg, "cmdline"), "run -U fake://me:***@host/");
}

static void check_unseen(pid_t pid)
{
    static const char *const places[] = {"cmdline", "environ"};
    for (size_t i = 0; i < 2; i++) {
        if (strstr(read_proc(pid, places[i]), PASSWORD)) {
            FAIL("the password is in %s of process %d", places[i], pid);
        }
    }
}

static void check_family(struct actor *snib)
{
    CHECK_STR(stage_line(snib->out, PATIENCE_MS), "in");
    check_unseen(snib->pid);
    check_unseen(stage_supervisor(snib, PATIENCE_MS));
    check_unseen(stage_command(snib, "sh", PATIENCE_MS));
    CHECK(write(snib->in, "\n", 1) == 1);
    const char *said = stage_rest(snib->err, PATIENCE_MS);
    CHECK(strstr(said, "engine fake://me:***@host/"));
    CHECK(!strstr(said, PASSWORD));
    CHECK_INT(stage_end(snib, PATIENCE_MS), ==, 0);
}

TEST(a_password_in_an_argument_is_overwritten)
{
    struct actor snib;
    char long_form[500];
    const char *url = secret_url();
    stage_snib(&snib, "run", "-v", "-U", url, "x", "--", "sh", "-c", "echo in; read a");
    check_family(&snib);
    snprintf(long_form, sizeof long_form, "--url=%s", url);
    stage_snib(&snib, "run", "-v", long_form, "x", "--", "sh", "-c", "echo in; read a");
    check_family(&snib);
    stage_snib(&snib, "run", "-U", url, "x", "--", "sh", "-c", "echo in; read a");
    CHECK_STR(stage_line(snib.out, PATIENCE_MS), "in");
    CHECK(check_until(shows_the_rest, &snib.pid, PATIENCE_MS));
    kill(snib.pid, SIGTERM);
    CHECK_INT(stage_end(&snib, PATIENCE_MS), ==, 128 + SIGTERM);
}

TEST(a_password_in_the_environment_is_not_passed_on)
{
    struct actor snib;
    setenv("SNIB_URL", secret_url(), 1);
    stage_snib(&snib, "run", "-v", "x", "--", "sh", "-c", "echo in; read a");
    check_family(&snib);
    const struct capture *said = capture("run", "x", "--", "env");
    CHECK(!strstr(said->out, PASSWORD));
    CHECK(strstr(said->out, "SNIB_URL=fake://me:***@host/"));
}

TEST(a_password_of_a_url_that_is_refused_is_not_repeated)
{
    static const char *const urls[] = {
        "fake://me:" PASSWORD "@host/x?nonsense=1",
        "nonsense://me:" PASSWORD "@host/x",
        "fake://me:" PASSWORD "@host:port/x",
        "me:" PASSWORD "@host",
    };
    (void)stage_fake("ttl=30s");
    for (size_t i = 0; i < sizeof urls / sizeof urls[0]; i++) {
        const struct capture *said = capture("run", "-v", "-U", urls[i], "x", "--", "true");
        CHECK_INT(said->status, ==, 64);
        if (strstr(said->err, PASSWORD) || strstr(said->out, PASSWORD)) {
            FAIL("'%s' is repeated: %s", urls[i], said->err);
        }
    }
}

/* Home is what the password database says, whatever HOME is. So we are given another one. */
static void move_home(void)
{
    char path[300];
    snprintf(path, sizeof path, "%s/passwd", check_tmpdir());
    FILE *file = fopen(path, "we");
    CHECK(file != NULL);
    fprintf(file, "somebody:x:%d:0::%s:/bin/sh\n", geteuid(), check_tmpdir());
    fclose(file);
    if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount(path, "/etc/passwd", NULL, MS_BIND, NULL) != 0) {
        SKIP("no mount namespaces here");
    }
}

static void configure(const char *url)
{
    char path[300];
    snprintf(path, sizeof path, "%s/.config", check_tmpdir());
    (void)mkdir(path, 0700);
    snprintf(path, sizeof path, "%s/.config/snib.conf", check_tmpdir());
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    CHECK(fd >= 0);
    dprintf(fd, "url = %s\n", url);
    close(fd);
}

TEST(every_command_refuses_stars_in_the_same_words_or_finds_the_password_in_the_configuration)
{
    static const char *const commands[][3] = {
        {"run", "y", "true"}, {"hold", "y", NULL}, {"status", "y", NULL}, {"list", NULL, NULL}};
    static const int found[] = {0, 0, 1, 0};
    char *first = NULL;
    const char *url = secret_url();
    char starred[500];
    snprintf(starred, sizeof starred, "fake://me:***@host%s", strchr(strstr(url, "@"), '/'));
    move_home();
    for (int configured = 0; configured < 2; configured++) {
        for (size_t i = 0; i < 4; i++) {
            setenv("SNIB_URL", starred, 1);
            const struct capture *said = capture_command((const char *const[]){
                STAGE_SNIB, commands[i][0], commands[i][1], commands[i][2], NULL});
            CHECK_INT(said->status, ==, configured ? found[i] : 64);
            if (!configured) {
                CHECK(strstr(said->err, "without its password"));
                CHECK_STR(said->err, first ? first : said->err);
                first = first ? first : strdup(said->err);
            }
        }
        configure(url);
    }
    free(first);
}

TEST(a_run_inside_a_run_finds_the_password_in_the_configuration_or_says_what_is_missing)
{
    const char *url = secret_url();
    const struct capture *said =
        capture("run", "-U", url, "x", "--", STAGE_SNIB, "run", "y", "--", "true");
    CHECK_INT(said->status, ==, 64);
    CHECK(strstr(said->err, "without its password"));
    move_home();
    configure(url);
    unsetenv("SNIB_URL");
    said = capture("run", "x", "--", STAGE_SNIB, "run", "y", "--", "sh", "-c", "echo $SNIB_URL");
    CHECK_INT(said->status, ==, 0);
    CHECK(strstr(said->out, "fake://me:***@host/"));
    said = capture("run", "x", "--", STAGE_SNIB, "run", "x", "--", "true");
    CHECK_INT(said->status, ==, 64); /* and sees that it is the same lock */
    CHECK(strstr(said->err, "around this one"));
}

/* SPDX-License-Identifier: Apache-2.0 */
/* The configuration: which file counts, what it may hold, whom to trust. */
#include "check.h"
#include "core/config.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

static snib_error error;
static char *url;

/* In the folder of this case; valid until the next call. */
static const char *in_folder(const char *name)
{
    static char path[512];
    CHECK_INT(snprintf(path, sizeof path, "%s/%s", check_tmpdir(), name), <, sizeof path);
    return path;
}

static void write_bytes(const char *path, const void *bytes, size_t size, mode_t mode)
{
    (void)unlink(path); /* it may be one that even its owner cannot write */
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    CHECK(fd >= 0);
    CHECK_INT(write(fd, bytes, size), ==, size);
    CHECK_INT(fchmod(fd, mode), ==, 0);
    CHECK_INT(close(fd), ==, 0);
}

static const char *conf(const char *text, mode_t mode)
{
    const char *path = in_folder("snib.conf");
    write_bytes(path, text, strlen(text), mode);
    return path;
}

static void expect(int rc, const char *value)
{
    CHECK_OK(rc, error.message);
    if (value == NULL) {
        CHECK(url == NULL);
    } else {
        CHECK_STR(url, value);
    }
    free(url);
    url = NULL;
}

static void expect_file(const char *text, const char *value)
{
    expect(snib__config_read(&url, conf(text, 0600), &error), value);
}

static void expect_failure(int rc, int code, const char *part)
{
    CHECK_INT(rc, ==, code);
    CHECK_INT(error.code, ==, code);
    CHECK(url == NULL);
    if (strstr(error.message, part) == NULL) {
        FAIL("'%s' is not in '%s'", part, error.message);
    }
}

static void refuse_file(const char *text, const char *part)
{
    expect_failure(snib__config_read(&url, conf(text, 0600), &error), SNIB_EINVAL, part);
}

static bool is_root(void)
{
    return geteuid() == 0;
}

/* ---- What a file may hold --------------------------------------------------------------- */

TEST(a_file_names_the_url)
{
    expect_file("url = redis://host\n", "redis://host");
    expect_file("url=redis://host", "redis://host");
    expect_file("\t url \t=\t redis://host?a=b \t\n", "redis://host?a=b");
}

TEST(comments_and_empty_lines_are_passed_over)
{
    expect_file("# the fleet's\n\n   \n\t# url = file:\nurl = etcd://a,b,c\n\n#", "etcd://a,b,c");
}

TEST(lines_may_end_as_they_do_elsewhere)
{
    expect_file("# windows\r\n\r\nurl = file:\r\n", "file:");
    expect_file("url = file:\r", "file:");
}

TEST(a_file_without_a_url_says_nothing)
{
    expect_file("", NULL);
    expect_file("\n\n# nothing\n", NULL);
}

TEST(a_file_that_is_not_there_says_nothing)
{
    expect(snib__config_read(&url, in_folder("nothing"), &error), NULL);
    (void)conf("", 0600);
    expect(snib__config_read(&url, in_folder("snib.conf/below"), &error), NULL);
}

TEST(an_unknown_key_is_refused_with_its_line)
{
    refuse_file("# one\n\nttl = 30s\n", "snib.conf:3: unknown key 'ttl'; the only key is 'url'");
    refuse_file("URL = file:\n", ":1: unknown key 'URL'");
    refuse_file("= file:\n", ":1: not understood");
    refuse_file("\xef\xbb\xbfurl = file:\n", ":1: not understood");
}

TEST(a_line_without_an_equals_sign_is_refused)
{
    refuse_file("url = file:\nurl\n", ":2: no '='");
}

TEST(a_second_url_is_refused)
{
    refuse_file("url = file:\n# again\nurl = file:\n", ":3: a second 'url'");
}

TEST(values_are_bare_and_whole)
{
    refuse_file("url =\n", ":1: the URL is empty");
    refuse_file("url = \"file:\"\n", ":1: the URL is written without quotes");
    refuse_file("url = 'file:'\n", ":1: the URL is written without quotes");
    refuse_file("url = file: # mine\n", ":1: a URL has no spaces; a comment needs a line");
    refuse_file("url = file:\tx\n", ":1: a URL has no spaces");
    refuse_file("url = file:\r\r\n", ":1: control character");
    refuse_file("url = file:\x7f\n", ":1: control character");
}

TEST(a_nul_byte_is_refused)
{
    const char *path = in_folder("snib.conf");
    write_bytes(path, "url = file:\n#\0\n", 15, 0600);
    expect_failure(snib__config_read(&url, path, &error), SNIB_EINVAL, ":2: a NUL byte");
    write_bytes(path, "url = file:\0", 12, 0600);
    expect_failure(snib__config_read(&url, path, &error), SNIB_EINVAL, ":1: a NUL byte");
}

TEST(a_misplaced_url_is_not_quoted)
{
    refuse_file("redis://bob:hunter2@host\n", ":1: no '='");
    CHECK(strstr(error.message, "hunter2") == NULL);
    refuse_file("redis://bob:hunter2=@host\n", ":1: not understood");
    CHECK(strstr(error.message, "hunter2") == NULL);
    refuse_file("url = redis://bob:hunter2@host x\n", ":1: a URL has no spaces");
    CHECK(strstr(error.message, "hunter2") == NULL);
}

TEST(a_file_has_at_most_64_kib)
{
    static char text[65537];
    const char *path = in_folder("snib.conf");
    memset(text, '\n', sizeof text);
    memcpy(text + 65536 - 11, "url = file:", 11);
    write_bytes(path, text, 65536, 0600);
    expect(snib__config_read(&url, path, &error), "file:");
    write_bytes(path, text, 65537, 0600);
    expect_failure(snib__config_read(&url, path, &error), SNIB_EINVAL,
                   "has 65537 bytes, at most 65536 are allowed");
}

/* ---- Whom to trust ---------------------------------------------------------------------- */

TEST(a_file_that_others_can_write_is_refused)
{
    expect_failure(snib__config_read(&url, conf("url = file:", 0620), &error), SNIB_EDENIED,
                   "chmod go-w");
    expect_failure(snib__config_read(&url, conf("url = file:", 0602), &error), SNIB_EDENIED,
                   "chmod go-w");
}

TEST(a_file_without_a_secret_may_be_read_by_others)
{
    expect(snib__config_read(&url, conf("url = redis://bob@host:1", 0644), &error),
           "redis://bob@host:1");
}

TEST(a_file_with_a_secret_must_not_be_read_by_others)
{
    static const char *const texts[] = {"url = redis://bob:hunter2@host",
                                        "url = redis://host?password=hunter2"};
    for (size_t i = 0; i < 2; i++) {
        expect_failure(snib__config_read(&url, conf(texts[i], 0640), &error), SNIB_EDENIED,
                       "chmod 600");
        CHECK(strstr(error.message, "hunter2") == NULL);
        expect_failure(snib__config_read(&url, conf(texts[i], 0604), &error), SNIB_EDENIED,
                       "chmod 600");
        expect(snib__config_read(&url, conf(texts[i], 0600), &error), texts[i] + 6);
        expect(snib__config_read(&url, conf(texts[i], 0400), &error), texts[i] + 6);
    }
}

TEST_WHEN(a_file_of_somebody_else_is_refused, is_root)
{
    const char *path = conf("url = file:", 0644);
    CHECK_INT(chown(path, 12345, 0), ==, 0);
    expect_failure(snib__config_read(&url, path, &error), SNIB_EDENIED,
                   "belongs to user 12345; it must belong to root or to user 0");
}

TEST_WHEN(a_file_of_root_is_trusted_by_a_user, is_root)
{
    const char *path = conf("url = file:", 0644);
    CHECK_INT(setresuid(12345, 12345, 12345), ==, 0);
    expect(snib__config_read(&url, path, &error), "file:");
}

TEST_WHEN(a_file_that_cannot_be_read_is_an_error, is_root)
{
    const char *path = conf("url = file:", 0600);
    CHECK_INT(setresuid(12345, 12345, 12345), ==, 0);
    expect_failure(snib__config_read(&url, path, &error), SNIB_EDENIED, "cannot open");
    CHECK_INT(error.sys, ==, EACCES);
}

TEST(what_is_no_regular_file_is_refused_without_waiting)
{
    expect_failure(snib__config_read(&url, check_tmpdir(), &error), SNIB_EDENIED,
                   "is not a regular file");
    const char *path = in_folder("fifo");
    CHECK_INT(mkfifo(path, 0600), ==, 0);
    expect_failure(snib__config_read(&url, path, &error), SNIB_EDENIED, "is not a regular file");
}

TEST(a_symbolic_link_is_judged_by_what_it_leads_to)
{
    (void)conf("url = file:", 0600);
    const char *path = in_folder("link");
    CHECK_INT(symlink("snib.conf", path), ==, 0);
    expect(snib__config_read(&url, path, &error), "file:");
    (void)conf("url = file:", 0666);
    expect_failure(snib__config_read(&url, in_folder("link"), &error), SNIB_EDENIED, "chmod go-w");
}

TEST(a_symbolic_link_to_nothing_is_an_error)
{
    const char *path = in_folder("link");
    CHECK_INT(symlink("nothing", path), ==, 0);
    expect_failure(snib__config_read(&url, path, &error), SNIB_ESYS, "symbolic link to nothing");
}

TEST(reading_leaves_no_descriptor_open)
{
    int before = check_fd_count();
    expect_file("url = file:", "file:");
    refuse_file("url\n", "no '='");
    expect_failure(snib__config_read(&url, conf("", 0666), &error), SNIB_EDENIED, "chmod");
    CHECK_INT(check_fd_count(), ==, before);
}

/* ---- Which place counts ----------------------------------------------------------------- */

/*
 * A private /etc with its own password database, whose home is in the folder of this case. Where
 * that is not allowed the case is skipped.
 */
static void enter_own_world(void)
{
    unsigned long user = geteuid();
    char text[600];

    CHECK_INT(mkdir(in_folder("etc"), 0755), ==, 0);
    CHECK_INT(mkdir(in_folder("home"), 0755), ==, 0);
    CHECK_INT(mkdir(in_folder("home/.config"), 0755), ==, 0);
    (void)snprintf(text, sizeof text, "me:x:%lu:0::%s/home:/bin/sh\n", user, check_tmpdir());
    write_bytes(in_folder("etc/passwd"), text, strlen(text), 0644);
    write_bytes(in_folder("etc/nsswitch.conf"), "passwd: files\n", 14, 0644);

    if (unshare(CLONE_NEWNS | (is_root() ? 0 : CLONE_NEWUSER)) < 0) {
        SKIP("no private mounts here: %s", strerror(errno));
    }
    if (user != 0) {
        (void)snprintf(text, sizeof text, "%lu %lu 1\n", user, user);
        int fd = open("/proc/self/uid_map", O_WRONLY | O_CLOEXEC);
        CHECK_INT(write(fd, text, strlen(text)), ==, strlen(text));
        CHECK_INT(close(fd), ==, 0);
    }
    if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0) { /* in a bare chroot */
        SKIP("no private mounts here: %s", strerror(errno));
    }
    CHECK_INT(mount(in_folder("etc"), "/etc", NULL, MS_BIND, NULL), ==, 0);
    CHECK_INT(unsetenv("SNIB_URL"), ==, 0);
}

static void write_place(const char *name, const char *text)
{
    write_bytes(in_folder(name), text, strlen(text), 0644);
}

/* What it says of the origin is kept for the test to look at. */
static char origin_said[256];

static int config_url(char **out)
{
    char *origin = NULL;
    int rc = snib__config_url(out, &origin, &error);
    snprintf(origin_said, sizeof origin_said, "%s", origin ? origin : "");
    free(origin);
    return rc;
}

TEST(the_variable_comes_first)
{
    CHECK_INT(setenv("SNIB_URL", "redis://from-variable", 1), ==, 0);
    expect(config_url(&url), "redis://from-variable");
    CHECK_STR(origin_said, "SNIB_URL");
}

TEST(an_empty_variable_is_an_error)
{
    CHECK_INT(setenv("SNIB_URL", "", 1), ==, 0);
    expect_failure(config_url(&url), SNIB_EINVAL, "SNIB_URL is empty");
}

TEST(the_places_are_asked_in_order)
{
    enter_own_world();
    expect(config_url(&url), "file:");
    CHECK_STR(origin_said, "the default");

    write_place("etc/snib.conf", "url = redis://from-system\n");
    expect(config_url(&url), "redis://from-system");
    CHECK(strstr(origin_said, "snib.conf:1") != NULL);

    write_place("home/.config/snib.conf", "# nothing yet\n");
    expect(config_url(&url), "redis://from-system");

    write_place("home/.config/snib.conf", "# here it is\n\nurl = redis://from-home\n");
    expect(config_url(&url), "redis://from-home");
    CHECK(strstr(origin_said, "/.config/snib.conf:3") != NULL);

    write_place("home/.config/snib.conf", "\nurl = from-home\n");
    snib *client;
    expect_failure(snib_open(&client, NULL, &error), SNIB_EINVAL, "/.config/snib.conf:2: URL");

    CHECK_INT(setenv("SNIB_URL", "redis://from-variable", 1), ==, 0);
    expect(config_url(&url), "redis://from-variable");
}

TEST(home_is_the_password_databases_not_the_environments)
{
    enter_own_world();
    write_place("home/.config/snib.conf", "url = redis://from-home\n");
    CHECK_INT(setenv("HOME", "/nowhere", 1), ==, 0);
    CHECK_INT(setenv("XDG_CONFIG_HOME", "/nowhere", 1), ==, 0);
    expect(config_url(&url), "redis://from-home");
}

TEST(a_bad_file_is_not_passed_over_for_the_next_place)
{
    enter_own_world();
    write_place("etc/snib.conf", "url = redis://from-system\n");
    write_place("home/.config/snib.conf", "url = redis://bob:hunter2@from-home\n");
    expect_failure(config_url(&url), SNIB_EDENIED, "chmod 600");
    write_place("home/.config/snib.conf", "nonsense\n");
    expect_failure(config_url(&url), SNIB_EINVAL, "home/.config/snib.conf:1:");
}

TEST(a_user_without_an_entry_has_no_file_of_his_own)
{
    enter_own_world();
    write_place("etc/passwd", "other:x:54321:0::/:/bin/sh\n");
    write_place("home/.config/snib.conf", "url = redis://from-home\n");
    write_place("etc/snib.conf", "url = redis://from-system\n");
    expect(config_url(&url), "redis://from-system");
}

TEST(a_user_without_an_absolute_home_has_no_file_of_his_own)
{
    char line[64];
    (void)snprintf(line, sizeof line, "me:x:%lu:0::home:/bin/sh\n", (unsigned long)geteuid());
    enter_own_world();
    write_place("etc/passwd", line);
    write_place("home/.config/snib.conf", "url = redis://from-home\n");
    CHECK_INT(chdir(check_tmpdir()), ==, 0);
    expect(config_url(&url), "file:");
}

TEST(a_long_entry_of_the_password_database_is_read_whole)
{
    static char line[20000];
    enter_own_world();
    int used = snprintf(line, sizeof line, "me:x:%lu:0:", (unsigned long)geteuid());
    memset(line + used, 'x', 12000);
    (void)snprintf(line + used + 12000, sizeof line - 12000 - (size_t)used, ":%s/home:/bin/sh\n",
                   check_tmpdir());
    write_place("etc/passwd", line);
    write_place("home/.config/snib.conf", "url = redis://from-home\n");
    expect(config_url(&url), "redis://from-home");
}

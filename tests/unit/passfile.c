/* SPDX-License-Identifier: Apache-2.0 */
/* Files with passwords: what is taken, and what is refused in words. */
#include "base/passfile.h"

#include "check.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *file_of(const char *text, mode_t mode)
{
    static char path[256];
    snprintf(path, sizeof path, "%s/passfile", check_tmpdir());
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    CHECK(write(fd, text, strlen(text)) == (ssize_t)strlen(text));
    CHECK(fchmod(fd, mode) == 0);
    close(fd);
    return path;
}

static void gives(const char *text, const char *password)
{
    char *got = NULL;
    CHECK_INT(snib__passfile_read(&got, file_of(text, 0600), "x", NULL), ==, SNIB_OK);
    CHECK_STR(got, password);
    free(got);
}

static void refused(const char *path, int code, const char *word)
{
    snib_error error = {0};
    char *got = NULL;
    CHECK_INT(snib__passfile_read(&got, path, "engine", &error), ==, code);
    CHECK(got == NULL);
    CHECK(strncmp(error.message, "engine: passfile ", 17) == 0);
    CHECK(strstr(error.message, word) != NULL);
}

TEST(the_first_line_is_the_password)
{
    gives("secret", "secret");
    gives("secret\n", "secret");
    gives("a b\r\nmore\n", "a b");
}

TEST(what_others_can_read_or_is_no_password_is_refused)
{
    refused(file_of("secret", 0640), SNIB_EUNSAFE, "0600");
    refused(file_of("secret", 0604), SNIB_EUNSAFE, "0600");
    refused(file_of("", 0600), SNIB_EINVAL, "no password");
    refused(file_of("\nsecret", 0600), SNIB_EINVAL, "no password");
    refused(check_tmpdir(), SNIB_EUNSAFE, "0600");
    refused("/nonexistent/passfile", SNIB_EDENIED, "No such file");
}

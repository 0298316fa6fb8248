/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Engines that are modules: found by scheme in one folder, checked, and refused with a sentence.
 */
#include "check.h"

#include <snib.h>

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static void use_modules(const char *folder)
{
    setenv("SNIB_MODULES", folder, 1);
}

static void refused(const char *url, int code, const char *words)
{
    snib_error error;
    snib *client = (snib *)&error; /* anything but NULL */
    CHECK_INT(snib_open(&client, url, &error), ==, code);
    CHECK(client == NULL);
    CHECK_INT(error.code, ==, code);
    if (!strstr(error.message, words)) {
        FAIL("'%s' does not say '%s'", error.message, words);
    }
}

static const char *fake_url(void)
{
    static char url[300];
    snprintf(url, sizeof url, "fake://%s/state", check_tmpdir());
    return url;
}

TEST(a_module_is_opened_by_its_scheme)
{
    snib_error error;
    snib *client;
    snib_lease *lease;
    use_modules(TEST_MODULE_DIR);
    CHECK_OK(snib_open(&client, fake_url(), &error), error.message);
    CHECK_STR(snib_url(client), fake_url());
    CHECK(snib_traits(client) & SNIB_TRAIT_LEASED);
    CHECK_OK(snib_acquire(&lease, client, "x", NULL, &error), error.message);
    CHECK_UINT(snib_token(lease), ==, 1);
    CHECK_INT(snib_left_ms(lease), <=, 27000);
    CHECK_OK(snib_verify(lease, &error), error.message);
    CHECK_OK(snib_release(&lease, &error), error.message);
    snib_close(client);
}

TEST(two_clients_of_one_module_exclude_each_other)
{
    snib_error error;
    snib *clients[2];
    snib_lease *leases[2];
    snib_options try = SNIB_OPTIONS;
    try.wait_ms = 0;
    use_modules(TEST_MODULE_DIR);
    for (int i = 0; i < 2; i++) {
        CHECK_OK(snib_open(&clients[i], fake_url(), &error), error.message);
    }
    CHECK_OK(snib_acquire(&leases[0], clients[0], "x", &try, &error), error.message);
    CHECK_INT(snib_acquire(&leases[1], clients[1], "x", &try, &error), ==, SNIB_EBUSY);
    CHECK_UINT(error.holder_token, ==, snib_token(leases[0]));
    CHECK_OK(snib_release(&leases[0], &error), error.message);
    CHECK_OK(snib_acquire(&leases[1], clients[1], "x", &try, &error), error.message);
    CHECK_OK(snib_release(&leases[1], &error), error.message);
    snib_close(clients[0]);
    snib_close(clients[1]);
}

TEST(a_module_of_another_version_is_refused)
{
    use_modules(TEST_MODULE_DIR);
    refused("otherabi:///x", SNIB_ENOTSUP, "another version of snib");
}

/* Its text names the file to replace, and what it would have to be. */
TEST(a_module_of_the_first_version_is_refused)
{
    use_modules(TEST_MODULE_DIR);
    refused("firstabi:///x", SNIB_ENOTSUP, "firstabi.so is of another version of snib");
    refused("firstabi:///x", SNIB_ENOTSUP, "wants engine ABI");
}

TEST(a_scheme_without_a_module_is_unknown)
{
    use_modules(TEST_MODULE_DIR);
    refused("nosuchengine:///x", SNIB_EINVAL, "unknown scheme 'nosuchengine:'");
    use_modules("/nonexistent");
    refused("fake:///x", SNIB_EINVAL, "unknown scheme 'fake:'");
}

TEST(what_is_not_a_module_is_refused)
{
    char path[300];
    use_modules(check_tmpdir());
    snprintf(path, sizeof path, "%s/text.so", check_tmpdir());
    int fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0644);
    CHECK(fd >= 0 && write(fd, "not a library\n", 14) == 14);
    close(fd);
    refused("text:///x", SNIB_ENOTSUP, "cannot be loaded");
    snprintf(path, sizeof path, "%s/empty.so", check_tmpdir());
    CHECK(symlink(TEST_BUILD_DIR "/libsnib.so", path) == 0); /* a library without an engine */
    refused("empty:///x", SNIB_ENOTSUP, "another version of snib");
}

TEST(a_relative_folder_of_modules_is_not_used)
{
    CHECK(chdir(TEST_MODULE_DIR) == 0);
    use_modules(".");
    refused("fake:///x", SNIB_EINVAL, "unknown scheme");
    use_modules("");
    refused("fake:///x", SNIB_EINVAL, "unknown scheme");
}

TEST(a_scheme_cannot_leave_the_folder_of_modules)
{
    char folder[300];
    snprintf(folder, sizeof folder, "%s/sub", TEST_MODULE_DIR);
    use_modules(folder);
    refused("..%2Ffake:///x", SNIB_EINVAL, "");
    refused("../fake:///x", SNIB_EINVAL, "");
}

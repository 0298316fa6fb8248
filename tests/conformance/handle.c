/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Handles: what is one, and what is not.
 */
#include "conformance.h"

static bool without_handles(void)
{
    return on_file();
}

static bool with_handles(void)
{
    return !without_handles();
}

static int not_given_back(snib *client, const char *handle)
{
    snib_error error = {0};
    int code = snib_give_back(client, handle, &error);
    CHECK_INT(code, <, 0);
    CHECK_INT(error.code, ==, code);
    CHECK(error.message[0] != '\0');
    return code;
}

TEST_WHEN(without_handles_both_calls_say_so, without_handles)
{
    char handle[SNIB_HANDLE_SIZE];
    snib *client = client_here();
    snib_lease *lease = take(client, "report", NULL);
    snib_error error = {0};
    CHECK_INT(snib_handle(lease, handle, sizeof handle, &error), ==, SNIB_ENOTSUP);
    CHECK(error.message[0] != '\0');
    CHECK_INT(not_given_back(client, "snib1 0 1 00112233445566778899aabbccddeeff report"), ==,
              SNIB_ENOTSUP);
    CHECK_INT(snib_verify(lease, NULL), ==, SNIB_OK);
    give(&lease);
    snib_close(client);
}

TEST_WHEN(a_handle_needs_a_lease_and_room, with_handles)
{
    char handle[SNIB_HANDLE_SIZE];
    char name[201];
    snib *client = client_here();
    memset(name, 'x', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    snib_lease *lease = take(client, name, NULL);
    CHECK_INT(snib_handle(lease, handle, sizeof handle, NULL), ==, SNIB_OK); /* always enough */
    CHECK_INT(snib_handle(lease, handle, 20, NULL), ==, SNIB_EINVAL);
    CHECK_INT(snib_handle(lease, handle, 0, NULL), ==, SNIB_EINVAL);
    CHECK_INT(snib_handle(lease, NULL, 100, NULL), ==, SNIB_EINVAL);
    CHECK_INT(snib_handle(NULL, handle, sizeof handle, NULL), ==, SNIB_EINVAL);
    give(&lease);
    snib_close(client);
}

TEST_WHEN(what_is_not_a_handle_is_refused, with_handles)
{
    static const char *const garbage[] = {
        "",
        "report",
        "snib1",
        "snib1 ",
        "snib1 0 1 ",
        "snib1 0 1 00112233445566778899aabbccddeeff",
        "snib1 0 1 00112233445566778899aabbccddeeff ",
        "snib1 0 1 00112233445566778899aabbccddeef report",
        "snib1 0 1 00112233445566778899aabbccddeeff0 report",
        "snib1 0 1 00112233445566778899AABBCCDDEEFF report",
        "snib1 0 1 00112233445566778899aabbccddeefg report",
        "snib1 0 1 00112233445566778899aabbccddeeff rep\nort",
        "snib1 3 1 00112233445566778899aabbccddeeff report",
        "snib1 -1 1 00112233445566778899aabbccddeeff report",
        "snib1 0 0 00112233445566778899aabbccddeeff report",
        "snib1 0 2 00112233445566778899aabbccddeeff report",
        "snib1 2 1001 00112233445566778899aabbccddeeff report",
        "snib1 0 4294967297 00112233445566778899aabbccddeeff report",
        "snib1  0 1 00112233445566778899aabbccddeeff report",
        "snib1 0  1 00112233445566778899aabbccddeeff report",
        "snib2 0 1 00112233445566778899aabbccddeeff report",
        " snib1 0 1 00112233445566778899aabbccddeeff report",
    };
    snib *client = client_here();
    for (size_t i = 0; i < sizeof garbage / sizeof garbage[0]; i++) {
        int code = snib_give_back(client, garbage[i], NULL);
        if (code != SNIB_EINVAL) {
            FAIL("'%s': answers %s", garbage[i], snib_errname(code));
        }
    }
    CHECK_INT(not_given_back(client, NULL), ==, SNIB_EINVAL);
    CHECK_INT(not_given_back(NULL, "snib1 0 1 00112233445566778899aabbccddeeff report"), ==,
              SNIB_EINVAL);
    snib_close(client);
}

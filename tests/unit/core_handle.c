/* SPDX-License-Identifier: Apache-2.0 */
/* Handles: what a holder leaves behind, so that another process can give back for it. */
#include "fake_engine.h"

#include <stdio.h>

static snib *nameless_client(void)
{
    static struct snib__engine engine;
    snib *client = NULL;
    engine = fake_engine;
    engine.nameless = true;
    CHECK_INT(snib__open_engine(&client, &engine, "fake://here", false, NULL), ==, SNIB_OK);
    return client;
}

TEST(a_handle_gives_back_what_a_dead_process_held)
{
    snib *holder = fake_client("fake://here"), *other = fake_client("fake://here");
    snib_lease *lease = fake_acquire(holder, NULL);
    char handle[SNIB_HANDLE_SIZE];
    snib_error error;
    CHECK_OK(snib_handle(lease, handle, sizeof handle, &error), error.message);
    unsigned char id[16];
    memcpy(id, lease->hold->claim.owner, sizeof id);
    CHECK_OK(snib_give_back(other, handle, &error), error.message);
    CHECK(memcmp(fake.released_id, id, sizeof id) == 0);
    fake.released = SNIB__LOST;
    CHECK_INT(snib_give_back(other, handle, &error), ==, SNIB_ELOST);
    fake.released = SNIB__FAILED;
    CHECK_INT(snib_give_back(other, handle, &error), ==, SNIB_EUNKNOWN);
    CHECK(strstr(error.message, "'name'") != NULL);
    fake.released = SNIB__FREED;
    CHECK_INT(snib_release(&lease, NULL), ==, SNIB_OK);
    snib_close(holder);
    snib_close(other);
}

TEST(what_is_not_a_handle_is_refused)
{
    static const char *const texts[] = {
        "",
        "snib1",
        "snib2 0 1 00112233445566778899aabbccddeeff name",
        "snib1 0 1 00112233445566778899aabbccddee name",
        "snib1 0 1 00112233445566778899aabbccddeefg name",
        "snib1 7 1 00112233445566778899aabbccddeeff name",
        "snib1 0 1 00112233445566778899aabbccddeeff",
        "snib1 0 1 00112233445566778899aabbccddeeff a\tb",
    };
    snib *client = fake_client("fake://here");
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        if (snib_give_back(client, texts[i], NULL) != SNIB_EINVAL) {
            FAIL("'%s' was taken for a handle", texts[i]);
        }
    }
    CHECK_INT(snib_give_back(client, NULL, NULL), ==, SNIB_EINVAL);
    CHECK_INT(snib_give_back(NULL, texts[2], NULL), ==, SNIB_EINVAL);
    snib_close(client);
}

TEST(a_handle_needs_room_and_a_lease)
{
    snib *client = fake_client("fake://here");
    snib_lease *lease = fake_acquire(client, NULL);
    char handle[SNIB_HANDLE_SIZE];
    CHECK_INT(snib_handle(lease, handle, 20, NULL), ==, SNIB_EINVAL);
    CHECK_INT(snib_handle(lease, NULL, sizeof handle, NULL), ==, SNIB_EINVAL);
    CHECK_INT(snib_handle(NULL, handle, sizeof handle, NULL), ==, SNIB_EINVAL);
    CHECK_INT(snib_release(&lease, NULL), ==, SNIB_OK);
    snib_close(client);
}

TEST(locks_that_end_with_their_process_have_no_handle)
{
    snib *client = nameless_client();
    snib_lease *lease = fake_acquire(client, NULL);
    char handle[SNIB_HANDLE_SIZE];
    CHECK_INT(snib_handle(lease, handle, sizeof handle, NULL), ==, SNIB_ENOTSUP);
    CHECK_INT(snib_give_back(client, "snib1 0 1 00112233445566778899aabbccddeeff name", NULL), ==,
              SNIB_ENOTSUP);
    CHECK_INT(snib_release(&lease, NULL), ==, SNIB_OK);
    snib_close(client);
}

struct inherited {
    snib *client;
    snib_lease *lease;
};

static void try_in_child(void *arg)
{
    struct inherited *own = arg;
    char handle[SNIB_HANDLE_SIZE];
    snib_stats stats = {.size = sizeof stats};
    CHECK_INT(snib_handle(own->lease, handle, sizeof handle, NULL), ==, SNIB_ESTATE);
    CHECK_INT(snib_give_back(own->client, "snib1 0 1 00112233445566778899aabbccddeeff name", NULL),
              ==, SNIB_ESTATE);
    CHECK_INT(snib_stats_read(own->client, &stats), ==, SNIB_ESTATE);
    CHECK_INT(snib_verify(own->lease, NULL), ==, SNIB_ESTATE);
    CHECK_INT(snib_renew(own->lease, 0, NULL), ==, SNIB_ESTATE);
    CHECK_INT(snib_state(own->lease), ==, SNIB_RELEASED);
    CHECK_INT(snib_left_ms(own->lease), ==, 0);
    CHECK_INT(snib_ttl_ms(own->lease), ==, 0);
    CHECK_INT(snib_fd(own->lease), ==, SNIB_ESTATE);
}

TEST(nothing_of_a_client_works_in_a_forked_child)
{
    struct inherited own = {.client = fake_client("fake://here")};
    own.lease = fake_acquire(own.client, NULL);
    check_join(check_spawn(try_in_child, &own), 10000);
    CHECK_INT(snib_release(&own.lease, NULL), ==, SNIB_OK);
    snib_close(own.client);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Waits that end when a descriptor of the user's becomes readable. */
#include "fake_engine.h"

#include <fcntl.h>
#include <sys/eventfd.h>
#include <unistd.h>

static int new_fd(void)
{
    int fd = eventfd(0, EFD_CLOEXEC);
    CHECK(fd >= 0);
    return fd;
}

static void raise_fd(int fd)
{
    uint64_t one = 1;
    CHECK_INT(write(fd, &one, sizeof one), ==, sizeof one);
}

static int acquire(snib *client, const char *name, int fd, int64_t wait_ms)
{
    snib_options o = SNIB_OPTIONS;
    snib_lease *lease = NULL;
    snib_error error;
    o.stop_fd = fd;
    o.wait_ms = wait_ms;
    int rc = snib_acquire(&lease, client, name, &o, &error);
    if (rc == 0) {
        CHECK_INT(snib_release(&lease, NULL), ==, SNIB_OK);
    }
    return rc;
}

struct wait {
    snib *client;
    const char *name;
    int fd, rc;
    pthread_t thread;
};

static void *wait_in_thread(void *arg)
{
    struct wait *w = arg;
    w->rc = acquire(w->client, w->name, w->fd, -1);
    return NULL;
}

static bool all_wait(void *arg)
{
    snib_stats stats = {.size = sizeof stats};
    const struct wait *waits = arg;
    CHECK_INT(snib_stats_read(waits[0].client, &stats), ==, SNIB_OK);
    return stats.waiting == 3;
}

TEST(one_descriptor_ends_all_waits_that_watch_it_and_no_other)
{
    fake.busy = true;
    snib *client = fake_client("fake://here");
    int stop = new_fd(), other = new_fd(), before = check_fd_count();
    struct wait waits[3] = {
        {client, "a", stop, 0, 0}, {client, "b", stop, 0, 0}, {client, "a", other, 0, 0}};
    for (int i = 0; i < 3; i++) {
        CHECK_INT(pthread_create(&waits[i].thread, NULL, wait_in_thread, &waits[i]), ==, 0);
    }
    CHECK(check_until(all_wait, waits, 5000));
    raise_fd(stop);
    CHECK_INT(pthread_join(waits[0].thread, NULL), ==, 0);
    CHECK_INT(pthread_join(waits[1].thread, NULL), ==, 0);
    CHECK_INT(waits[0].rc, ==, SNIB_ECANCELED);
    CHECK_INT(waits[1].rc, ==, SNIB_ECANCELED);
    raise_fd(other);
    CHECK_INT(pthread_join(waits[2].thread, NULL), ==, 0);
    CHECK_INT(waits[2].rc, ==, SNIB_ECANCELED);
    snib_close(client);
    CHECK_INT(check_fd_count(), <=, before);
    CHECK(fcntl(stop, F_GETFD) >= 0); /* still the user's */
    close(stop);
    close(other);
}

TEST(a_descriptor_that_is_readable_already_ends_the_wait_at_once)
{
    fake.busy = true;
    snib *client = fake_client("fake://here");
    int stop = new_fd();
    raise_fd(stop);
    CHECK_INT(acquire(client, "a", stop, -1), ==, SNIB_ECANCELED);
    CHECK_INT(acquire(client, "a", stop, 0), ==, SNIB_EBUSY); /* a try does not wait */
    fake.busy = false;
    CHECK_INT(acquire(client, "a", stop, -1), ==, SNIB_OK); /* had without waiting */
    snib_close(client);
    close(stop);
}

TEST(a_wait_that_ends_otherwise_forgets_its_descriptor)
{
    fake.busy = true;
    snib *client = fake_client("fake://here");
    int stop = new_fd();
    CHECK_INT(acquire(client, "a", stop, 20), ==, SNIB_EBUSY);
    CHECK_UINT(client->stop_count, ==, 0);
    raise_fd(stop);
    CHECK_INT(acquire(client, "a", -1, 20), ==, SNIB_EBUSY);
    snib_close(client);
    close(stop);
}

TEST(a_descriptor_that_is_closed_is_refused)
{
    snib *client = fake_client("fake://here");
    int closed = new_fd();
    close(closed);
    CHECK_INT(acquire(client, "a", closed, -1), <, 0);
    CHECK_UINT(client->stop_count, ==, 0);
    CHECK_INT(acquire(client, "a", -1, -1), ==, SNIB_OK);
    snib_close(client);
}

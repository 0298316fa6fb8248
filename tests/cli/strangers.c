/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Holders that are no snib, on a lock that other programs share: what is said of them, and to whom.
 */
#include "capture.h"
#include "server.h"

#include <stdio.h>
#include <string.h>

TEST(a_holder_that_is_no_snib_is_not_said_to_have_been_asked)
{
    static struct server redis;
    char line[200], url[100];
    server_redis(&redis, NULL);
    snprintf(url, sizeof url, "redis://127.0.0.1:%d?quarantine=no&layout=plain", redis.port);
    snprintf(line, sizeof line, "redis-cli -p %d set report secret px 60000", redis.port);
    CHECK_INT(capture_command((const char *const[]){"sh", "-c", line, NULL})->status, ==, 0);
    const struct capture *said = capture("break", "-U", url, "--yes", "report");
    CHECK_INT(said->status, ==, 75);
    CHECK(strstr(said->err, "cannot be asked") != NULL);
    CHECK(strstr(said->err, "was asked") == NULL);
    CHECK_INT(capture("break", "-U", url, "--yes", "--force", "report")->status, ==, 0);
}

static void hold_as_another(int port, const char *lease)
{
    char line[200];
    snprintf(line, sizeof line, "redis-cli -p %d set report secret %s", port, lease);
    CHECK_INT(capture_command((const char *const[]){"sh", "-c", line, NULL})->status, ==, 0);
}

/* With a lease it can be said how long; without one nobody knows. */
TEST(what_was_taken_by_force_may_still_be_believed_in)
{
    static struct server redis;
    char url[100];
    server_redis(&redis, NULL);
    snprintf(url, sizeof url, "redis://127.0.0.1:%d?quarantine=no&layout=plain", redis.port);
    hold_as_another(redis.port, "px 60000");
    const struct capture *said = capture("break", "-U", url, "--yes", "--force", "report");
    CHECK_INT(said->status, ==, 0);
    CHECK(strstr(said->err, "may still run for") != NULL);
    hold_as_another(redis.port, "");
    said = capture("break", "-U", url, "--yes", "--force", "report");
    CHECK_INT(said->status, ==, 0);
    CHECK(strstr(said->err, "had no lease") != NULL && strstr(said->err, "for ever") != NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Opening a place: what a failure leaves behind, and where snib_url leads to. */
#include "file_test.h"

#include <fcntl.h>

/* ---- Failures --------------------------------------------------------------------------- */

static void must_fail_and_leave_nothing(const char *url)
{
    snib *client = NULL;
    snib_error error;
    CHECK_INT(fcntl(0, F_GETFD), >=, 0);
    CHECK_INT(snib_open(&client, url, &error), <, 0); /* loads what is loaded once */
    CHECK_INT(fcntl(0, F_GETFD), >=, 0);
    int before = check_fd_count();
    for (int i = 0; i < 20; i++) {
        CHECK_INT(snib_open(&client, url, &error), <, 0);
        CHECK(client == NULL);
    }
    CHECK_INT(check_fd_count(), ==, before);
    CHECK_INT(fcntl(0, F_GETFD), >=, 0);
}

TEST(a_host_in_the_url_is_refused_and_no_descriptor_is_closed_or_left)
{
    must_fail_and_leave_nothing("file://host/x");
}

TEST(a_path_that_is_no_directory_is_refused_and_no_descriptor_is_closed_or_left)
{
    must_fail_and_leave_nothing("file:///dev/null/locks");
}

TEST(an_unsafe_directory_is_refused_and_no_descriptor_is_closed_or_left)
{
    char url[400];
    CHECK(chmod(locks(), 0777) == 0);
    snprintf(url, sizeof url, "file://%s", locks());
    must_fail_and_leave_nothing(url);
}

/* ---- Where it leads to ------------------------------------------------------------------ */

/* `written`: in the URL; `meant`: the directory's real name. */
static void must_lead_back(const char *written, const char *meant)
{
    char url[500], path[500];
    struct stat place;
    snprintf(url, sizeof url, "file://%s/%s?timeout=7s", check_tmpdir(), written);
    snprintf(path, sizeof path, "%s/%s", check_tmpdir(), meant);
    snib *first = client_at(url);
    CHECK(stat(path, &place) == 0 && S_ISDIR(place.st_mode));
    snib *second = client_at(snib_url(first));
    CHECK_STR(snib_url(second), snib_url(first));
    CHECK(strstr(snib_url(first), "?timeout=7s") != NULL);
    snib_lease *lease = take(first, "report");
    CHECK_INT(try_it(second, "report"), ==, SNIB_EBUSY); /* the same directory */
    give(&lease);
    CHECK_INT(try_it(second, "report"), ==, SNIB_OK);
    snib_close(second);
    snib_close(first);
}

TEST(the_url_of_a_client_leads_to_the_same_directory)
{
    must_lead_back("plain-._~1", "plain-._~1");
    must_lead_back("with%20blank", "with blank");
    must_lead_back("with%2520percent", "with%20percent");
    must_lead_back("one%25", "one%");
    must_lead_back("a%23fragment", "a#fragment");
    must_lead_back("a%3Fgroup=x", "a?group=x");
    must_lead_back("gr%C3%BCn", "grün");
    must_lead_back("a%2Cb%3A%40%26+%5B", "a,b:@&+[");
}

/* ---- Who listens ------------------------------------------------------------------------ */

static struct check_flag told;

static void note_loss(const snib_event *event, void *arg)
{
    (void)arg;
    if (event->state == SNIB_LOST) {
        check_flag_set(&told);
    }
}

TEST(a_holder_that_enters_again_with_a_listener_can_be_asked_to_give_up)
{
    char url[400];
    snprintf(url, sizeof url, "%s?timeout=1s", locks_url());
    snib *client = client_at(url), *other = client_at(url);
    snib_options options = waiting(SNIB_EXCLUSIVE, PATIENCE_MS);
    options.owner = snib_thread();
    snib_lease *deaf = take_with(client, "report", &options);
    options.on_event = note_loss;
    snib_lease *listens = take_with(client, "report", &options);
    (void)snib_break(other, "report", snib_token(deaf), NULL); /* EBUSY until it has released */
    check_flag_wait(&told, PATIENCE_MS);
    CHECK_INT(snib_state(listens), ==, SNIB_LOST);
    CHECK_INT(snib_release(&listens, NULL), ==, SNIB_ELOST);
    CHECK_INT(snib_release(&deaf, NULL), ==, SNIB_ELOST);
    CHECK_INT(try_it(other, "report"), ==, SNIB_OK);
    snib_close(other);
    snib_close(client);
}

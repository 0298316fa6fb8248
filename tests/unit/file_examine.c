/* SPDX-License-Identifier: Apache-2.0 */
/* What an examination finds: one finding for each thing, good where all is well, with a remedy
 * where it is not, and nothing left behind. */
#include "file_test.h"

#include <dirent.h>
#include <grp.h>
#include <sched.h>
#include <sys/mount.h>

enum { FINDINGS_MOST = 32 };

struct findings {
    size_t count;
    struct {
        int verdict;
        char about[32], text[600], remedy[300];
    } all[FINDINGS_MOST];
};

static int note(const snib_finding *f, void *arg)
{
    struct findings *out = arg;
    CHECK(out->count < FINDINGS_MOST);
    CHECK(f->about && f->text && f->text[0]);
    CHECK(!strchr(f->text, '\n'));
    out->all[out->count].verdict = f->verdict;
    snprintf(out->all[out->count].about, sizeof out->all[0].about, "%s", f->about);
    snprintf(out->all[out->count].text, sizeof out->all[0].text, "%s", f->text);
    snprintf(out->all[out->count].remedy, sizeof out->all[0].remedy, "%s",
             f->remedy ? f->remedy : "");
    out->count++;
    return 0;
}

static struct findings examine(snib *client)
{
    struct findings findings;
    snib_error error;
    memset(&findings, 0, sizeof findings);
    CHECK_OK(snib_examine(client, note, &findings, &error), error.message);
    return findings;
}

/* The one finding about that; its text says this. */
static void must_find(const struct findings *f, const char *about, int verdict, const char *said)
{
    size_t at = FINDINGS_MOST;
    for (size_t i = 0; i < f->count; i++) {
        if (strcmp(f->all[i].about, about) == 0) {
            CHECK_INT(at, ==, FINDINGS_MOST);
            at = i;
        }
    }
    if (at == FINDINGS_MOST) {
        FAIL("no finding about %s", about);
    }
    if (f->all[at].verdict != verdict || !strstr(f->all[at].text, said)) {
        FAIL("%s: verdict %d, '%s'", about, f->all[at].verdict, f->all[at].text);
    }
    CHECK(verdict == SNIB_GOOD || f->all[at].remedy[0]);
}

static size_t files_there(void)
{
    size_t count = 0;
    DIR *dir = opendir(locks());
    CHECK(dir != NULL);
    while (readdir(dir)) {
        count++;
    }
    closedir(dir);
    return count;
}

TEST(a_private_directory_is_found_good_and_left_as_it_is)
{
    snib *client = client_here();
    snib_lease *lease = take(client, "x");
    size_t before = files_there();
    struct findings f = examine(client);
    must_find(&f, "directory", SNIB_GOOD, locks());
    must_find(&f, "directory", SNIB_GOOD, "named in the URL");
    must_find(&f, "owner", SNIB_GOOD, "mode 0700");
    must_find(&f, "users", SNIB_GOOD, "exclude each other");
    must_find(&f, "file system", SNIB_GOOD, "local");
    must_find(&f, "space", SNIB_GOOD, "free");
    must_find(&f, "lock files", SNIB_GOOD, "1, one for each name");
    must_find(&f, "trial", SNIB_GOOD, "released");
    CHECK_UINT(files_there(), ==, before);
    CHECK_INT(snib_state(lease), ==, SNIB_HELD);
    give(&lease);
    snib_close(client);
}

TEST(a_directory_opened_to_all_afterwards_is_found_bad)
{
    snib *client = client_here();
    CHECK(chmod(locks(), 0777) == 0);
    struct findings f = examine(client);
    must_find(&f, "owner", SNIB_BAD, "mode 0777");
    CHECK(chmod(locks(), 0770) == 0);
    f = examine(client);
    must_find(&f, "owner", SNIB_BAD, "mode 0770");
    snib_close(client);
}

TEST(a_sticky_directory_is_said_to_be_for_each_user_alone)
{
    CHECK(chmod(locks(), 01777) == 0);
    snib *client = client_here();
    struct findings f = examine(client);
    must_find(&f, "owner", SNIB_GOOD, "sticky");
    must_find(&f, "users", SNIB_WARNING, "refused by all others");
    snib_close(client);
}

TEST(a_group_directory_is_said_to_be_for_its_members)
{
    const struct group *group = getgrgid(getegid());
    if (!group) {
        SKIP("the group of this process has no name");
    }
    char url[400];
    snprintf(url, sizeof url, "%s?group=%s", locks_url(), group->gr_name);
    CHECK(chmod(locks(), 02770) == 0);
    snib *client = client_at(url);
    struct findings f = examine(client);
    must_find(&f, "owner", SNIB_GOOD, "mode 2770");
    must_find(&f, "users", SNIB_GOOD, group->gr_name);
    snib_close(client);
}

TEST(a_directory_that_was_removed_is_found_bad)
{
    char url[420];
    char path[400];
    snprintf(path, sizeof path, "%s/gone/locks", check_tmpdir());
    snprintf(url, sizeof url, "file://%s", path);
    char parent[300];
    snprintf(parent, sizeof parent, "%s/gone", check_tmpdir());
    CHECK(mkdir(parent, 0700) == 0);
    snib *client = client_at(url);
    CHECK(rmdir(path) == 0);
    CHECK(rmdir(parent) == 0);
    struct findings f = examine(client);
    must_find(&f, "directory", SNIB_BAD, "not there any more");
    must_find(&f, "trial", SNIB_BAD, "cannot be made");
    snib_close(client);
}

TEST(a_full_disk_is_found_bad)
{
    if (geteuid() != 0) {
        SKIP("needs root");
    }
    if (unshare(CLONE_NEWNS) != 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount("snibtest", locks(), "tmpfs", 0, "size=16k,mode=700") != 0) {
        SKIP("no file system of its own: %s", strerror(errno));
    }
    snib *client = client_here();
    struct findings f = examine(client);
    must_find(&f, "space", SNIB_WARNING, "0 MiB");
    char path[400];
    char bytes[16384] = {1};
    snprintf(path, sizeof path, "%s/filler", locks());
    FILE *file = fopen(path, "w");
    CHECK(file != NULL);
    (void)fwrite(bytes, 1, sizeof bytes, file);
    (void)fclose(file);
    f = examine(client);
    must_find(&f, "space", SNIB_BAD, "0 MiB");
    must_find(&f, "trial", SNIB_BAD, "cannot be written");
    snib_close(client);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Lock files that somebody else removes, replaces, cuts or fills, and disks that are full. */
#include "file_test.h"

#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>

/* ---- Removed and replaced --------------------------------------------------------------- */

/* Longer than a tick of the coarse clock: who used the file in this tick does not look again. */
static void pass_a_tick(void)
{
    check_sleep_ms(25);
}

TEST(an_unlinked_lock_file_is_noticed_at_the_next_acquire)
{
    snib *one = client_here();
    snib *two = client_here();
    for (int i = 0; i < 20; i++) { /* from the second use on the file is mapped */
        snib_lease *lease = take(one, "x");
        give(&lease);
        CHECK(unlink(lock_path("x")) == 0);
        pass_a_tick();
        lease = take(two, "x");
        CHECK_INT(try_it(one, "x"), ==, SNIB_EBUSY);
        give(&lease);
    }
    snib_close(one);
    snib_close(two);
}

TEST(a_lock_file_that_was_replaced_is_noticed_when_the_last_look_is_old)
{
    char away[700];
    snib *one = client_here();
    snib *two = client_here();
    snib_lease *lease = take(one, "x");
    give(&lease);
    snprintf(away, sizeof away, "%s-away", lock_path("x"));
    CHECK(rename(lock_path("x"), away) == 0);
    lease = take(two, "x");
    check_sleep_ms(150);
    CHECK_INT(try_it(one, "x"), ==, SNIB_EBUSY);
    give(&lease);
    CHECK_INT(try_it(one, "x"), ==, 0);
    snib_close(one);
    snib_close(two);
}

TEST(a_holder_learns_by_verify_that_its_file_is_gone)
{
    snib_error error;
    snib *client = client_here();
    snib_lease *lease = take(client, "x");
    CHECK_OK(snib_verify(lease, &error), error.message);
    CHECK(unlink(lock_path("x")) == 0);
    CHECK_INT(snib_verify(lease, &error), ==, SNIB_ELOST);
    CHECK_INT(snib_state(lease), ==, SNIB_LOST);
    CHECK_INT(snib_release(&lease, &error), ==, SNIB_ELOST);
    CHECK_INT(try_it(client, "x"), ==, 0);
    snib_close(client);
}

TEST(a_holder_is_told_when_its_own_session_finds_the_file_gone)
{
    snib *client = client_here();
    snib_lease *old = take(client, "x");
    CHECK(unlink(lock_path("x")) == 0);
    pass_a_tick();
    CHECK_INT(try_it(client, "x"), ==, 0); /* that is what it means to remove it */
    CHECK_INT(snib_state(old), ==, SNIB_LOST);
    CHECK_INT(snib_release(&old, NULL), ==, SNIB_ELOST);
    snib_close(client);
}

TEST(waiters_move_to_the_file_the_name_leads_to_now)
{
    snib *client = client_here();
    struct helper *h = holder("x", SNIB_EXCLUSIVE);
    struct helper *w = waiter(client, "x", SNIB_EXCLUSIVE);
    CHECK(unlink(lock_path("x")) == 0);
    check_flag_wait(&w->held, PATIENCE_MS); /* at its next look */
    CHECK_INT(w->code, ==, 0);
    CHECK_INT(inspect(client, "x").holders, ==, 1);
    let_go(w);
    check_flag_set(&h->let_go);
    check_join(h->pid, PATIENCE_MS); /* it never looked: to itself all is well */
    snib_close(client);
}

/* A name that leads elsewhere is noticed by whoever is called, however short ago it looked. */
TEST(who_is_called_does_not_take_a_file_that_was_renamed_away)
{
    snib *client = client_here();
    char away[700];
    snprintf(away, sizeof away, "%s.away", lock_path("x"));
    for (int i = 0; i < 5; i++) {
        struct helper *h = holder("x", SNIB_EXCLUSIVE);
        struct helper *w = waiter(client, "x", SNIB_EXCLUSIVE);
        CHECK(rename(lock_path("x"), away) == 0);
        snib *other = client_here();
        snib_lease *lease = take(other, "x"); /* in the file of that name */
        check_flag_set(&h->let_go);
        check_join(h->pid, PATIENCE_MS);
        check_sleep_ms(50);
        CHECK(!check_flag_is_set(&w->held));
        snib_release(&lease, NULL);
        check_flag_wait(&w->held, PATIENCE_MS);
        let_go(w);
        snib_close(other);
    }
    snib_close(client);
}

TEST(shared_holders_and_waiters_survive_the_removal_too)
{
    snib *client = client_here();
    snib_options shared = waiting(SNIB_SHARED, PATIENCE_MS);
    snib_lease *reader = take_with(client, "x", &shared);
    struct helper *w = waiter(client, "x", SNIB_EXCLUSIVE);
    CHECK(unlink(lock_path("x")) == 0);
    check_flag_wait(&w->held, PATIENCE_MS);
    let_go(w);
    CHECK_INT(snib_verify(reader, NULL), ==, SNIB_ELOST);
    snib_release(&reader, NULL);
    CHECK_INT(try_it(client, "x"), ==, 0);
    snib_close(client);
}

/* ---- Cut and filled --------------------------------------------------------------------- */

static void cut(const char *name, off_t size)
{
    CHECK(truncate(lock_path(name), size) == 0);
}

TEST(a_truncated_file_is_written_anew_and_tokens_go_on)
{
    snib *client = client_here();
    uint64_t last = 0;
    const off_t sizes[] = {0, 1, 100, 256, 300, 511, 1000, 4095, 0};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        for (int again = 0; again < 3; again++) {
            snib_lease *lease = take(client, "x");
            CHECK_UINT(snib_token(lease), >, last);
            last = snib_token(lease);
            give(&lease);
        }
        cut("x", sizes[i]);
    }
    snib_close(client);
}

TEST(a_file_cut_while_held_still_excludes_and_is_released)
{
    for (int slow = 0; slow < 2; slow++) {
        snib *one = client_here();
        snib *two = client_here();
        for (int i = 0; i < 3; i++) { /* mapped */
            CHECK_INT(try_it(one, "x"), ==, 0);
        }
        snib_lease *lease = take(one, "x");
        cut("x", 0);
        if (slow) {
            check_sleep_ms(20); /* the map must not be touched without a look */
        }
        CHECK_INT(try_it(two, "x"), ==, SNIB_EBUSY);
        CHECK_INT(try_it(one, "x"), ==, SNIB_EBUSY);
        cut("x", 0);
        check_sleep_ms(20);
        give(&lease);
        CHECK_INT(try_it(two, "x"), ==, 0);
        CHECK_INT(try_it(one, "x"), ==, 0);
        snib_close(one);
        snib_close(two);
    }
}

/* Cut to nothing, within the header, behind it, and emptied but as long as before. */
TEST(a_lock_whose_file_is_cut_while_held_is_not_shown_as_free)
{
    static const off_t sizes[] = {0, 5, 100, 256, 511, 0};
    snib *client = client_here();
    snib_options shared = waiting(SNIB_SHARED, 0);
    snib_options two = counting(2, 0);
    char pid[32];
    snprintf(pid, sizeof pid, "pid %d", (int)getpid());
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        snib_lease *lease[] = {take(client, "x"), take_with(client, "r", &shared),
                               take_with(client, "c", &two)};
        for (const char *const *name = (const char *const[]){"x", "r", "c", NULL}; *name; name++) {
            cut(*name, sizes[i]);
            if (i == 5) {
                cut(*name, 4096);
            }
        }
        struct seen seen = inspect(client, "x");
        CHECK_INT(seen.holders, ==, 1);
        CHECK_STR(seen.all[0].who, pid);
        seen = inspect(client, "r");
        CHECK_INT(seen.holders, ==, 1);
        CHECK_STR(seen.all[0].who, pid);
        CHECK_INT(seen.all[0].mode, ==, SNIB_SHARED);
        seen = inspect(client, "c");
        CHECK_INT(seen.holders, ==, 1);
        CHECK_INT(seen.all[0].mode, ==, SNIB_COUNTED);
        for (int k = 0; k < 3; k++) {
            cut((const char *const[]){"x", "r", "c"}[k], 0);
            give(&lease[k]);
        }
        CHECK_INT(inspect(client, "x").holders, ==, 0);
        CHECK_INT(inspect(client, "r").holders, ==, 0);
        CHECK_INT(inspect(client, "c").holders, ==, 0);
    }
    snib_close(client);
}

TEST(safety_57_a_holder_whose_file_is_cut_lives_to_release_it)
{
    snib *client = client_here();
    for (int i = 0; i < 100; i++) {
        for (int again = 0; again < 3; again++) { /* mapped from the second time on */
            CHECK_INT(try_it(client, "x"), ==, 0);
        }
        snib_lease *lease = take(client, "x");
        cut("x", 0); /* and no pause: within the tick in which it was checked */
        give(&lease);
    }
    snib_close(client);
}

static void cut_until_told(void *arg)
{
    struct check_flag *enough = arg;
    while (!check_flag_is_set(enough)) {
        (void)!truncate(lock_path("x"), 0);
    }
}

/* Where others can cut the file at any moment nothing is mapped, so no moment is the wrong one. */
TEST_LIMIT(safety_57_members_of_a_group_cannot_crash_each_other_by_cutting, 60)
{
    const struct group *group = getgrgid(getegid());
    if (!group) {
        SKIP("the group of this process has no name");
    }
    char url[400];
    snprintf(url, sizeof url, "%s?group=%s", locks_url(), group->gr_name);
    CHECK(chmod(locks(), 02770) == 0);
    struct check_flag *enough = check_shared(sizeof *enough);
    snib *client = client_at(url);
    CHECK_INT(try_it(client, "x"), ==, 0);
    pid_t pid = check_spawn(cut_until_told, enough);
    for (int i = 0; i < 20000; i++) {
        (void)try_it(client, "x"); /* what it answers is another question */
    }
    check_flag_set(enough);
    check_join(pid, PATIENCE_MS);
    snib_close(client);
}

TEST(waiters_of_a_file_that_is_cut_are_served)
{
    snib *client = client_here();
    snib_lease *lease = take(client, "x");
    struct helper *w[3];
    for (int i = 0; i < 3; i++) {
        w[i] = waiter(client, "x", SNIB_EXCLUSIVE);
    }
    cut("x", 0);
    give(&lease); /* the release finds no queue to look at; the waiters look by themselves */
    for (int done = 0; done < 3;) {
        for (int i = 0; i < 3; i++) {
            if (w[i] && check_flag_is_set(&w[i]->held)) {
                let_go(w[i]);
                w[i] = NULL;
                done++;
            }
        }
        check_sleep_ms(5);
    }
    CHECK_INT(try_it(client, "x"), ==, 0);
    snib_close(client);
}

TEST(a_kind_survives_the_loss_of_the_header)
{
    snib *client = client_here();
    snib_error error;
    snib_options two = counting(2, PATIENCE_MS);
    snib_lease *lease = take(client, "x");
    cut("x", 0);
    CHECK_INT(try_with(client, "x", two, &error), ==, SNIB_EKIND);
    give(&lease);
    lease = take_with(client, "x", &two);
    cut("x", 0);
    snib *other = client_here();
    CHECK_INT(try_it(other, "x"), ==, SNIB_EKIND);
    CHECK_INT(try_with(other, "x", two, &error), ==, 0);
    give(&lease);
    CHECK_INT(try_it(other, "x"), ==, 0);
    snib_close(other);
    snib_close(client);
}

static void fill(const char *name, const void *bytes, size_t size, long at)
{
    FILE *file = fopen(lock_path(name), "a");
    CHECK(file != NULL);
    fclose(file);
    file = fopen(lock_path(name), "r+");
    CHECK(file != NULL);
    CHECK(fseek(file, at, SEEK_SET) == 0);
    CHECK(fwrite(bytes, 1, size, file) == size);
    fclose(file);
    CHECK(chmod(lock_path(name), 0600) == 0);
}

TEST(a_file_that_is_not_ours_is_left_alone)
{
    snib *client = client_here();
    snib_error error;
    fill("x", "precious data, do not touch", 27, 0);
    CHECK_INT(try_with(client, "x", waiting(SNIB_EXCLUSIVE, 0), &error), ==, SNIB_EUNSAFE);
    CHECK(strstr(error.message, "not a lock file") != NULL);
    char back[64] = "";
    FILE *file = fopen(lock_path("x"), "r");
    CHECK_INT(fread(back, 1, sizeof back, file), ==, 27);
    fclose(file);
    CHECK(memcmp(back, "precious data, do not touch", 27) == 0);
    snib_close(client);
}

TEST(a_newer_version_is_refused_by_its_number)
{
    snib *client = client_here();
    snib_error error;
    uint32_t version = 7;
    CHECK_INT(try_it(client, "x"), ==, 0);
    fill("x", &version, sizeof version, (long)offsetof(struct header, version));
    CHECK_INT(try_with(client, "x", waiting(SNIB_EXCLUSIVE, 0), &error), ==, SNIB_ENOTSUP);
    CHECK(strstr(error.message, "version 7") != NULL);
    snib_close(client);
}

/* Whatever stands in the header and the records, nobody crashes and nobody gets in beside a
 * holder. */
TEST_LIMIT(garbage_in_a_file_lets_nobody_in, 60)
{
    unsigned seed = 4711;
    snib *one = client_here();
    for (int round = 0; round < 300; round++) {
        snib *two = client_here();
        snib_lease *lease = take(one, "x");
        unsigned char noise[600];
        size_t size = (size_t)rand_r(&seed) % sizeof noise + 1;
        for (size_t i = 0; i < size; i++) {
            noise[i] = (unsigned char)(rand_r(&seed) % 5 ? 0xff : rand_r(&seed));
        }
        /* Behind magic and name: what a damaged but plausible file looks like. */
        long at = (long)offsetof(struct header, words) + rand_r(&seed) % 3000;
        fill("x", noise, size, at);
        snib_error error;
        CHECK_INT(try_with(two, "x", waiting(SNIB_EXCLUSIVE, 0), &error), <, 0);
        CHECK_INT(try_with(two, "x", waiting(SNIB_SHARED, 0), &error), <, 0);
        snib_options brief = waiting(SNIB_EXCLUSIVE, 1);
        snib_lease *none;
        CHECK_INT(snib_acquire(&none, two, "x", &brief, &error), <, 0);
        snib_inspect(two, "x", NULL, NULL, NULL);
        snib_close(two);
        give(&lease);
        cut("x", 0);
    }
    snib_close(one);
}

TEST(the_largest_token_is_not_followed_by_a_smaller_one)
{
    snib *client = client_here();
    snib_error error;
    uint64_t most = UINT64_MAX;
    CHECK_INT(try_it(client, "x"), ==, 0);
    fill("x", &most, sizeof most,
         (long)sizeof(struct header) + (long)offsetof(struct record, token));
    CHECK_INT(try_with(client, "x", waiting(SNIB_EXCLUSIVE, 0), &error), <, 0);
    CHECK(strstr(error.message, "token") != NULL);
    CHECK_INT(inspect(client, "x").holders, ==, 0);
    snib_close(client);
}

TEST(a_token_ahead_of_the_clock_is_counted_up)
{
    snib *client = client_here();
    uint64_t ahead = (uint64_t)1 << 60;
    CHECK_INT(try_it(client, "x"), ==, 0);
    fill("x", &ahead, sizeof ahead,
         (long)sizeof(struct header) + (long)offsetof(struct record, token));
    snib_lease *lease = take(client, "x");
    CHECK_UINT(snib_token(lease), ==, ahead + 1);
    give(&lease);
    snib_options two = counting(2, 0);
    lease = take_with(client, "x", &two);
    CHECK_UINT(snib_token(lease), ==, ahead + 2);
    give(&lease);
    snib_options shared = waiting(SNIB_SHARED, 0);
    lease = take_with(client, "x", &shared);
    CHECK_UINT(snib_token(lease), ==, ahead + 2);
    give(&lease);
    snib_close(client);
}

/* ---- Strange things in its place -------------------------------------------------------- */

TEST(a_symbolic_link_in_place_of_the_file_is_refused)
{
    char target[300];
    snib *client = client_here();
    snib_error error;
    snprintf(target, sizeof target, "%s/target", check_tmpdir());
    CHECK(symlink(target, lock_path("x")) == 0);
    CHECK_INT(try_with(client, "x", waiting(SNIB_EXCLUSIVE, 0), &error), ==, SNIB_EUNSAFE);
    CHECK(strstr(error.message, "symbolic link") != NULL);
    CHECK(access(target, F_OK) != 0);
    snib_close(client);
}

TEST(a_hard_link_in_place_of_the_file_is_refused)
{
    char target[300];
    snib *client = client_here();
    snib_error error;
    snprintf(target, sizeof target, "%s/target", check_tmpdir());
    fclose(fopen(target, "w"));
    CHECK(link(target, lock_path("x")) == 0);
    CHECK_INT(try_with(client, "x", waiting(SNIB_EXCLUSIVE, 0), &error), ==, SNIB_EUNSAFE);
    CHECK(strstr(error.message, "2 links") != NULL);
    snib_close(client);
}

TEST(a_pipe_or_directory_in_place_of_the_file_is_refused)
{
    snib *client = client_here();
    snib_error error;
    CHECK(mkfifo(lock_path("x"), 0600) == 0);
    CHECK_INT(try_with(client, "x", waiting(SNIB_EXCLUSIVE, 0), &error), ==, SNIB_EUNSAFE);
    CHECK(mkdir(lock_path("y"), 0700) == 0);
    CHECK_INT(try_with(client, "y", waiting(SNIB_EXCLUSIVE, 0), &error), ==, SNIB_ESYS);
    CHECK_INT(error.sys, ==, EISDIR);
    snib_close(client);
}

/* ---- Full disks, too few descriptors ---------------------------------------------------- */

static void mount_small(const char *size)
{
    char options[64];
    if (geteuid() != 0) {
        SKIP("needs root");
    }
    if (unshare(CLONE_NEWNS) != 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0) {
        SKIP("no mount namespace of its own: %s", strerror(errno));
    }
    snprintf(options, sizeof options, "size=%s,mode=700", size);
    if (mount("snibtest", locks(), "tmpfs", 0, options) != 0) {
        SKIP("no tmpfs: %s", strerror(errno));
    }
}

TEST(a_full_disk_is_an_error_and_no_grant)
{
    mount_small("32k");
    snib *client = client_here();
    snib_error error;
    int code = 0;
    char name[16];
    int made = 0;
    for (; made < 100 && code == 0; made++) {
        snprintf(name, sizeof name, "n%d", made);
        code = try_with(client, name, waiting(SNIB_EXCLUSIVE, 0), &error);
    }
    CHECK_INT(code, ==, SNIB_ESYS);
    CHECK_INT(error.sys, ==, ENOSPC);
    CHECK(strstr(error.message, "No space left") != NULL);
    CHECK_INT(inspect(client, name).holders, ==, 0);
    /* What was there before has its room, and goes on. */
    snib_lease *first = take(client, "n0");
    snib_lease *again = take(client, "n1");
    give(&first);
    give(&again);
    snib_close(client);
    /* With room again the refused name works, too. */
    CHECK(unlink(lock_path("n2")) == 0);
    client = client_here();
    CHECK_INT(try_it(client, name), ==, 0);
    snib_close(client);
}

TEST(a_queue_that_does_not_fit_on_the_disk_is_an_error)
{
    mount_small("4k"); /* the header and fourteen records */
    snib *client = client_here();
    snib_options shared = waiting(SNIB_SHARED, 0);
    snib_lease *leases[64];
    snib_error error;
    int held = 0;
    while (held < 64 && snib_acquire(&leases[held], client, "x", &shared, &error) == 0) {
        held++;
    }
    CHECK_INT(held, ==, 14);
    CHECK_INT(error.code, ==, SNIB_ESYS);
    CHECK_INT(error.sys, ==, ENOSPC);
    CHECK_INT(inspect(client, "x").holders, ==, 14);
    while (held > 0) {
        give(&leases[--held]);
    }
    CHECK_INT(try_it(client, "x"), ==, 0);
    snib_close(client);
}

TEST(a_limit_on_the_size_of_files_is_an_error_and_no_signal)
{
    snib_error error;
    struct rlimit limit = {.rlim_cur = 100, .rlim_max = 100};
    signal(SIGXFSZ, SIG_IGN);
    snib *client = client_here();
    CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0);
    CHECK_INT(try_with(client, "x", waiting(SNIB_EXCLUSIVE, 0), &error), ==, SNIB_ESYS);
    CHECK_INT(error.sys, ==, EFBIG);
    snib_close(client);
}

TEST(a_read_only_disk_is_an_error)
{
    mount_small("32k");
    CHECK(mount(NULL, locks(), NULL, MS_REMOUNT | MS_RDONLY, NULL) == 0);
    snib *client = client_here();
    snib_error error;
    CHECK_INT(try_with(client, "x", waiting(SNIB_EXCLUSIVE, 0), &error), ==, SNIB_EDENIED);
    CHECK_INT(error.sys, ==, EROFS);
    CHECK_INT(inspect(client, "x").holders, ==, 0);
    snib_close(client);
}

TEST(five_hundred_names_keep_few_descriptors_open)
{
    snib *client = client_here();
    int before = check_fd_count();
    char name[16];
    for (int i = 0; i < 500; i++) {
        snprintf(name, sizeof name, "n%d", i);
        CHECK_INT(try_it(client, name), ==, 0);
    }
    CHECK_INT(check_fd_count() - before, <=, CACHE_MAX + 1);
    for (int i = 0; i < 500; i++) { /* and nothing was mixed up */
        snprintf(name, sizeof name, "n%d", i);
        snib_lease *lease = take(client, name);
        CHECK_INT(inspect(client, name).holders, ==, 1);
        give(&lease);
    }
    snib_close(client);
    CHECK_INT(check_fd_count(), <, before);
}

TEST(too_few_descriptors_is_an_error_and_idle_files_make_room)
{
    snib *client = client_here();
    snib_error error;
    char name[16];
    struct rlimit limit;
    CHECK(getrlimit(RLIMIT_NOFILE, &limit) == 0);
    for (int i = 0; i < 20; i++) {
        snprintf(name, sizeof name, "idle%d", i);
        CHECK_INT(try_it(client, name), ==, 0);
    }
    limit.rlim_cur = (rlim_t)check_fd_count() + 4;
    CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
    snib_lease *leases[64];
    int held = 0;
    int code = 0;
    snib_options once = waiting(SNIB_EXCLUSIVE, 0);
    while (held < 64 && code == 0) {
        snprintf(name, sizeof name, "held%d", held);
        code = snib_acquire(&leases[held], client, name, &once, &error);
        held += code == 0 ? 1 : 0;
    }
    CHECK_INT(code, ==, SNIB_ESYS);
    CHECK_INT(error.sys, ==, EMFILE);
    CHECK_INT(held, >=, 20);
    while (held > 0) {
        give(&leases[--held]);
    }
    CHECK_INT(try_it(client, name), ==, 0);
    snib_close(client);
}

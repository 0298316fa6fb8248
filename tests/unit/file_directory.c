/* SPDX-License-Identifier: Apache-2.0 */
/* The directory of the lock files: where it is, and which ones are refused. */
#include "file_test.h"

#include <fcntl.h>
#include <grp.h>
#include <linux/filter.h>
#include <linux/magic.h>
#include <linux/seccomp.h>
#include <pwd.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

enum { STRANGER = 54321, SHARED_GROUP = 54322 };

static char folder[340];

static const char *folder_url(const char *parameters)
{
    static char url[400];
    snprintf(url, sizeof url, "file://%s%s", folder, parameters);
    return url;
}

static void make_folder(const char *name, mode_t mode)
{
    snprintf(folder, sizeof folder, "%s/%s", check_tmpdir(), name);
    CHECK(mkdir(folder, 0700) == 0);
    CHECK(chmod(folder, mode) == 0);
}

static void must_be_refused(const char *url, int code, const char *said)
{
    snib *client;
    snib_error error;
    CHECK_INT(snib_open(&client, url, &error), ==, code);
    CHECK(client == NULL);
    CHECK_INT(error.code, ==, code);
    if (!strstr(error.message, said)) {
        FAIL("'%s' does not say '%s'", error.message, said);
    }
}

static void must_be_taken(const char *url)
{
    snib *client = client_at(url);
    snib_lease *lease = take(client, "x");
    give(&lease);
    snib_close(client);
}

static void need_root(void)
{
    if (geteuid() != 0) {
        SKIP("needs root");
    }
}

/* ---- Modes and owners ------------------------------------------------------------------- */

TEST(a_private_directory_is_taken)
{
    make_folder("private", 0700);
    must_be_taken(folder_url(""));
    must_be_taken(folder_url("/"));
}

TEST(a_missing_directory_is_made_private_but_not_its_parents)
{
    struct stat st;
    snprintf(folder, sizeof folder, "%s/new", check_tmpdir());
    umask(0);
    must_be_taken(folder_url(""));
    CHECK(stat(folder, &st) == 0);
    CHECK_INT(st.st_mode & 07777, ==, 0700);
    snprintf(folder, sizeof folder, "%s/missing/new", check_tmpdir());
    must_be_refused(folder_url(""), SNIB_ESYS, "cannot create");
}

TEST(a_world_writable_directory_is_refused_unless_sticky)
{
    make_folder("open", 0777);
    must_be_refused(folder_url(""), SNIB_EUNSAFE, "world-writable");
    CHECK(chmod(folder, 01777) == 0);
    must_be_taken(folder_url(""));
}

TEST(a_group_writable_directory_is_refused_without_a_group)
{
    make_folder("group", 0770);
    must_be_refused(folder_url(""), SNIB_EUNSAFE, "?group=NAME");
}

TEST(a_symbolic_link_is_refused)
{
    char link[360];
    make_folder("real", 0700);
    snprintf(link, sizeof link, "%s-link", folder);
    CHECK(symlink(folder, link) == 0);
    char url[400];
    snprintf(url, sizeof url, "file://%s", link);
    must_be_refused(url, SNIB_EUNSAFE, "symbolic link");
}

TEST(a_file_is_not_a_directory)
{
    snprintf(folder, sizeof folder, "%s/plain", check_tmpdir());
    fclose(fopen(folder, "w"));
    must_be_refused(folder_url(""), SNIB_EUNSAFE, "not a directory");
    must_be_refused("file:///", SNIB_EINVAL, "root directory");
}

TEST(a_host_or_user_in_the_url_is_refused)
{
    must_be_refused("file://somewhere/dir", SNIB_EINVAL, "host");
}

TEST(a_directory_of_another_user_is_refused)
{
    need_root();
    make_folder("theirs", 0755);
    CHECK(chown(folder, STRANGER, STRANGER) == 0);
    must_be_refused(folder_url(""), SNIB_EUNSAFE, "belongs to user id 54321");
}

static void be_stranger(void)
{
    CHECK(setgroups(0, NULL) == 0);
    CHECK(setgid(STRANGER) == 0);
    CHECK(setuid(STRANGER) == 0);
}

static void stranger_in_roots_directory(void *arg)
{
    (void)arg;
    be_stranger();
    snib *client = client_at(folder_url(""));
    snib_error error;
    /* Trusted, but not writable: that is the kernel's affair, and said. */
    CHECK_INT(try_with(client, "x", waiting(SNIB_EXCLUSIVE, 0), &error), ==, SNIB_EDENIED);
    CHECK_INT(error.sys, ==, EACCES);
    CHECK(strstr(error.message, "x.lock") != NULL);
    snib_close(client);
}

TEST(roots_directory_is_trusted_by_all_and_closed_to_them)
{
    need_root();
    make_folder("roots", 0755);
    check_join(check_spawn(stranger_in_roots_directory, NULL), PATIENCE_MS);
}

/* Who has named no directory cannot leave it out. */
static void user_without_a_home(void *arg)
{
    const struct passwd *nobody = arg;
    CHECK(setgroups(0, NULL) == 0);
    CHECK(setuid(nobody->pw_uid) == 0);
    must_be_refused("file:", SNIB_ESYS, "name another directory: file:///DIRECTORY");
}

TEST(a_home_that_is_not_there_is_said_with_what_to_do)
{
    need_root();
    struct passwd *nobody = getpwnam("nobody");
    if (!nobody || access(nobody->pw_dir, F_OK) == 0) {
        SKIP("needs a user without a home");
    }
    check_join(check_spawn(user_without_a_home, nobody), PATIENCE_MS);
}

static void stranger_finds_roots_file(void *arg)
{
    (void)arg;
    be_stranger();
    snib *client = client_at(folder_url(""));
    snib_error error;
    CHECK_INT(try_with(client, "x", waiting(SNIB_EXCLUSIVE, 0), &error), ==, SNIB_EUNSAFE);
    CHECK(strstr(error.message, "not to be trusted") != NULL);
    snib_close(client);
}

/* In a sticky directory anybody can be the first to make a file. */
TEST(a_lock_file_of_another_user_is_refused)
{
    need_root();
    make_folder("sticky", 01777);
    char path[400];
    snprintf(path, sizeof path, "%s/x.lock", folder);
    fclose(fopen(path, "w"));
    CHECK(chown(path, STRANGER + 5, STRANGER + 5) == 0);
    CHECK(chmod(path, 0666) == 0);
    check_join(check_spawn(stranger_finds_roots_file, NULL), PATIENCE_MS);
}

/* ---- Groups ----------------------------------------------------------------------------- */

/* A name for SHARED_GROUP that only this process sees. */
static void make_group(void)
{
    need_root();
    if (unshare(CLONE_NEWNS) != 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0) {
        SKIP("no mount namespace of its own: %s", strerror(errno));
    }
    char path[300];
    snprintf(path, sizeof path, "%s/group", check_tmpdir());
    FILE *file = fopen(path, "w");
    CHECK(file != NULL);
    fprintf(file, "root:x:0:\nsnibtest:x:%d:\n", SHARED_GROUP);
    fclose(file);
    CHECK(mount(path, "/etc/group", NULL, MS_BIND, NULL) == 0);
}

struct member {
    uid_t user;
    struct check_flag held, let_go;
    uint64_t token;
};

static void member_main(void *arg)
{
    struct member *m = arg;
    gid_t group = SHARED_GROUP;
    CHECK(setgroups(1, &group) == 0);
    CHECK(setgid(STRANGER) == 0);
    CHECK(setuid(m->user) == 0);
    umask(077);
    snib *client = client_at(folder_url("?group=snibtest"));
    snib_lease *lease = take(client, "shared");
    m->token = snib_token(lease);
    check_flag_set(&m->held);
    check_flag_wait(&m->let_go, PATIENCE_MS);
    give(&lease);
    snib_close(client);
}

TEST(a_group_shares_a_directory_whatever_the_umask)
{
    make_group();
    struct member *m = check_shared(2 * sizeof *m);
    umask(077);
    snprintf(folder, sizeof folder, "%s/team", check_tmpdir());
    must_be_taken(folder_url("?group=snibtest"));
    struct stat st;
    CHECK(stat(folder, &st) == 0);
    CHECK_INT(st.st_mode & 07777, ==, 02770);
    CHECK_INT(st.st_gid, ==, SHARED_GROUP);

    m[0].user = STRANGER;
    m[1].user = STRANGER + 1;
    pid_t first = check_spawn(member_main, &m[0]);
    check_flag_wait(&m[0].held, PATIENCE_MS);
    pid_t second = check_spawn(member_main, &m[1]);
    check_sleep_ms(100);
    CHECK(!check_flag_is_set(&m[1].held));
    char path[400];
    snprintf(path, sizeof path, "%s/shared.lock", folder);
    CHECK(stat(path, &st) == 0);
    CHECK_INT(st.st_mode & 07777, ==, 0660);
    CHECK_INT(st.st_gid, ==, SHARED_GROUP);
    check_flag_set(&m[0].let_go);
    check_flag_wait(&m[1].held, PATIENCE_MS); /* rung by a process of another user */
    CHECK_UINT(m[1].token, >, m[0].token);
    check_flag_set(&m[1].let_go);
    check_join(first, PATIENCE_MS);
    check_join(second, PATIENCE_MS);
}

/* From now on this process dies when it gives a file its mode. */
static void die_at_fchmod(void)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_fchmod, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {.len = sizeof code / sizeof code[0], .filter = code};
    CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    CHECK(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0);
}

static void doomed_member_main(void *arg)
{
    umask(077);
    snib *client = client_at(folder_url("?group=snibtest"));
    die_at_fchmod();
    (void)try_it(client, "shared");
    check_flag_set(arg); /* not reached */
}

TEST(safety_58_a_member_killed_while_it_makes_a_lock_file_shuts_nobody_out)
{
    make_group();
    struct check_flag *lived = check_shared(sizeof *lived);
    struct member *m = check_shared(sizeof *m);
    struct stat st;
    char path[400];
    int status;
    snprintf(folder, sizeof folder, "%s/team", check_tmpdir());
    must_be_taken(folder_url("?group=snibtest"));
    pid_t doomed = fork();
    CHECK(doomed >= 0);
    if (doomed == 0) {
        doomed_member_main(lived);
        _exit(0);
    }
    CHECK(waitpid(doomed, &status, 0) == doomed);
    CHECK(!check_flag_is_set(lived));
    CHECK(WIFSIGNALED(status));
    snprintf(path, sizeof path, "%s/shared.lock", folder);
    CHECK(stat(path, &st) < 0 || (st.st_mode & 07777) == 0660);
    m->user = STRANGER;
    check_flag_set(&m->let_go);
    pid_t other = check_spawn(member_main, m);
    check_flag_wait(&m->held, PATIENCE_MS);
    check_join(other, PATIENCE_MS);
}

TEST(safety_58_the_owner_of_a_lock_file_gives_its_mode_back)
{
    make_group();
    struct member *m = check_shared(2 * sizeof *m);
    char path[400];
    snprintf(folder, sizeof folder, "%s/team", check_tmpdir());
    must_be_taken(folder_url("?group=snibtest"));
    snprintf(path, sizeof path, "%s/shared.lock", folder);
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL, 0640);
    CHECK(fd >= 0);
    CHECK(fchown(fd, STRANGER, STRANGER) == 0);
    close(fd);
    for (int i = 0; i < 2; i++) { /* the owner, then somebody else */
        m[i].user = (uid_t)(STRANGER + i);
        check_flag_set(&m[i].let_go);
        check_join(check_spawn(member_main, &m[i]), PATIENCE_MS);
        CHECK(check_flag_is_set(&m[i].held));
    }
}

TEST(a_group_directory_must_be_the_groups_and_closed_to_others)
{
    make_group();
    make_folder("other", 0770);
    must_be_refused(folder_url("?group=snibtest"), SNIB_EUNSAFE, "not to snibtest");
    CHECK(chown(folder, 0, SHARED_GROUP) == 0);
    CHECK(chmod(folder, 02777) == 0);
    must_be_refused(folder_url("?group=snibtest"), SNIB_EUNSAFE, "world-writable");
    CHECK(chmod(folder, 02750) == 0);
    must_be_refused(folder_url("?group=snibtest"), SNIB_EUNSAFE, "its group cannot use it");
    CHECK(chmod(folder, 02770) == 0);
    must_be_taken(folder_url("?group=snibtest"));
    must_be_refused(folder_url("?group=nosuchgroup"), SNIB_EINVAL, "no group 'nosuchgroup'");
}

/* ---- Replaced --------------------------------------------------------------------------- */

TEST(a_directory_that_is_replaced_is_noticed)
{
    char away[360];
    make_folder("moving", 0700);
    snprintf(away, sizeof away, "%s-away", folder);
    snib *one = client_at(folder_url(""));
    snib_lease *lease = take(one, "x");
    give(&lease);
    CHECK(rename(folder, away) == 0);
    CHECK(mkdir(folder, 0700) == 0);
    snib *two = client_at(folder_url(""));
    lease = take(two, "x"); /* in the new directory */
    check_sleep_ms(150);    /* a look at the path may be that old */
    CHECK_INT(try_it(one, "x"), ==, SNIB_EBUSY);
    CHECK_INT(try_it(one, "y"), ==, 0);
    give(&lease);
    CHECK_INT(try_it(one, "x"), ==, 0);
    snib_close(one);
    snib_close(two);
}

TEST(a_directory_replaced_by_one_not_to_be_trusted_is_refused)
{
    char away[360];
    make_folder("moving", 0700);
    snprintf(away, sizeof away, "%s-away", folder);
    snib *client = client_at(folder_url(""));
    CHECK_INT(try_it(client, "x"), ==, 0);
    CHECK(rename(folder, away) == 0);
    CHECK(mkdir(folder, 0700) == 0);
    CHECK(chmod(folder, 0777) == 0);
    check_sleep_ms(150);
    snib_error error;
    CHECK_INT(try_with(client, "x", waiting(SNIB_EXCLUSIVE, 0), &error), ==, SNIB_EUNSAFE);
    CHECK(strstr(error.message, "world-writable") != NULL);
    snib_close(client);
}

/* ---- Network file systems --------------------------------------------------------------- */

TEST(network_file_systems_are_known_by_their_numbers)
{
    CHECK_STR(snib__file_directory_network(NFS_SUPER_MAGIC), "NFS");
    CHECK_STR(snib__file_directory_network((long)SMB2_SUPER_MAGIC), "SMB2");
    CHECK_STR(snib__file_directory_network((long)CIFS_SUPER_MAGIC), "CIFS");
    CHECK_STR(snib__file_directory_network((int)CIFS_SUPER_MAGIC), "CIFS"); /* 32 bits, signed */
    CHECK_STR(snib__file_directory_network(V9FS_MAGIC), "9P");
    CHECK_STR(snib__file_directory_network(CEPH_SUPER_MAGIC), "Ceph");
    CHECK_STR(snib__file_directory_network(FUSE_SUPER_MAGIC), "FUSE");
    const long local[] = {EXT4_SUPER_MAGIC, XFS_SUPER_MAGIC,       BTRFS_SUPER_MAGIC,
                          TMPFS_MAGIC,      OVERLAYFS_SUPER_MAGIC, F2FS_SUPER_MAGIC};
    for (size_t i = 0; i < sizeof local / sizeof local[0]; i++) {
        CHECK(snib__file_directory_network(local[i]) == NULL);
    }
}

TEST(network_is_a_choice_and_changes_nothing_on_a_local_directory)
{
    make_folder("local", 0700);
    must_be_taken(folder_url("?network=allow"));
    must_be_taken(folder_url("?network=refuse"));
    must_be_refused(folder_url("?network=maybe"), SNIB_EINVAL, "network");
    snib *client = client_at(folder_url("?network=allow"));
    CHECK(snib_traits(client) & SNIB_TRAIT_FAIR);
    snib_close(client);
}

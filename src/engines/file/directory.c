/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The directory of the lock files: where it is, and whether it can be trusted.
 *
 * One fixed place per user, from the password database and not from the environment: cron has no
 * session variables, and two halves of one crontab must not lock in two places. Persistent, not
 * /run: tokens must not start again at a reboot.
 *
 * Whoever may write to the directory may replace a lock file and so let two holders in. So it
 * belongs to root or to us, and nobody else may write to it, unless it is sticky or the URL names
 * the group that shares it. It is opened once, without following a link at its end, and what was
 * opened is what is checked.
 *
 * Not done: the directories above are not checked. Who can rename them can do so after any check.
 */
#include "engines/file/file.h"

#include <assert.h>
#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#define LOOKUP_BYTES 16384 /* for one entry of the password or group database */

/* File systems whose locks reach, or fail to reach, other hosts. FUSE may be anything; virtiofs
 * is FUSE too. Overlay and the like are as local as what is below them. */
const char *snib__file_network_name(long magic)
{
    static const struct {
        unsigned long magic;
        const char *name;
    } known[] = {
        {0x6969, "NFS"},          {0x517b, "SMB"},          {0xff534d42, "CIFS"},
        {0xfe534d42, "SMB2"},     {0x01021997, "9P"},       {0x5346414f, "AFS"},
        {0x6b414653, "AFS"},      {0x73757245, "Coda"},     {0x00c36400, "Ceph"},
        {0x65735546, "FUSE"},     {0x0bd00bd0, "Lustre"},   {0x47504653, "GPFS"},
        {0x7461636f, "OCFS2"},    {0x01161970, "GFS2"},     {0x19830326, "BeeGFS"},
        {0xaad7aaea, "PanFS"},    {0x786f4256, "vboxsf"},   {0xbacbacbc, "HGFS"},
        {0x564c, "NCP"},          {0x20030528, "OrangeFS"}, {0x013111a8, "IBRIX"},
        {0x6e736c6d, "StorNext"}, {0x61756673, "aufs"},
    };
    unsigned long bits = (unsigned long)magic & 0xffffffffUL; /* sign-extended on some machines */
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        if (known[i].magic == bits) {
            return known[i].name;
        }
    }
    return NULL;
}

/* ---- Where ------------------------------------------------------------------------------ */

static int home_path(struct file_session *fs, struct failure *why)
{
    struct passwd entry;
    struct passwd *found = NULL;
    char buffer[LOOKUP_BYTES];
    int rc = getpwuid_r(fs->user, &entry, buffer, sizeof buffer, &found);
    if (!found || !found->pw_dir || found->pw_dir[0] != '/') {
        return snib__file_fail(why, SNIB_EUNSAFE, rc,
                               "user id %u has no home directory in the password database; name "
                               "a directory: file:///DIRECTORY",
                               (unsigned)fs->user);
    }
    if (asprintf(&fs->path, "%s/.local/state/snib", found->pw_dir) < 0) {
        fs->path = NULL;
        return snib__file_fail(why, SNIB_ENOMEM, 0, "out of memory");
    }
    return 0;
}

static int find_path(struct file_session *fs, struct failure *why)
{
    const char *path = fs->session->url->path;
    if (path[0] == '\0' && fs->user != 0) {
        return home_path(fs, why);
    }
    if (path[0] != '\0' && strspn(path, "/") == strlen(path)) {
        return snib__file_fail(why, SNIB_EINVAL, 0,
                               "the root directory is no place for lock files");
    }
    fs->path = strdup(path[0] ? path : "/var/lib/snib");
    if (!fs->path) {
        return snib__file_fail(why, SNIB_ENOMEM, 0, "out of memory");
    }
    for (size_t end = strlen(fs->path); fs->path[end - 1] == '/'; end--) {
        fs->path[end - 1] = '\0';
    }
    return 0;
}

static int find_group(struct file_session *fs, struct failure *why)
{
    if (!fs->group_name) {
        return 0;
    }
    struct group entry;
    struct group *found = NULL;
    char buffer[LOOKUP_BYTES];
    int rc = getgrnam_r(fs->group_name, &entry, buffer, sizeof buffer, &found);
    if (!found) {
        return snib__file_fail(why, SNIB_EINVAL, rc, "there is no group '%.60s'", fs->group_name);
    }
    fs->grouped = true;
    fs->group = found->gr_gid;
    return 0;
}

/* ---- Creation --------------------------------------------------------------------------- */

/* The default directory with its parents; a directory that was named, without: a misspelt path
 * should not grow a tree. */
static int create(struct file_session *fs, struct failure *why)
{
    if (fs->session->url->path[0] == '\0') {
        for (char *slash = strchr(fs->path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
            *slash = '\0';
            (void)mkdir(fs->path, 0700); /* if it fails, the last one says why */
            *slash = '/';
        }
    }
    if (mkdir(fs->path, 0700) < 0) {
        int sys = errno;
        if (sys == EEXIST) {
            return 0;
        }
        return snib__file_fail(why, snib__file_code_of(sys), sys, "cannot create %.200s: %s",
                               fs->path, strerror(sys));
    }
    if (!fs->grouped) {
        return 0;
    }
    int fd = open(fs->path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    bool done = fd >= 0 && fchown(fd, (uid_t)-1, fs->group) == 0 && fchmod(fd, 02770) == 0;
    int sys = errno;
    if (fd >= 0) {
        close(fd);
    }
    if (!done) {
        return snib__file_fail(why, snib__file_code_of(sys), sys,
                               "cannot give %.160s to group %.60s: %s", fs->path, fs->group_name,
                               strerror(sys));
    }
    return 0;
}

/* ---- Trust ------------------------------------------------------------------------------ */

static int check_shared_mode(const struct file_session *fs, const struct stat *st,
                             struct failure *why)
{
    if (st->st_gid != fs->group) {
        return snib__file_fail(why, SNIB_EUNSAFE, 0,
                               "%.160s belongs to group %u, not to %.60s (chgrp %.60s it, or "
                               "change group= in the URL)",
                               fs->path, (unsigned)st->st_gid, fs->group_name, fs->group_name);
    }
    if (st->st_mode & S_IWOTH) {
        return snib__file_fail(why, SNIB_EUNSAFE, 0,
                               "%.200s is world-writable: anybody could replace a lock file "
                               "(chmod o-w it)",
                               fs->path);
    }
    if ((st->st_mode & S_IRWXG) != S_IRWXG) {
        return snib__file_fail(why, SNIB_EUNSAFE, 0,
                               "%.200s has mode %04o: its group cannot use it (chmod 2770 it)",
                               fs->path, (unsigned)(st->st_mode & 07777));
    }
    return 0;
}

static int check_trust(const struct file_session *fs, const struct stat *st, struct failure *why)
{
    if (fs->grouped) {
        return check_shared_mode(fs, st, why);
    }
    if (st->st_uid != 0 && st->st_uid != fs->user) {
        return snib__file_fail(why, SNIB_EUNSAFE, 0,
                               "%.200s belongs to user id %u, who could replace a lock file; it "
                               "must be root's or yours (user id %u), or shared by ?group=NAME",
                               fs->path, (unsigned)st->st_uid, (unsigned)fs->user);
    }
    if (st->st_mode & S_ISVTX) {
        return 0; /* sticky: only the owner of a file can replace it, and that is checked */
    }
    if (st->st_mode & S_IWOTH) {
        return snib__file_fail(why, SNIB_EUNSAFE, 0,
                               "%.200s is world-writable: anybody could replace a lock file "
                               "(chmod o-w it)",
                               fs->path);
    }
    if (st->st_mode & S_IWGRP) {
        return snib__file_fail(why, SNIB_EUNSAFE, 0,
                               "%.200s is group-writable: its group could replace a lock file "
                               "(chmod g-w it, or say ?group=NAME if the group shares the locks)",
                               fs->path);
    }
    return 0;
}

static int check_network(struct file_session *fs, int fd, struct failure *why)
{
    struct statfs st;
    if (fstatfs(fd, &st) < 0) {
        int sys = errno;
        return snib__file_fail(why, SNIB_ESYS, sys, "statfs %.200s: %s", fs->path, strerror(sys));
    }
    const char *name = snib__file_network_name((long)st.f_type);
    if (!name) {
        return 0;
    }
    if (!fs->network) {
        return snib__file_fail(why, SNIB_EUNSAFE, 0,
                               "%.160s is on a network file system (%s), where locks may be lost "
                               "or stay on one host; use a local directory or a server engine, "
                               "or say ?network=allow and rely on nothing across hosts",
                               fs->path, name);
    }
    fs->session->traits &= ~(unsigned)(SNIB_TRAIT_FAIR | SNIB_TRAIT_AT_ONCE);
    return 0;
}

/* ---- Open ------------------------------------------------------------------------------- */

static int open_path(struct file_session *fs)
{
    assert(fs->path != NULL);
    return open(fs->path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

static int open_checked(struct file_session *fs, struct failure *why)
{
    int fd = open_path(fs);
    if (fd < 0 && errno == ENOENT) {
        int rc = create(fs, why);
        if (rc < 0) {
            return rc;
        }
        fd = open_path(fs);
    }
    if (fd < 0) {
        int sys = errno;
        if (sys == ELOOP || sys == ENOTDIR) {
            return snib__file_fail(why, SNIB_EUNSAFE, sys,
                                   "%.200s is a symbolic link or not a directory", fs->path);
        }
        return snib__file_fail(why, snib__file_code_of(sys), sys, "cannot open %.200s: %s",
                               fs->path, strerror(sys));
    }
    struct stat st;
    int rc = fstat(fd, &st) < 0 ? snib__file_fail(why, SNIB_ESYS, errno, "stat %.200s", fs->path)
                                : check_trust(fs, &st, why);
    if (rc == 0) {
        rc = check_network(fs, fd, why);
    }
    if (rc < 0) {
        close(fd);
        return rc;
    }
    if (fs->dir >= 0) {
        close(fs->dir);
    }
    fs->dir = fd;
    fs->dir_dev = st.st_dev;
    fs->dir_ino = st.st_ino;
    fs->dir_tick = file_tick();
    return 0;
}

int snib__file_directory_open(struct file_session *fs, struct failure *why)
{
    fs->user = geteuid();
    int rc = find_path(fs, why);
    if (rc == 0) {
        rc = find_group(fs, why);
    }
    if (rc == 0) {
        rc = open_checked(fs, why);
    }
    return rc;
}

int snib__file_directory_check(struct file_session *fs, struct failure *why)
{
    struct stat st;
    if (lstat(fs->path, &st) == 0 && st.st_dev == fs->dir_dev && st.st_ino == fs->dir_ino) {
        fs->dir_tick = file_tick();
        return 0;
    }
    int rc = open_checked(fs, why);
    return rc < 0 ? rc : 1;
}

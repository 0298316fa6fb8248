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
#include "engines/file/directory.h"

#include "engines/file/tick.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#define LOOKUP_BYTES 16384 /* for one entry of the password or group database */

/* File systems whose locks reach, or fail to reach, other hosts. FUSE may be anything; virtiofs
 * is FUSE too. Overlay and the like are as local as what is below them. */
const char *snib__file_directory_network(long magic)
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

static int home_path(struct directory *d, struct failure *why)
{
    struct passwd entry;
    struct passwd *found = NULL;
    char buffer[LOOKUP_BYTES];
    int rc = getpwuid_r(d->user, &entry, buffer, sizeof buffer, &found);
    if (!found || !found->pw_dir || found->pw_dir[0] != '/') {
        return snib__file_fail(why, SNIB_EUNSAFE, rc,
                               "user id %u has no home directory in the password database; name "
                               "a directory: file:///DIRECTORY",
                               (unsigned)d->user);
    }
    if (asprintf(&d->path, "%s/.local/state/snib", found->pw_dir) < 0) {
        d->path = NULL;
        return snib__file_fail_memory(why);
    }
    return 0;
}

static int find_path(struct directory *d, struct failure *why)
{
    const char *path = d->session->url->path;
    if (path[0] == '\0' && d->user != 0) {
        return home_path(d, why);
    }
    if (path[0] != '\0' && strspn(path, "/") == strlen(path)) {
        return snib__file_fail(why, SNIB_EINVAL, 0,
                               "the root directory is no place for lock files");
    }
    d->path = strdup(path[0] ? path : "/var/lib/snib");
    if (!d->path) {
        return snib__file_fail_memory(why);
    }
    for (size_t end = strlen(d->path); d->path[end - 1] == '/'; end--) {
        d->path[end - 1] = '\0';
    }
    return 0;
}

static int find_group(struct directory *d, struct failure *why)
{
    if (!d->group_name) {
        return 0;
    }
    struct group entry;
    struct group *found = NULL;
    char buffer[LOOKUP_BYTES];
    int rc = getgrnam_r(d->group_name, &entry, buffer, sizeof buffer, &found);
    if (!found) {
        return snib__file_fail(why, SNIB_EINVAL, rc, "there is no group '%.60s'", d->group_name);
    }
    d->grouped = true;
    d->group = found->gr_gid;
    return 0;
}

/* ---- Creation --------------------------------------------------------------------------- */

/* The default directory with its parents; a directory that was named, without: a misspelt path
 * should not grow a tree. */
static int create(struct directory *d, struct failure *why)
{
    if (d->session->url->path[0] == '\0') {
        for (char *slash = strchr(d->path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
            *slash = '\0';
            (void)mkdir(d->path, 0700); /* if it fails, the last one says why */
            *slash = '/';
        }
    }
    if (mkdir(d->path, 0700) < 0) {
        int sys = errno;
        if (sys == EEXIST) {
            return 0;
        }
        if (sys == ENOENT && d->session->url->path[0] != '\0') {
            return snib__file_fail(
                why, snib__file_failure_code(sys), sys,
                "cannot create %.200s: %s above it; mkdir -p -m 700 it, or leave "
                "it out: file: has a directory of its own for every user",
                d->path, strerror(sys));
        }
        return snib__file_fail(
            why, snib__file_failure_code(sys), sys,
            "cannot create %.200s: %s; name another directory: file:///DIRECTORY", d->path,
            strerror(sys));
    }
    if (!d->grouped) {
        return 0;
    }
    int fd = open(d->path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    bool done = fd >= 0 && fchown(fd, (uid_t)-1, d->group) == 0 && fchmod(fd, 02770) == 0;
    int sys = errno;
    if (fd >= 0) {
        close(fd);
    }
    if (!done) {
        return snib__file_fail(why, snib__file_failure_code(sys), sys,
                               "cannot give %.160s to group %.60s: %s", d->path, d->group_name,
                               strerror(sys));
    }
    return 0;
}

/* ---- Trust ------------------------------------------------------------------------------ */

static int check_shared_mode(const struct directory *d, const struct stat *st, struct failure *why)
{
    if (st->st_gid != d->group) {
        return snib__file_fail(why, SNIB_EUNSAFE, 0,
                               "%.160s belongs to group %u, not to %.60s (chgrp %.60s it, or "
                               "change group= in the URL)",
                               d->path, (unsigned)st->st_gid, d->group_name, d->group_name);
    }
    if (st->st_mode & S_IWOTH) {
        return snib__file_fail(why, SNIB_EUNSAFE, 0,
                               "%.200s is world-writable: anybody could replace a lock file "
                               "(chmod o-w it)",
                               d->path);
    }
    if ((st->st_mode & S_IRWXG) != S_IRWXG) {
        return snib__file_fail(why, SNIB_EUNSAFE, 0,
                               "%.200s has mode %04o: its group cannot use it (chmod 2770 it)",
                               d->path, (unsigned)(st->st_mode & 07777));
    }
    return 0;
}

static int check_trust(const struct directory *d, const struct stat *st, struct failure *why)
{
    if (d->grouped) {
        return check_shared_mode(d, st, why);
    }
    if (st->st_uid != 0 && st->st_uid != d->user) {
        return snib__file_fail(why, SNIB_EUNSAFE, 0,
                               "%.200s belongs to user id %u, who could replace a lock file; it "
                               "must be root's or yours (user id %u), or shared by ?group=NAME",
                               d->path, (unsigned)st->st_uid, (unsigned)d->user);
    }
    if (st->st_mode & S_ISVTX) {
        return 0; /* sticky: only the owner of a file can replace it, and that is checked */
    }
    if (st->st_mode & S_IWOTH) {
        return snib__file_fail(why, SNIB_EUNSAFE, 0,
                               "%.200s is world-writable: anybody could replace a lock file "
                               "(chmod o-w it)",
                               d->path);
    }
    if (st->st_mode & S_IWGRP) {
        return snib__file_fail(why, SNIB_EUNSAFE, 0,
                               "%.200s is group-writable: its group could replace a lock file "
                               "(chmod g-w it, or say ?group=NAME if the group shares the locks)",
                               d->path);
    }
    return 0;
}

static int check_network(struct directory *d, int fd, struct failure *why)
{
    struct statfs st;
    if (fstatfs(fd, &st) < 0) {
        int sys = errno;
        return snib__file_fail(why, SNIB_ESYS, sys, "statfs %.200s: %s", d->path, strerror(sys));
    }
    const char *name = snib__file_directory_network((long)st.f_type);
    if (!name) {
        return 0;
    }
    if (!d->network) {
        return snib__file_fail(why, SNIB_EUNSAFE, 0,
                               "%.160s is on a network file system (%s), where locks may be lost "
                               "or stay on one host; use a local directory or a server engine, "
                               "or say ?network=allow and rely on nothing across hosts",
                               d->path, name);
    }
    d->session->traits &= ~(unsigned)(SNIB_TRAIT_FAIR | SNIB_TRAIT_AT_ONCE);
    return 0;
}

/* ---- Open ------------------------------------------------------------------------------- */

static int open_path(struct directory *d)
{
    assert(d->path != NULL);
    return open(d->path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

static int open_checked(struct directory *d, struct failure *why)
{
    int fd = open_path(d);
    if (fd < 0 && errno == ENOENT) {
        int rc = create(d, why);
        if (rc < 0) {
            return rc;
        }
        fd = open_path(d);
    }
    if (fd < 0) {
        int sys = errno;
        if (sys == ELOOP || sys == ENOTDIR) {
            return snib__file_fail(
                why, SNIB_EUNSAFE, sys,
                "%.200s is a symbolic link or not a directory; name the directory "
                "itself, by its real path",
                d->path);
        }
        return snib__file_fail(why, snib__file_failure_code(sys), sys, "cannot open %.200s: %s",
                               d->path, strerror(sys));
    }
    struct stat st;
    int rc = fstat(fd, &st) < 0 ? snib__file_fail(why, SNIB_ESYS, errno, "stat %.200s", d->path)
                                : check_trust(d, &st, why);
    if (rc == 0) {
        rc = check_network(d, fd, why);
    }
    if (rc < 0) {
        close(fd);
        return rc;
    }
    if (d->fd >= 0) {
        close(d->fd);
    }
    d->fd = fd;
    d->dev = st.st_dev;
    d->ino = st.st_ino;
    d->tick = file_tick();
    return 0;
}

int snib__file_directory_open(struct directory *d, struct failure *why)
{
    d->user = geteuid();
    int rc = find_path(d, why);
    if (rc == 0) {
        rc = find_group(d, why);
    }
    if (rc == 0) {
        rc = open_checked(d, why);
    }
    return rc;
}

int snib__file_directory_check(struct directory *d, struct failure *why)
{
    struct stat st;
    if (lstat(d->path, &st) == 0 && st.st_dev == d->dev && st.st_ino == d->ino) {
        d->tick = file_tick();
        return 0;
    }
    int rc = open_checked(d, why);
    return rc < 0 ? rc : 1;
}

void snib__file_directory_close(struct directory *d)
{
    if (d->fd >= 0) {
        close(d->fd);
        d->fd = -1;
    }
    free(d->path);
    d->path = NULL;
}

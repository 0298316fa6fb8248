/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The examination for `snib doctor`: one finding for each thing that decides what is promised here.
 *
 * Answered at once. What makes a directory unfit is refused when it is opened, so most of what is
 * found here is good; warnings are about what works today and may surprise tomorrow. That a private
 * directory is for one user alone is as it should be, but has a remedy for who wants more. The
 * trial locks a file that has no name, so nobody can meet it, and nothing of it is left.
 */
#include "engines/file/examine.h"

#include "engines/file/record.h"

#include <dirent.h>
#include <errno.h>
#include <grp.h>
#include <limits.h>
#include <pwd.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>
#include <unistd.h>

#define LOOKUP_BYTES 16384 /* for one entry of the password or group database */
#define SPACE_NEEDED (1024ULL * 1024)
#define INODES_NEEDED 100ULL
#define FILES_MANY 100000U

struct examination {
    struct snib__query *query;
    const struct directory *directory;
    struct stat st; /* of the directory */
};

__attribute__((format(printf, 5, 6))) static void found(const struct examination *e,
                                                        enum snib_verdict verdict,
                                                        const char *about, const char *remedy,
                                                        const char *format, ...)
{
    char text[600];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    snib_finding finding = {.size = sizeof finding,
                            .verdict = (int)verdict,
                            .about = about,
                            .text = text,
                            .remedy = remedy};
    snib__found(e->query, &finding);
}

/* ---- Where it is ------------------------------------------------------------------------ */

static void examine_place(const struct examination *e)
{
    const struct directory *d = e->directory;
    char real[PATH_MAX];
    const char *origin = d->session->url->path[0] ? "named in the URL"
                         : d->user == 0           ? "the default of root"
                                        : "the default of this user, in the home directory";
    if (!realpath(d->path, real)) {
        found(e, SNIB_BAD, "directory", "create it again, or name another one: file:///DIRECTORY",
              "%.400s is not there any more: %s", d->path, strerror(errno));
        return;
    }
    bool other = strcmp(real, d->path) != 0;
    found(e, SNIB_GOOD, "directory", NULL, "%.250s%s%.250s, %s", d->path,
          other ? ", which is really " : "", other ? real : "", origin);
}

static const char *user_name(char buffer[LOOKUP_BYTES], uid_t user)
{
    struct passwd entry;
    struct passwd *known = NULL;
    getpwuid_r(user, &entry, buffer, LOOKUP_BYTES, &known);
    return known ? known->pw_name : "a user without a name";
}

static const char *group_name(char buffer[LOOKUP_BYTES], gid_t group)
{
    struct group entry;
    struct group *known = NULL;
    getgrgid_r(group, &entry, buffer, LOOKUP_BYTES, &known);
    return known ? known->gr_name : "a group without a name";
}

/* The same rules as when it is opened; somebody may have changed them since. */
static void examine_owner(const struct examination *e)
{
    const struct directory *d = e->directory;
    char user[LOOKUP_BYTES];
    char group[LOOKUP_BYTES];
    unsigned mode = e->st.st_mode & 07777;
    bool sticky = (mode & S_ISVTX) != 0;
    const char *remedy = NULL;
    if ((mode & S_IWOTH) && (d->grouped || !sticky)) {
        remedy = "chmod o-w the directory: anybody could replace a lock file";
    } else if ((mode & S_IWGRP) && !d->grouped && !sticky) {
        remedy = "chmod g-w the directory, or say ?group=NAME if the group shares the locks";
    } else if (!d->grouped && e->st.st_uid != 0 && e->st.st_uid != d->user) {
        remedy = "use a directory of your own or of root, or share one by ?group=NAME";
    }
    found(e, remedy ? SNIB_BAD : SNIB_GOOD, "owner", remedy,
          "user %s (%u), group %s (%u), mode %04o%s", user_name(user, e->st.st_uid),
          (unsigned)e->st.st_uid, group_name(group, e->st.st_gid), (unsigned)e->st.st_gid, mode,
          sticky ? ", sticky" : "");
}

/* ---- Who can take part ------------------------------------------------------------------ */

static void examine_users(const struct examination *e)
{
    const struct directory *d = e->directory;
    char user[LOOKUP_BYTES];
    if (d->grouped) {
        found(e, SNIB_GOOD, "users", NULL, "all members of group %s exclude each other",
              d->group_name);
    } else if (e->st.st_mode & S_ISVTX) {
        found(
            e, SNIB_WARNING, "users",
            "to exclude others, use a directory of a group: ?group=NAME, mode 2770",
            "others can write here, but a lock file of one user is refused by all others but root");
    } else {
        found(e, SNIB_GOOD, "users",
              "to exclude other users too: file:///DIRECTORY?group=NAME, the same for all of them",
              "only processes of user %s exclude each other, and root if it names this directory",
              user_name(user, d->user));
    }
}

/* ---- What it is on ---------------------------------------------------------------------- */

static void examine_file_system(const struct examination *e)
{
    struct statfs st;
    if (fstatfs(e->directory->fd, &st) < 0) {
        found(e, SNIB_BAD, "file system", NULL, "cannot be asked: %s", strerror(errno));
        return;
    }
    const char *name = snib__file_directory_network((long)st.f_type);
    if (!name) {
        found(e, SNIB_GOOD, "file system", NULL,
              "local: excludes all processes of this host that use this directory, and no others");
    } else {
        found(e, e->directory->network ? SNIB_WARNING : SNIB_BAD, "file system",
              "use a local directory, or a server for locks between hosts; ?network=allow only if "
              "nothing depends on it",
              "%s, a network file system: locks may be lost, or stay on one host", name);
    }
}

static void examine_space(const struct examination *e)
{
    struct statvfs st;
    if (fstatvfs(e->directory->fd, &st) < 0) {
        found(e, SNIB_WARNING, "space", NULL, "cannot be asked: %s", strerror(errno));
        return;
    }
    bool root = e->directory->user == 0;
    unsigned long long bytes =
        (unsigned long long)(root ? st.f_bfree : st.f_bavail) * (unsigned long long)st.f_frsize;
    unsigned long long inodes = root ? st.f_ffree : st.f_favail;
    bool counted = st.f_files != 0; /* some file systems make them as needed */
    bool none = bytes < FILE_BYTES || (counted && inodes == 0);
    bool little = bytes < SPACE_NEEDED || (counted && inodes < INODES_NEEDED);
    const char *remedy = none || little ? "make room: a new name needs 4 KiB and an inode" : NULL;
    enum snib_verdict verdict = none ? SNIB_BAD : little ? SNIB_WARNING : SNIB_GOOD;
    if (counted) {
        found(e, verdict, "space", remedy, "%llu MiB and %llu inodes are free", bytes >> 20,
              inodes);
    } else {
        found(e, verdict, "space", remedy, "%llu MiB are free", bytes >> 20);
    }
    if (st.f_flag & ST_RDONLY) {
        found(e, SNIB_BAD, "space", "mount it for writing, or use another directory",
              "the file system is mounted read-only");
    }
}

/* ---- What is in it ---------------------------------------------------------------------- */

static void examine_files(const struct examination *e)
{
    unsigned ours = 0;
    unsigned strange = 0;
    int fd = openat(e->directory->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    if (!dir) {
        found(e, SNIB_WARNING, "lock files", "let its users read the directory",
              "cannot be listed: %s", strerror(errno));
        if (fd >= 0) {
            close(fd);
        }
        return;
    }
    const struct dirent *entry;
    while ((entry = readdir(dir)) != NULL) {
        char name[FILE_NAME_BYTES];
        bool dots = strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0;
        bool known = !dots && snib__file_name_decode(name, entry->d_name) >= 0;
        ours += known ? 1 : 0;
        strange += !known && !dots ? 1 : 0;
    }
    closedir(dir);
    const char *remedy = ours > FILES_MANY ? "use fewer names; files may be removed while nothing "
                                             "uses this directory, at no other time"
                                           : NULL;
    found(e, remedy ? SNIB_WARNING : SNIB_GOOD, "lock files", remedy,
          "%u, one for each name ever used%s", ours,
          strange ? "; and files that are not of snib" : "");
}

/* ---- The trial -------------------------------------------------------------------------- */

/* What an acquire and a release need of the kernel, on a file without a name. */
static const char *try_locks(int one, int other)
{
    struct flock seen;
    if (ftruncate(one, FILE_BYTES) < 0 || pwrite(one, "", 1, 0) != 1) {
        return "cannot be written";
    }
    if (snib__file_lock_range(one, F_WRLCK, SLOT_AT, 1) != 0) {
        return "cannot be locked";
    }
    if (!snib__file_blocked(other, F_WRLCK, SLOT_AT, 1, &seen) ||
        snib__file_lock_range(other, F_WRLCK, SLOT_AT, 1) != EAGAIN) {
        return "was locked twice: locks do not exclude here";
    }
    if (snib__file_lock_range(one, F_UNLCK, 0, 0) != 0 ||
        snib__file_lock_range(other, F_WRLCK, SLOT_AT, 1) != 0) {
        return "is still locked after its release";
    }
    return NULL;
}

static void examine_trial(const struct examination *e)
{
    char path[40];
    int64_t start_ns = snib__now().boot_ns;
    int one = openat(e->directory->fd, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (one < 0) {
        bool unable = errno == EOPNOTSUPP || errno == EISDIR;
        found(e, unable ? SNIB_WARNING : SNIB_BAD, "trial",
              unable ? NULL : "see to it that its users can create files there",
              unable ? "not made: this file system has no files without names (%s)"
                     : "a file cannot be made: %s",
              strerror(errno));
        return;
    }
    snprintf(path, sizeof path, "/proc/self/fd/%d", one);
    int other = open(path, O_RDWR | O_CLOEXEC); /* a description of its own, as another process */
    const char *wrong =
        other < 0 ? "cannot be opened twice: is /proc there?" : try_locks(one, other);
    int64_t span_us = (snib__now().boot_ns - start_ns) / 1000;
    if (wrong) {
        found(e, SNIB_BAD, "trial", "use a directory on another file system",
              "a file made for this %s", wrong);
    } else {
        found(e, SNIB_GOOD, "trial", NULL,
              "a lock was taken, excluded another, and was released, in %lld microseconds",
              (long long)span_us);
    }
    close(one);
    if (other >= 0) {
        close(other);
    }
}

void snib__file_examine(struct snib__query *query)
{
    struct file_session *fs = query->session->state;
    struct examination e = {.query = query, .directory = &fs->directory};
    struct failure why;
    (void)snib__file_directory_check(&fs->directory, &why); /* if it moved, look at the new one */
    if (fstat(fs->directory.fd, &e.st) < 0) {
        snib__finish(query, SNIB_ESYS, errno, "the directory cannot be asked");
        return;
    }
    examine_place(&e);
    examine_owner(&e);
    examine_users(&e);
    examine_file_system(&e);
    examine_space(&e);
    examine_files(&e);
    examine_trial(&e);
    snib__finish(query, SNIB_OK, 0, NULL);
}

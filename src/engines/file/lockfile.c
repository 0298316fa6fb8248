/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lock files: opened with suspicion, kept open, looked at again.
 *
 * A file is never unlinked, renamed or truncated by us. Somebody else may do so, and then the
 * name leads to another inode, or nowhere, while we lock the old one. So after a lock the
 * link count is looked at, unless that was done in the same tick of the coarse clock (one statx,
 * which also says that the mapped page is still there), and when the last look is older than a
 * tenth of a second, whether the path and the directory's path lead where they led. What is
 * replaced is left to those who hold it, and opened anew.
 *
 * Reading the header costs a system call on first use; from the second on it is mapped, read
 * only: pages are coherent with write(2) on local file systems. Writing is always pwrite, so
 * that a full disk is an error and not a SIGBUS. A file shrunk by somebody else would make
 * reading one, so the map is touched only directly after a look at the size.
 */
#include "engines/file/file.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <time.h>
#include <unistd.h>

#define PATH_CHECK_NS (100 * SNIB__MS)

/* ---- Kernel locks ----------------------------------------------------------------------- */

/* Cutting a range in two needs memory in the kernel, so even this can fail. Then nobody may use
 * this descriptor again, and closing it, when the last of us leaves, unlocks everything. */
void snib__file_unlock(struct lockfile *f, off_t start, off_t length)
{
    for (int tries = 0; tries < 100; tries++) {
        if (file_lock(f->fd, F_UNLCK, start, length) == 0) {
            return;
        }
    }
    snib__file_stray(f);
}

bool snib__file_blocked(int fd, short type, off_t start, off_t length, struct flock *found)
{
    *found =
        (struct flock){.l_type = type, .l_whence = SEEK_SET, .l_start = start, .l_len = length};
    while (fcntl(fd, F_OFD_GETLK, found) < 0) {
        if (errno != EINTR) { /* not known: nobody is let in on a guess */
            *found = (struct flock){.l_type = F_WRLCK, .l_start = start, .l_len = 1};
            return true;
        }
    }
    return found->l_type != F_UNLCK;
}

/* ---- Opening ---------------------------------------------------------------------------- */

int snib__file_trust(struct file_session *fs, const char *name, const struct statx *st,
                     struct failure *why)
{
    if (!S_ISREG(st->stx_mode)) {
        return snib__file_fail(why, SNIB_EUNSAFE, 0, "%.100s/%.200s is not a regular file",
                               fs->path, name);
    }
    if (st->stx_nlink > 1) {
        return snib__file_fail(why, SNIB_EUNSAFE, 0, "%.100s/%.200s has %u links, must have one",
                               fs->path, name, st->stx_nlink);
    }
    bool ours = fs->grouped ? st->stx_gid == fs->group && !(st->stx_mode & S_IWOTH)
                            : st->stx_uid == 0 || st->stx_uid == fs->user;
    if (!ours) {
        return snib__file_fail(why, SNIB_EUNSAFE, 0,
                               "%.100s/%.160s belongs to user id %u, group %u, mode %04o, and is "
                               "not to be trusted here",
                               fs->path, name, st->stx_uid, st->stx_gid,
                               (unsigned)(st->stx_mode & 07777));
    }
    return 0;
}

/* Made by us: give it its mode whatever the umask says. Others may find it a moment earlier. */
static int finish_new(const struct file_session *fs, int fd)
{
    if (!fs->grouped) {
        return 0;
    }
    struct stat st;
    if (fstat(fd, &st) < 0 || (st.st_gid != fs->group && fchown(fd, (uid_t)-1, fs->group) < 0) ||
        fchmod(fd, 0660) < 0) {
        return -1;
    }
    return 0;
}

/* First without O_CREAT, which protected_regular=2 refuses for the files of others in a sticky
 * directory. -1 and errno: EEXIST and ENOENT mean that it just came or went. */
static int open_or_make(const struct file_session *fs, const char *name, int flags)
{
    int common = O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY;
    int fd = openat(fs->dir, name, (flags & ~O_CREAT) | common);
    if (fd >= 0 || errno != ENOENT || !(flags & O_CREAT)) {
        return fd;
    }
    fd = openat(fs->dir, name, O_RDWR | O_CREAT | O_EXCL | common, fs->grouped ? 0660 : 0600);
    if (fd >= 0 && finish_new(fs, fd) < 0) {
        int sys = errno;
        close(fd);
        errno = sys;
        return -1;
    }
    return fd;
}

static bool worth_again(struct file_session *fs, int flags, int tries)
{
    switch (errno) {
    case EINTR:
        return true;
    case EEXIST:
        return tries < 20;
    case ENOENT:
        return (flags & O_CREAT) && tries < 20;
    case EMFILE:
    case ENFILE:
        return snib__file_evict_idle(fs);
    case EACCES: /* a member of the group has made it and not yet given it its mode */
        if (fs->grouped && tries < 5) {
            nanosleep(&(struct timespec){.tv_nsec = SNIB__MS}, NULL);
            return true;
        }
        return false;
    default:
        return false;
    }
}

static int cannot_open(const struct file_session *fs, const char *name, struct failure *why)
{
    int sys = errno;
    if (sys == ELOOP) {
        return snib__file_fail(why, SNIB_EUNSAFE, sys, "%.100s/%.200s is a symbolic link", fs->path,
                               name);
    }
    return snib__file_fail(why, snib__file_code_of(sys), sys, "cannot open %.100s/%.180s: %s",
                           fs->path, name, strerror(sys));
}

int snib__file_open_at(struct file_session *fs, const char *name, int flags, struct failure *why)
{
    if (file_tick() - fs->dir_tick > PATH_CHECK_NS) {
        int rc = snib__file_directory_check(fs, why);
        if (rc < 0) {
            return rc;
        }
    }
    int fd;
    int tries = 0;
    while ((fd = open_or_make(fs, name, flags)) < 0) {
        if (!worth_again(fs, flags, tries++)) {
            return cannot_open(fs, name, why);
        }
    }
    return fd;
}

/* ---- The cache -------------------------------------------------------------------------- */

static uint64_t hash_of(const char *name)
{
    uint64_t hash = 14695981039346656037ULL;
    for (; *name; name++) {
        hash = (hash ^ (unsigned char)*name) * 1099511628211ULL;
    }
    return hash;
}

static void close_file(struct lockfile *f)
{
    struct file_session *fs = f->session;
    if (fs->recent == f) {
        fs->recent = NULL;
    }
    snib__file_watch_set(f, NULL, 0);
    snib__file_timer(f, SNIB__NEVER);
    if (f->map) {
        munmap((void *)(uintptr_t)f->map, FILE_BYTES);
    }
    close(f->fd);
    fs->file_count--;
    free(f);
}

static void leave_list(struct lockfile **head, struct lockfile *f)
{
    while (*head != f) {
        head = &(*head)->next_hash;
    }
    *head = f->next_hash;
}

static void leave_cache(struct lockfile *f)
{
    struct file_session *fs = f->session;
    *(f->newer ? &f->newer->older : &fs->newest) = f->older;
    *(f->older ? &f->older->newer : &fs->oldest) = f->newer;
    f->newer = f->older = NULL;
}

static void enter_cache(struct lockfile *f)
{
    struct file_session *fs = f->session;
    f->older = fs->newest;
    *(fs->newest ? &fs->newest->newer : &fs->oldest) = f;
    fs->newest = f;
}

/* The file that has been idle for longest, or nearly so: one that was used since we last came by
 * gets a second chance, which spares the acquire any sorting. */
bool snib__file_evict_idle(struct file_session *fs)
{
    while (fs->idle > 0) {
        struct lockfile *f = fs->oldest;
        leave_cache(f);
        if (f->claims == 0 && !f->touched) {
            fs->idle--;
            leave_list(&fs->files[f->hash % FILE_BUCKETS], f);
            close_file(f);
            return true;
        }
        f->touched = false;
        enter_cache(f);
    }
    return false;
}

void snib__file_put_away(struct lockfile *f)
{
    struct file_session *fs = f->session;
    if (f->replaced) {
        leave_list(&fs->strays, f);
        close_file(f);
        return;
    }
    if (f->watch_count) {
        snib__file_watch_set(f, NULL, 0);
    }
    if (f->timer_index) {
        snib__file_timer(f, SNIB__NEVER);
    }
    f->touched = true;
    if (++fs->idle > CACHE_MAX) {
        snib__file_evict_idle(fs);
    }
}

void snib__file_stray(struct lockfile *f)
{
    struct file_session *fs = f->session;
    assert(f->claims > 0);
    if (f->replaced) {
        return;
    }
    f->replaced = true;
    if (fs->recent == f) {
        fs->recent = NULL;
    }
    leave_cache(f);
    leave_list(&fs->files[f->hash % FILE_BUCKETS], f);
    f->next_hash = fs->strays;
    fs->strays = f;
}

static struct lockfile *open_new(struct file_session *fs, const char *name, uint64_t hash,
                                 struct failure *why)
{
    size_t size = strlen(name) + 1;
    struct lockfile *f = calloc(1, sizeof *f + size);
    if (!f || !snib__file_timer_room(fs, fs->file_count + 1)) {
        free(f);
        snib__file_fail(why, SNIB_ENOMEM, ENOMEM, "out of memory");
        return NULL;
    }
    memcpy(f->name, name, size);
    snib__file_encode(f->file_name, name);
    f->fd = snib__file_open_at(fs, f->file_name, O_RDWR | O_CREAT, why);
    if (f->fd < 0) {
        free(f);
        return NULL;
    }
    fs->file_count++;
    f->session = fs;
    f->path_tick = file_tick();
    f->due_ns = SNIB__NEVER;
    f->hash = hash;
    f->next_hash = fs->files[hash % FILE_BUCKETS];
    fs->files[hash % FILE_BUCKETS] = f;
    fs->idle++;
    enter_cache(f);
    return f;
}

struct lockfile *snib__file_find(struct file_session *fs, const char *name, struct failure *why)
{
    if (fs->recent && strcmp(fs->recent->name, name) == 0) {
        return fs->recent;
    }
    uint64_t hash = hash_of(name);
    struct lockfile *f = fs->files[hash % FILE_BUCKETS];
    while (f && (f->hash != hash || strcmp(f->name, name) != 0)) {
        f = f->next_hash;
    }
    if (!f) {
        f = open_new(fs, name, hash, why);
    }
    fs->recent = f;
    return f;
}

void snib__file_close_all(struct file_session *fs)
{
    for (size_t i = 0; i <= FILE_BUCKETS; i++) {
        struct lockfile **head = i < FILE_BUCKETS ? &fs->files[i] : &fs->strays;
        while (*head) {
            struct lockfile *f = *head;
            *head = f->next_hash;
            close_file(f);
        }
    }
    fs->newest = fs->oldest = NULL;
    fs->idle = 0;
}

/* ---- Looking ---------------------------------------------------------------------------- */

/* Not fstat: whoever asks for the times of a file makes the next write to it stamp it anew, and
 * that costs more than the write. */
static bool ask(int dir, const char *name, int flags, struct statx *out)
{
    const unsigned wanted =
        STATX_TYPE | STATX_MODE | STATX_NLINK | STATX_UID | STATX_GID | STATX_INO | STATX_SIZE;
    return statx(dir, name, flags, wanted, out) == 0;
}

bool snib__file_leads_here(struct lockfile *f)
{
    struct file_session *fs = f->session;
    int64_t tick = file_tick();
    struct statx at;
    struct failure ignored; /* whoever opens the file next meets the cause */
    if (!ask(fs->dir, f->file_name, AT_SYMLINK_NOFOLLOW, &at) || at.stx_ino != f->ino ||
        makedev(at.stx_dev_major, at.stx_dev_minor) != f->dev) {
        return false;
    }
    if (tick - fs->dir_tick > PATH_CHECK_NS && snib__file_directory_check(fs, &ignored) != 0) {
        return false;
    }
    f->path_tick = tick;
    return true;
}

/* May it be trusted at all? Asked once, of what was opened. */
static bool get_to_know(struct lockfile *f, const struct statx *st, struct failure *why)
{
    f->ino = st->stx_ino;
    f->dev = makedev(st->stx_dev_major, st->stx_dev_minor);
    f->known = snib__file_trust(f->session, f->file_name, st, why) == 0;
    return f->known;
}

static void map(struct lockfile *f)
{
    void *page = mmap(NULL, FILE_BYTES, PROT_READ, MAP_SHARED, f->fd, 0);
    f->map = page == MAP_FAILED ? NULL : page;
}

/* Looking costs as much as locking. Who comes back within a tick of the coarse clock, a few
 * milliseconds, only sees to it that the map may be touched. */
static bool looked_just_now(const struct lockfile *f, int64_t tick)
{
    return f->map && f->look_tick == tick && !f->replaced &&
           lseek(f->fd, 0, SEEK_END) >= FILE_BYTES;
}

enum presence snib__file_presence(struct lockfile *f, int64_t tick, struct failure *why)
{
    struct statx st;
    if (looked_just_now(f, tick)) {
        return PRESENT;
    }
    f->look_tick = INT64_MIN / 2;
    if (f->replaced || !ask(f->fd, "", AT_EMPTY_PATH, &st) || st.stx_nlink == 0) {
        return REPLACED;
    }
    bool first = !f->known;
    if (first && !get_to_know(f, &st, why)) {
        return REFUSED;
    }
    if (tick - f->path_tick > PATH_CHECK_NS && !snib__file_leads_here(f)) {
        return REPLACED;
    }
    if (st.stx_size < FILE_BYTES) {
        return SHRUNK;
    }
    if (!first && !f->map && !f->session->network) {
        map(f); /* it is used again: worth it */
    }
    f->look_tick = tick;
    return PRESENT;
}

enum presence snib__file_presence_fully(struct lockfile *f, struct failure *why)
{
    f->path_tick = f->look_tick = INT64_MIN / 2;
    return snib__file_presence(f, file_tick(), why);
}

bool snib__file_front(struct lockfile *f, struct front *out)
{
    ssize_t n;
    do {
        n = pread(f->fd, out, sizeof *out, 0);
    } while (n < 0 && errno == EINTR);
    return n == (ssize_t)sizeof *out;
}

/* The map of a file that was cut to nothing must not be touched. Whoever has had the lock until
 * now, and not for long, has written to the file since the last look at it. */
uint32_t snib__file_waiting(struct lockfile *f, bool had_it)
{
    uint32_t waiting = 1; /* if it cannot be read: somebody may */
    bool long_enough = f->map && ((had_it && f->look_tick == file_tick()) ||
                                  lseek(f->fd, 0, SEEK_END) >= FILE_BYTES);
    if (long_enough) {
        waiting = __atomic_load_n(&f->map->header.words.waiting, __ATOMIC_ACQUIRE);
    } else {
        ssize_t n;
        do {
            n = pread(f->fd, &waiting, sizeof waiting, offsetof(struct header, words.waiting));
        } while (n < 0 && errno == EINTR);
    }
    f->crowded = waiting != 0;
    return waiting;
}

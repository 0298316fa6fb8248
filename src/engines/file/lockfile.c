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
 * that a full disk is an error and not a SIGBUS. A file that somebody else cuts would make reading
 * one, so the map is touched only directly after the size was asked for, which is cheaper than
 * reading. That leaves a moment between the two: so nothing is mapped where others can cut the
 * file, which is in a directory shared by a group. Elsewhere only its owner and root can.
 */
#include "engines/file/lockfile.h"

#include "base/hash.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <time.h>
#include <unistd.h>

/* ---- Kernel locks ----------------------------------------------------------------------- */

/* Cutting a range in two needs memory in the kernel, so even this can fail. Then nobody may use
 * this descriptor again, and closing it, when the last of us leaves, unlocks everything. */
void snib__file_lockfile_unlock(struct lockfile *f, off_t start, off_t length)
{
    for (int tries = 0; tries < 100; tries++) {
        if (snib__file_lock_range(f->fd, F_UNLCK, start, length) == 0) {
            return;
        }
    }
    snib__file_lockfile_stray(f);
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

/* ---- The cache -------------------------------------------------------------------------- */

static void discard(struct lockfile *f)
{
    if (f->map) {
        munmap((void *)(uintptr_t)f->map, FILE_BYTES);
    }
    close(f->fd);
    free(f);
}

static void close_file(struct lockfile *f)
{
    if (f->cache->recent == f) {
        f->cache->recent = NULL;
    }
    snib__list_remove(&f->in);
    if (!f->replaced) {
        snib__table_remove(&f->cache->files, &f->entry);
    }
    discard(f);
}

/* The file that has been idle for longest, or nearly so: one that was used since we last came by
 * gets a second chance, which spares the acquire any sorting. False: there is none. */
static bool close_idle(struct cache *cache)
{
    while (cache->idle > 0) {
        struct lockfile *f = SNIB__OF(cache->order.after, struct lockfile, in);
        if (f->uses == 0 && !f->touched) {
            cache->idle--;
            close_file(f);
            return true;
        }
        f->touched = false;
        snib__list_remove(&f->in);
        snib__list_append(&cache->order, &f->in);
    }
    return false;
}

/* ---- Opening ---------------------------------------------------------------------------- */

int snib__file_lockfile_trust(const struct directory *d, const char *name, const struct statx *st,
                              struct failure *why)
{
    if (!S_ISREG(st->stx_mode)) {
        return snib__file_fail(why, SNIB_EUNSAFE, 0, "%.100s/%.200s is not a regular file", d->path,
                               name);
    }
    if (st->stx_nlink > 1) {
        return snib__file_fail(why, SNIB_EUNSAFE, 0, "%.100s/%.200s has %u links, must have one",
                               d->path, name, st->stx_nlink);
    }
    bool ours = d->grouped ? st->stx_gid == d->group && !(st->stx_mode & S_IWOTH)
                           : st->stx_uid == 0 || st->stx_uid == d->user;
    if (!ours) {
        return snib__file_fail(why, SNIB_EUNSAFE, 0,
                               "%.100s/%.160s belongs to user id %u, group %u, mode %04o, and is "
                               "not to be trusted here",
                               d->path, name, st->stx_uid, st->stx_gid,
                               (unsigned)(st->stx_mode & 07777));
    }
    return 0;
}

/* Give it the group and the mode whatever the umask says. */
static int share(const struct directory *d, int fd)
{
    struct stat st;
    if (fstat(fd, &st) < 0 || (st.st_gid != d->group && fchown(fd, (uid_t)-1, d->group) < 0) ||
        fchmod(fd, 0660) < 0) {
        return -1;
    }
    return 0;
}

/* A file that a group shares gets its mode before it gets its name: whoever is killed in between
 * leaves nothing behind. -1 and errno; ENOTSUP: this file system cannot. */
static int make_nameless(const struct directory *d, const char *name)
{
    char path[40];
    int fd = openat(d->fd, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (fd < 0) {
        bool strange = errno == EOPNOTSUPP || errno == EISDIR || errno == ENOENT || errno == EINVAL;
        errno = strange ? ENOTSUP : errno;
        return -1;
    }
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    int rc = share(d, fd);
    if (rc == 0 && linkat(AT_FDCWD, path, d->fd, name, AT_SYMLINK_FOLLOW) < 0) {
        rc = -1;
        errno = errno == ENOENT ? ENOTSUP : errno; /* no /proc here */
    }
    if (rc < 0) {
        int sys = errno;
        close(fd);
        errno = sys;
        return -1;
    }
    return fd;
}

/* The name first, then the mode; others may find it a moment earlier. */
static int make_named(const struct directory *d, const char *name)
{
    int flags = O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY;
    int fd = openat(d->fd, name, flags, d->grouped ? 0660 : 0600);
    if (fd >= 0 && d->grouped && share(d, fd) < 0) {
        int sys = errno;
        close(fd);
        errno = sys;
        return -1;
    }
    return fd;
}

/* First without O_CREAT, which protected_regular=2 refuses for the files of others in a sticky
 * directory. -1 and errno: EEXIST and ENOENT mean that it just came or went. */
static int open_or_make(const struct directory *d, const char *name, int flags)
{
    int common = O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY;
    int fd = openat(d->fd, name, (flags & ~O_CREAT) | common);
    if (fd >= 0 || errno != ENOENT || !(flags & O_CREAT)) {
        return fd;
    }
    if (d->grouped) {
        fd = make_nameless(d, name);
        if (fd >= 0 || errno != ENOTSUP) {
            return fd;
        }
    }
    return make_named(d, name);
}

static bool worth_again(struct cache *cache, int flags, int tries)
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
        return close_idle(cache);
    case EACCES: /* a member of the group has made it and not yet given it its mode */
        if (cache->directory->grouped && tries < 5) {
            nanosleep(&(struct timespec){.tv_nsec = SNIB__MS}, NULL);
            return true;
        }
        return false;
    default:
        return false;
    }
}

static int cannot_open(const struct directory *d, const char *name, struct failure *why)
{
    int sys = errno;
    if (sys == ELOOP) {
        return snib__file_fail(why, SNIB_EUNSAFE, sys, "%.100s/%.200s is a symbolic link", d->path,
                               name);
    }
    return snib__file_fail(why, snib__file_failure_code(sys), sys,
                           "cannot open %.100s/%.180s: %s%s", d->path, name, strerror(sys),
                           sys == EACCES ? "; for locks of several users: ?group=GROUP" : "");
}

int snib__file_lockfile_open(struct cache *cache, const char *name, int flags, struct failure *why)
{
    struct directory *d = cache->directory;
    if (file_tick() - d->tick > PATH_CHECK_NS) {
        int rc = snib__file_directory_check(d, why);
        if (rc < 0) {
            return rc;
        }
    }
    int fd;
    int tries = 0;
    while ((fd = open_or_make(d, name, flags)) < 0) {
        if (!worth_again(cache, flags, tries++)) {
            return cannot_open(d, name, why);
        }
    }
    return fd;
}

/* ---- Finding ---------------------------------------------------------------------------- */

void snib__file_lockfile_rest(struct lockfile *f)
{
    if (f->replaced) {
        close_file(f);
        return;
    }
    f->touched = true;
    if (++f->cache->idle > CACHE_MAX) {
        close_idle(f->cache);
    }
}

void snib__file_lockfile_stray(struct lockfile *f)
{
    struct cache *cache = f->cache;
    assert(f->uses > 0);
    if (f->replaced) {
        return;
    }
    f->replaced = true;
    if (cache->recent == f) {
        cache->recent = NULL;
    }
    snib__list_remove(&f->in);
    snib__table_remove(&cache->files, &f->entry);
    snib__list_append(&cache->strays, &f->in);
}

static struct lockfile *open_new(struct cache *cache, const char *name, uint64_t hash,
                                 struct failure *why)
{
    size_t size = strlen(name) + 1;
    struct lockfile *f = calloc(1, cache->bytes + size);
    if (!f || !snib__table_add(&cache->files, &f->entry, hash)) {
        free(f);
        snib__file_fail_memory(why);
        return NULL;
    }
    snib__file_name_encode(f->file_name, name);
    f->fd = snib__file_lockfile_open(cache, f->file_name, O_RDWR | O_CREAT, why);
    if (f->fd < 0) {
        snib__table_remove(&cache->files, &f->entry);
        free(f);
        return NULL;
    }
    f->cache = cache;
    f->name = memcpy((char *)f + cache->bytes, name, size);
    f->path_tick = file_tick();
    snib__list_append(&cache->order, &f->in);
    cache->idle++;
    return f;
}

struct lockfile *snib__file_cache_find(struct cache *cache, const char *name, struct failure *why)
{
    if (cache->recent && strcmp(cache->recent->name, name) == 0) {
        return cache->recent;
    }
    uint64_t hash = snib__hash_text(name);
    struct lockfile *f = NULL;
    struct snib__entry *e = snib__table_first(&cache->files, hash);
    for (; e && !f; e = snib__entry_next(e)) {
        struct lockfile *candidate = SNIB__OF(e, struct lockfile, entry);
        f = strcmp(candidate->name, name) == 0 ? candidate : NULL;
    }
    if (!f) {
        f = open_new(cache, name, hash, why);
    }
    cache->recent = f;
    return f;
}

struct lockfile *snib__file_cache_next(const struct cache *cache, const struct lockfile *f)
{
    const struct snib__list *stray = f && f->replaced ? f->in.after : cache->strays.after;
    if (!f || !f->replaced) {
        struct snib__entry *e = snib__table_next(&cache->files, f ? &f->entry : NULL);
        if (e) {
            return SNIB__OF(e, struct lockfile, entry);
        }
    }
    return stray == &cache->strays ? NULL : SNIB__OF(stray, struct lockfile, in);
}

void snib__file_cache_init(struct cache *cache, struct directory *directory, size_t bytes)
{
    cache->directory = directory;
    cache->bytes = bytes;
    snib__list_init(&cache->order);
    snib__list_init(&cache->strays);
}

void snib__file_cache_close(struct cache *cache)
{
    struct snib__list *const lists[] = {&cache->order, &cache->strays};
    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++) {
        struct snib__list *next;
        for (struct snib__list *in = lists[i]->after; in != lists[i]; in = next) {
            next = in->after;
            discard(SNIB__OF(in, struct lockfile, in));
        }
        snib__list_init(lists[i]);
    }
    snib__table_free(&cache->files);
    cache->recent = NULL;
    cache->idle = 0;
}

/* ---- Checking --------------------------------------------------------------------------- */

/* Not fstat: whoever asks for the times of a file makes the next write to it stamp it anew, and
 * that costs more than the write. */
static bool ask(int dir, const char *name, int flags, struct statx *out)
{
    const unsigned wanted =
        STATX_TYPE | STATX_MODE | STATX_NLINK | STATX_UID | STATX_GID | STATX_INO | STATX_SIZE;
    return statx(dir, name, flags, wanted, out) == 0;
}

bool snib__file_lockfile_follow(struct lockfile *f)
{
    struct directory *d = f->cache->directory;
    int64_t tick = file_tick();
    struct statx at;
    struct failure ignored; /* whoever opens the file next meets the cause */
    if (!ask(d->fd, f->file_name, AT_SYMLINK_NOFOLLOW, &at) || at.stx_ino != f->ino ||
        makedev(at.stx_dev_major, at.stx_dev_minor) != f->dev) {
        return false;
    }
    if (tick - d->tick > PATH_CHECK_NS && snib__file_directory_check(d, &ignored) != 0) {
        return false;
    }
    f->path_tick = tick;
    return true;
}

/* Somebody of ours was killed before the file had its mode, or somebody took it away: the group
 * is shut out until its owner comes by. If this does not help, trusting it will say why. */
static void repair(const struct lockfile *f, struct statx *st)
{
    const struct directory *d = f->cache->directory;
    bool shared = st->stx_gid == d->group && (st->stx_mode & 0666) == 0660;
    if (d->grouped && !shared && st->stx_uid == d->user && S_ISREG(st->stx_mode) &&
        st->stx_nlink == 1 && share(d, f->fd) == 0) {
        (void)ask(f->fd, "", AT_EMPTY_PATH, st);
    }
}

/* May it be trusted at all? Asked once, of what was opened. */
static bool get_to_know(struct lockfile *f, struct statx *st, struct failure *why)
{
    repair(f, st);
    f->ino = st->stx_ino;
    f->dev = makedev(st->stx_dev_major, st->stx_dev_minor);
    f->known = snib__file_lockfile_trust(f->cache->directory, f->file_name, st, why) == 0;
    return f->known;
}

static void map(struct lockfile *f)
{
    void *page = mmap(NULL, FILE_BYTES, PROT_READ, MAP_SHARED, f->fd, 0);
    f->map = page == MAP_FAILED ? NULL : page;
}

/* Must be asked directly before the map is touched. */
static bool map_is_there(const struct lockfile *f)
{
    return lseek(f->fd, 0, SEEK_END) >= FILE_BYTES;
}

static bool may_map(const struct lockfile *f)
{
    const struct directory *d = f->cache->directory;
    return !d->network && !d->grouped;
}

/* Checking costs as much as locking. Who comes back within a tick of the coarse clock, a few
 * milliseconds, only sees to it that the map may be touched. */
static bool checked_just_now(const struct lockfile *f, int64_t tick)
{
    return f->check_tick == tick && !f->replaced &&
           (f->map ? map_is_there(f) : f->cache->directory->grouped);
}

enum presence snib__file_lockfile_check(struct lockfile *f, int64_t tick, struct failure *why)
{
    struct statx st;
    if (checked_just_now(f, tick)) {
        return PRESENT;
    }
    f->check_tick = INT64_MIN / 2;
    if (f->replaced || !ask(f->fd, "", AT_EMPTY_PATH, &st) || st.stx_nlink == 0) {
        return REPLACED;
    }
    bool first = !f->known;
    if (first && !get_to_know(f, &st, why)) {
        return REFUSED;
    }
    if (tick - f->path_tick > PATH_CHECK_NS && !snib__file_lockfile_follow(f)) {
        return REPLACED;
    }
    if (st.stx_size < FILE_BYTES) {
        return SHRUNK;
    }
    if (!first && !f->map && may_map(f)) {
        map(f); /* it is used again: worth it */
    }
    f->check_tick = tick;
    return PRESENT;
}

enum presence snib__file_lockfile_check_fully(struct lockfile *f, struct failure *why)
{
    f->path_tick = f->check_tick = INT64_MIN / 2;
    return snib__file_lockfile_check(f, file_tick(), why);
}

/* ---- Reading and writing ---------------------------------------------------------------- */

static bool read_at(const struct lockfile *f, void *out, size_t size, off_t at)
{
    ssize_t n;
    do {
        n = pread(f->fd, out, size, at);
    } while (n < 0 && errno == EINTR);
    return n == (ssize_t)size;
}

bool snib__file_lockfile_read(const struct lockfile *f, struct front *out)
{
    return read_at(f, out, sizeof *out, 0);
}

bool snib__file_lockfile_read_record(const struct lockfile *f, uint32_t index, struct record *out)
{
    return read_at(f, out, sizeof *out, record_at(index));
}

size_t snib__file_lockfile_read_page(const struct lockfile *f, bool looked, void *out)
{
    if (f->map && (looked || map_is_there(f))) {
        memcpy(out, f->map, FILE_BYTES);
        return FILE_BYTES;
    }
    size_t got = 0;
    while (got < FILE_BYTES) {
        ssize_t n = pread(f->fd, (char *)out + got, FILE_BYTES - got, (off_t)got);
        if (n == 0 || (n < 0 && errno != EINTR)) {
            break;
        }
        got += n < 0 ? 0 : (size_t)n;
    }
    return got;
}

/* The number in the header is too high when somebody left without the gate. A waiter writes its
 * record first, then the number, and tries then: so who sees no record is not waited for. */
uint32_t snib__file_lockfile_count(const struct front *page)
{
    const struct record *records = &page->holder;
    uint32_t waiting = __atomic_load_n(&page->header.words.waiting, __ATOMIC_ACQUIRE);
    uint32_t high = page->header.words.high;
    if (waiting == 0 || high > PAGE_RECORDS) {
        return waiting;
    }
    waiting = 0;
    for (uint32_t i = 1; i < high; i++) {
        uint32_t state = __atomic_load_n(&records[i].state, __ATOMIC_ACQUIRE);
        waiting += state == RECORD_WAITING ? 1 : 0;
    }
    return waiting;
}

uint32_t snib__file_lockfile_waiting(struct lockfile *f, bool *looked)
{
    uint32_t waiting = 1; /* if it cannot be read: somebody may */
    *looked = f->map && map_is_there(f);
    if (*looked) {
        waiting = snib__file_lockfile_count(f->map);
    } else {
        (void)read_at(f, &waiting, sizeof waiting, offsetof(struct header, words.waiting));
    }
    f->crowded = waiting != 0;
    return waiting;
}

int snib__file_lockfile_write(const struct lockfile *f, const void *bytes, size_t size, off_t at)
{
    ssize_t n;
    do {
        n = pwrite(f->fd, bytes, size, at);
    } while (n < 0 && errno == EINTR);
    return n == (ssize_t)size ? 0 : n < 0 ? errno : ENOSPC;
}

int snib__file_lockfile_cannot(const struct lockfile *f, const char *what, int sys,
                               struct failure *why)
{
    return snib__file_fail(why, snib__file_failure_code(sys), sys, "cannot %s %.100s/%.180s: %s",
                           what, f->cache->directory->path, f->file_name, strerror(sys));
}

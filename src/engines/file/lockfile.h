/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_FILE_LOCKFILE_H
#define SNIB_FILE_LOCKFILE_H

#include "base/list.h"
#include "base/table.h"
#include "engines/file/directory.h"
#include "engines/file/layout.h"
#include "engines/file/names.h"
#include "engines/file/tick.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#define CACHE_MAX 64 /* idle lock files kept open */

struct lockfile;

/* The open lock files of a session. Those that nobody uses stay open for a while. */
struct cache {
    struct directory *directory;
    size_t bytes; /* of what a lockfile is the first member of */
    struct lockfile *recent;
    struct snib__table files;
    struct snib__list order;  /* of those in the table, the oldest first */
    struct snib__list strays; /* replaced, still used */
    size_t idle;
};

/* One open lock file. */
struct lockfile {
    struct cache *cache;
    int fd;
    unsigned uses; /* 0: idle */
    dev_t dev;
    ino_t ino;
    const struct front *map; /* of the first page; NULL: on first use, or it is read instead */
    bool known;              /* checked, and read once */
    bool replaced;           /* the name leads elsewhere now; only those already here use it */
    bool touched;            /* used since the cache last came by */
    bool crowded;            /* others waited when that was last read */
    int64_t check_tick;      /* coarse clock when the file itself was last checked, */
    int64_t path_tick;       /* and whether the name leads here */
    struct snib__entry entry;
    struct snib__list in; /* the cache's order, or its strays */
    char *name;
    char file_name[FILE_NAME_BYTES];
};

/* ---- Kernel locks ----------------------------------------------------------------------- */

/* 0, EAGAIN when somebody else is in the way, or another errno. */
static inline int snib__file_lock_range(int fd, short type, off_t start, off_t length)
{
    struct flock lock = {.l_type = type, .l_whence = SEEK_SET, .l_start = start, .l_len = length};
    while (fcntl(fd, F_OFD_SETLK, &lock) < 0) {
        if (errno != EINTR) {
            return errno == EACCES ? EAGAIN : errno;
        }
    }
    return 0;
}

void snib__file_lockfile_unlock(struct lockfile *, off_t start, off_t length);
/* Would somebody else be in the way? `*found` is one of them. */
bool snib__file_blocked(int fd, short type, off_t start, off_t length, struct flock *found);

/* ---- Opening ---------------------------------------------------------------------------- */

/* A descriptor, or a code. Nothing is known of the file yet: snib__file_lockfile_trust. */
int snib__file_lockfile_open(struct cache *, const char *file_name, int flags, struct failure *);
int snib__file_lockfile_trust(const struct directory *, const char *file_name, const struct statx *,
                              struct failure *);

void snib__file_cache_init(struct cache *, struct directory *, size_t bytes);
void snib__file_cache_close(struct cache *);
/* The lock file of that name, opened or made if need be. */
struct lockfile *snib__file_cache_find(struct cache *, const char *name, struct failure *);
/* All of them, strays too; NULL gives the first. */
struct lockfile *snib__file_cache_next(const struct cache *, const struct lockfile *);

void snib__file_lockfile_rest(struct lockfile *);  /* nobody uses it now */
void snib__file_lockfile_stray(struct lockfile *); /* newcomers must not find it any more */

static inline void snib__file_lockfile_use(struct lockfile *f)
{
    if (f->uses++ == 0) {
        f->cache->idle--;
    }
}

static inline void snib__file_lockfile_unuse(struct lockfile *f)
{
    if (--f->uses == 0) {
        snib__file_lockfile_rest(f);
    }
}

/* ---- Checking and reading --------------------------------------------------------------- */

enum presence { PRESENT, SHRUNK, REPLACED, REFUSED };
/* Is what we have open still what the name leads to, and may it be trusted? PRESENT: the map, if
 * there is one, may be touched now. REFUSED: see `why`. */
enum presence snib__file_lockfile_check(struct lockfile *, int64_t tick, struct failure *why);
/* The same, whenever it was last checked. */
enum presence snib__file_lockfile_check_fully(struct lockfile *, struct failure *why);
bool snib__file_lockfile_follow(struct lockfile *); /* does the name still lead here? */

bool snib__file_lockfile_read(const struct lockfile *, struct front *out); /* false: it cannot be */
bool snib__file_lockfile_read_record(const struct lockfile *, uint32_t index, struct record *out);
/* The first FILE_BYTES, by the map where there is one; answers how many bytes there were. `looked`:
 * a check said PRESENT in the same breath. */
size_t snib__file_lockfile_read_page(const struct lockfile *, bool looked, void *out);
/* How many wait; at least. Of a whole page, then as it is in the file now. */
uint32_t snib__file_lockfile_count(const struct front *page);
uint32_t snib__file_lockfile_waiting(struct lockfile *, bool *looked);
int snib__file_lockfile_write(const struct lockfile *, const void *, size_t, off_t at); /* errno */

/* "cannot WHAT the file: ..."; answers the code. */
int snib__file_lockfile_cannot(const struct lockfile *, const char *what, int sys,
                               struct failure *);

#endif

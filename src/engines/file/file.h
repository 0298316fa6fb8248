/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_FILE_H
#define SNIB_FILE_H

/*
 * The file engine's own structures. Safety is argued in file.c, the bytes are in layout.h.
 *
 *   file_session   a directory, the open lock files, a bell, the processes watched, the timers
 *   lockfile       one open lock file; all kernel locks of this session on that name are on its
 *                  one descriptor, so who of us has what is kept here: the kernel would grant us
 *                  what we already have
 *   file_claim     one claim, from its attempt to its end
 *   view           the queue as seen from inside the gate
 */

#include "engines/engine.h"
#include "engines/file/layout.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#define FILE_NAME_BYTES 256

#define MOVES_MAX 5 /* from file to file, for one claim */

/* Why something was refused. */
struct failure {
    int code, sys;
    char text[400];
};

int snib__file_fail(struct failure *, int code, int sys, const char *format, ...)
    __attribute__((format(printf, 4, 5), cold));
int snib__file_code_of(int sys); /* EDENIED, ENOMEM or ESYS */

/* ---- Claim ------------------------------------------------------------------------------ */

enum phase {
    PHASE_NONE,     /* not attempted, or answered BUSY or FAILED */
    PHASE_JOINING,  /* wants through the gate */
    PHASE_WAITING,  /* has a record in the queue */
    PHASE_FLOCKING, /* has the slot; somebody outside snib has flock on the path */
    PHASE_HELD
};

struct watch;
struct lockfile;

struct file_claim {
    struct snib__claim *claim;
    struct lockfile *file;
    enum phase phase;
    bool named;      /* found by its cookie */
    bool attends;    /* counted in session->attend */
    bool published;  /* its record says that it listens */
    bool told;       /* answered QUEUED since the attempt */
    uint32_t record; /* its record; 0: none, or record 0 of an exclusive holder */
    uint32_t permit; /* of a counted holder */
    uint32_t nonce;  /* in the length of its slot lock */
    uint64_t ticket, token, cookie;
    int64_t since_ms;                  /* wall clock: of waiting, then of holding */
    int64_t give_up_ns;                /* a try that cannot get through the gate ends then */
    int moves;                         /* from files that were replaced */
    struct file_claim *before, *after; /* in one of the lists of its file */
    struct file_claim *next_cookie;

    /* What the pump decided about it, said after the gate is open again. */
    int outcome; /* enum snib__status, or -1 */
    int place;
    struct failure *failure;

    /* A path: flock is on path_fd (-1: not yet), or who has it is waited for. */
    int path_fd;
    dev_t path_dev;
    ino_t path_ino;
    int64_t path_pause_ms, path_due_ns;
    struct watch *path_watch;
};

struct claim_list {
    struct file_claim *first, *last;
};

/* ---- Lock file -------------------------------------------------------------------------- */

#define WATCHES_MAX 64

struct lockfile {
    struct file_session *session;
    int fd;
    dev_t dev;
    ino_t ino;
    const struct front *map; /* of the first page; NULL on first use and on network file systems */
    bool known;              /* checked, and read once */
    bool replaced;           /* the name leads elsewhere now; only those already here use it */
    bool crowded;            /* others waited when we last looked */
    int64_t look_tick;       /* coarse clock at the last look at the file, */
    int64_t path_tick;       /* and whether the name leads here */

    /* Ours. */
    unsigned claims; /* all of them; 0: idle, in the cache */
    struct file_claim *exclusive;
    unsigned shared; /* claims under our one read lock */
    struct claim_list joining, waiting, flocking;
    struct claim_list holding; /* shared and counted */
    uint64_t own_records[RECORDS_MAX / 64];
    uint64_t own_permits[(PERMITS_MAX + 63) / 64];

    /* Waiting. */
    int64_t check_ns;   /* when to look again, */
    int64_t check_ms;   /* and how long after the last look that is */
    int64_t due_ns;     /* of its timer; SNIB__NEVER: none */
    size_t timer_index; /* in the session's heap, from 1; 0: none */
    bool poked;         /* rung, or somebody died: go through the gate, do not just look */
    bool bereaved;      /* somebody we watched died: if he left it to somebody, look soon */
    int gate_misses;    /* in a row */
    bool missed;        /* the last pass did not get in */
    struct watch *watches[WATCHES_MAX];
    size_t watch_count;

    struct lockfile *next_hash, *older, *newer;
    bool touched; /* used since the cache last looked */
    uint64_t hash;
    char file_name[FILE_NAME_BYTES];
    char name[];
};

/* ---- Session ---------------------------------------------------------------------------- */

#define FILE_BUCKETS 256
#define COOKIE_BUCKETS 256
#define CACHE_MAX 64 /* idle lock files kept open */

/* An eviction under way. */
struct file_query {
    struct snib__query *query;
    struct file_query *next;
    int64_t due_ns;
};

struct file_session {
    struct snib__session *session;
    bool opened;

    /* directory.c */
    char *path;
    int dir;
    dev_t dir_dev;
    ino_t dir_ino;
    int64_t dir_tick;
    uid_t user; /* ours, effective */
    bool grouped;
    gid_t group;
    const char *group_name;
    bool network;

    bool in_gate;
    struct record self;       /* what all records of this session have in common, */
    struct record draft;      /* and one of them */
    struct snib__result held; /* an answer, likewise */
    uint64_t number;          /* of claims: random at first, then counted */

    /* lockfile.c */
    struct lockfile *recent;
    struct lockfile *files[FILE_BUCKETS];
    struct lockfile *strays; /* replaced, still used */
    struct lockfile *newest, *oldest;
    size_t idle, file_count;

    /* reactor.c */
    int epoll, kick;
    int64_t sleeping_until; /* while a thread sleeps in drive, else INT64_MIN */
    struct lockfile **heap; /* from 1 */
    size_t heap_used, heap_room;
    struct watch *watches;
    size_t watches_idle;

    /* bell.c */
    int bell;
    struct file_claim *cookies[COOKIE_BUCKETS];

    /* evict.c */
    struct file_query *queries; /* evictions under way */
    int64_t evict_ns;           /* when to look at them again */

    /* view.c: room for a queue */
    struct record *records;
    size_t record_room;
};

static inline struct file_session *file_session_of(const struct snib__claim *claim)
{
    return claim->session->state;
}

/* ---- file.c: answers -------------------------------------------------------------------- */

void snib__file_granted(struct file_claim *); /* has the slot or a permit; flock comes next */
void snib__file_failed(struct file_claim *, const struct failure *); /* detaches it, too */
void snib__file_held(struct file_claim *);
void snib__file_start(struct file_claim *);  /* from the beginning */
void snib__file_detach(struct file_claim *); /* from file and tables; holds nothing by now */
void snib__file_list_add(struct claim_list *, struct file_claim *);
void snib__file_list_remove(struct claim_list *, struct file_claim *);

/* ---- directory.c ------------------------------------------------------------------------ */

int snib__file_directory_open(struct file_session *, struct failure *);
/* Does the path still lead to the directory we opened? 0: yes; 1: no, it was opened anew. */
int snib__file_directory_check(struct file_session *, struct failure *);
const char *snib__file_network_name(long magic); /* "NFS"; NULL: a local file system */

/* ---- names.c ---------------------------------------------------------------------------- */

void snib__file_encode(char out[FILE_NAME_BYTES], const char *name);
/* 0: `out` is the name; 1: the name is in the file's header; -1: not a lock file of ours. */
int snib__file_decode(char out[FILE_NAME_BYTES], const char *file_name);

/* ---- lockfile.c ------------------------------------------------------------------------- */

/* 0, EAGAIN when somebody else is in the way, or another errno. */
static inline int file_lock(int fd, short type, off_t start, off_t length)
{
    struct flock lock = {.l_type = type, .l_whence = SEEK_SET, .l_start = start, .l_len = length};
    while (fcntl(fd, F_OFD_SETLK, &lock) < 0) {
        if (errno != EINTR) {
            return errno == EACCES ? EAGAIN : errno;
        }
    }
    return 0;
}

void snib__file_unlock(struct lockfile *, off_t start, off_t length);
/* Would somebody else be in the way? `*found` is one of them. */
bool snib__file_blocked(int fd, short type, off_t start, off_t length, struct flock *found);

/* A coarse clock, nearly free. */
static inline int64_t file_tick(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    return (int64_t)now.tv_sec * 1000000000LL + now.tv_nsec;
}

struct lockfile *snib__file_find(struct file_session *, const char *name, struct failure *);
/* A descriptor, or a code. Nothing is known of the file yet: snib__file_trust. */
int snib__file_open_at(struct file_session *, const char *file_name, int flags, struct failure *);
int snib__file_trust(struct file_session *, const char *file_name, const struct statx *,
                     struct failure *);
void snib__file_put_away(struct lockfile *); /* idle: to the cache, or closed */

bool snib__file_evict_idle(struct file_session *);
void snib__file_stray(struct lockfile *); /* newcomers must not find it any more */
void snib__file_close_all(struct file_session *);

enum presence { PRESENT, SHRUNK, REPLACED, REFUSED };
/* Is what we have open still what the name leads to, and may it be trusted? PRESENT: the map, if
 * there is one, may be touched now. REFUSED: see `why`. */
enum presence snib__file_presence(struct lockfile *, int64_t tick, struct failure *why);
enum presence snib__file_presence_fully(struct lockfile *, struct failure *why); /* look again */

bool snib__file_leads_here(struct lockfile *);               /* the second half of it */
bool snib__file_front(struct lockfile *, struct front *out); /* read; false: it cannot be */
uint32_t snib__file_waiting(struct lockfile *, bool had_it); /* as the header says now */

/* ---- slot.c ----------------------------------------------------------------------------- */

enum taken { TAKEN, NOT_FREE, TAKE_FAILED, TAKE_REPLACED };

/* The uncontended exclusive acquire. NOT_FREE: go through the gate. */
enum taken snib__file_take_fast(struct file_claim *, struct failure *);
/* The slot, when it is this claim's turn. The record of a shared holder is the caller's work. */
enum taken snib__file_take_exclusive(struct file_claim *, struct failure *);
enum taken snib__file_take_shared(struct file_claim *, struct failure *);
void snib__file_drop_exclusive(struct file_claim *);
void snib__file_drop_shared(struct file_claim *);
bool snib__file_slot_open(struct lockfile *, int mode); /* could a claim of anybody go? */
/* What its record shall be; in the session's draft, until the next one. */
const struct record *snib__file_draft(const struct file_claim *, enum record_state);
uint64_t snib__file_next_token(uint64_t last, int64_t now_us);
/* Whose slot lock is this? Record 0 if the lock's length proves it, else NULL. */
const struct record *snib__file_proved(const struct record *holder, const struct flock *found);

/* ---- view.c ----------------------------------------------------------------------------- */

struct turn { /* somebody in the queue */
    uint64_t ticket;
    uint32_t record;        /* 0: ours and not yet written */
    struct file_claim *own; /* NULL: somebody else's */
    bool alive;             /* known to be */
    bool gone;              /* dead, granted or failed */
};

#define RINGS_MAX 32

struct ring {
    uint32_t pid;
    uint64_t session, cookie;
};

struct view {
    struct lockfile *file;
    struct front front;       /* header and record 0 as read; the words are as they shall be */
    struct gate_words before; /* the words as they are in the file */
    struct record *records;   /* [0, high) */
    struct turn *turns;       /* in the order of their tickets */
    size_t turn_count;
    uint64_t claimed[(PERMITS_MAX + 63) / 64]; /* permits somebody has, as far as known */
    bool swept;                                /* of permits of dead holders */
    struct ring rings[RINGS_MAX];
    size_t ring_count;
    size_t bytes;           /* there were, at most what was asked for */
    struct claim_list done; /* those of ours that have an outcome */
    bool replaced;          /* found while taking: this is not the file any more */
    bool let_go;            /* the slot was locked and unlocked again: look afterwards */
    bool waits_for_rung;    /* the one whose turn it is was rung, and has not come yet */
    bool blind;             /* somebody we wait for cannot be watched */
};

enum entered { ENTERED, GATE_BUSY, ENTER_FAILED, ENTER_REPLACED };

enum entered snib__file_enter(struct view *, struct lockfile *, struct failure *);
int snib__file_reload(struct view *, struct failure *);
bool snib__file_make_room(struct file_session *, size_t records);
int snib__file_write_words(struct view *); /* errno */
void snib__file_leave(struct view *);      /* writes what changed, opens the gate, rings */
bool snib__file_record_alive(struct view *, uint32_t index);
void snib__file_prune(struct view *, uint32_t index);
/* A free record with its alive byte locked; 0: none left. */
uint32_t snib__file_record_take(struct view *, struct failure *);
int snib__file_record_write(struct lockfile *, uint32_t index, const struct record *);
int snib__file_token_write(struct lockfile *, uint64_t token); /* of record 0 */
void snib__file_record_drop(struct lockfile *, uint32_t index);
void snib__file_ring_add(struct view *, uint32_t index);
void snib__file_mark_rung(struct lockfile *, uint32_t index, struct record *);
void snib__file_clear_rung(struct lockfile *, uint32_t index, struct record *);

/* ---- kind.c ----------------------------------------------------------------------------- */

bool snib__file_bind(struct view *, const struct file_claim *, struct failure *);

/* ---- grant.c ---------------------------------------------------------------------------- */

/* Give everybody of ours what it is their turn for; ring the others. */
void snib__file_walk(struct view *);
void snib__file_drop_permit(struct file_claim *);
void snib__file_conclude(struct view *, struct file_claim *, enum snib__status,
                         const struct failure *);
bool snib__file_turn_alive(struct view *, struct turn *);
bool snib__file_stalled(const struct record *);

/* ---- aim.c ------------------------------------------------------------------------------ */

/* Watch whom our waiters wait for. False: something has changed, walk again. */
bool snib__file_aim(struct view *);

/* ---- queue.c ---------------------------------------------------------------------------- */

/* Everybody of ours whose turn it is gets what they wait for; others are rung; the rest is
 * answered as far as it has not been, watches what it waits for, and has a timer. */
void snib__file_pump(struct lockfile *);
void snib__file_join(struct file_claim *);   /* into the queue, or refused */
void snib__file_check(struct lockfile *);    /* its timer fired: cheap unless something changed */
void snib__file_schedule(struct lockfile *); /* set its timer */
void snib__file_move_on(struct lockfile *);  /* replaced: those who wait go to the new file */

/* ---- leave.c ---------------------------------------------------------------------------- */

void snib__file_quit(struct file_claim *); /* out of the queue */
void snib__file_drop(struct file_claim *); /* what it holds, in reverse order; then look */
/* After letting go of anything: serve or ring who may have been waiting for it. */
void snib__file_look(struct lockfile *);
void snib__file_ring_behind(struct lockfile *, uint64_t ticket);

/* ---- reactor.c -------------------------------------------------------------------------- */

int snib__file_reactor_open(struct file_session *); /* idempotent; errno */
int snib__file_reactor_hear(struct file_session *, int bell);
void snib__file_reactor_close(struct file_session *);
bool snib__file_timer_room(struct file_session *, size_t files); /* call when a file is opened */
void snib__file_timer(struct lockfile *, int64_t due_ns);
void snib__file_poke(struct lockfile *);
void snib__file_drive(struct snib__session *, int64_t until_ns);
/* Wake the sleeping thread if it would sleep past that. */
void snib__file_kick(struct file_session *, int64_t due_ns);

/* A process to be told of when it ends. NULL: cannot be watched (*dead: it is no more). */
struct watch *snib__file_watch(struct file_session *, uint32_t pid, bool *fresh, bool *dead);
void snib__file_unwatch(struct file_session *, struct watch *);
void snib__file_watch_set(struct lockfile *, struct watch *const set[], size_t count);

/* ---- bell.c ----------------------------------------------------------------------------- */

int snib__file_bell_open(struct file_session *); /* idempotent; errno */
void snib__file_bell_hear(struct file_session *);
bool snib__file_ring(struct file_session *, const struct ring *); /* false: nobody there */
void snib__file_asked_to_quit(struct file_claim *, uint64_t token, const char *who);
/* False: nobody there. */
bool snib__file_ask_to_quit(struct file_session *, const struct record *, uint64_t token);
struct file_claim *snib__file_by_cookie(struct file_session *, uint64_t cookie);
void snib__file_cookie_add(struct file_claim *);
void snib__file_cookie_remove(struct file_claim *);

/* ---- path.c ----------------------------------------------------------------------------- */

static inline bool file_is_path(const char *name)
{
    return name[0] == '/';
}

enum flocked { FLOCKED, FLOCK_BUSY, FLOCK_FAILED };

/* Somebody outside snib who has flock on a file. */
struct flocker {
    uint32_t pid; /* 0: not known */
    int mode;
};

enum flocked snib__file_flock(struct file_claim *, struct failure *);
void snib__file_unflock(struct file_claim *);
bool snib__file_flock_valid(const struct file_claim *); /* the path still leads to what we hold */
struct flocker snib__file_flocker(dev_t, ino_t);
/* Keep the slot, watch who is in the way; answers who that is. */
struct flocker snib__file_flock_wait(struct file_claim *);
void snib__file_flock_again(struct lockfile *, int64_t now_ns);

/* ---- sight.c ---------------------------------------------------------------------------- */

/* Everybody at one name, as the kernel's locks prove it. */
struct sight {
    struct header header;
    struct flock slot;      /* F_UNLCK: nobody has it */
    struct record holder;   /* of a slot held exclusively; pid only, when nothing else is proved */
    bool exclusive;         /* holder is one */
    struct record *records; /* of the living: shared and counted holders, then waiters in order */
    size_t holders, count;
};

/* 0: seen; 1: there is no such file; or a code. */
int snib__file_sight(struct sight *, struct file_session *, const char *file_name,
                     struct failure *);
void snib__file_sight_end(struct sight *);

/* ---- look.c, evict.c -------------------------------------------------------------------- */

void snib__file_inspect(struct snib__query *);
void snib__file_evict(struct snib__query *);
int64_t snib__file_evict_check(struct file_session *, int64_t now_ns); /* when to come again */

/* ---- In use, or not --------------------------------------------------------------------- */

static inline void file_use(struct lockfile *f)
{
    if (f->claims++ == 0) {
        f->session->idle--;
    }
}

static inline void file_unuse(struct lockfile *f)
{
    if (--f->claims == 0) {
        snib__file_put_away(f);
    }
}

/* ---- Small things ----------------------------------------------------------------------- */

static inline bool bit_get(const uint64_t *bits, uint32_t i)
{
    return (bits[i / 64] >> (i % 64) & 1) != 0;
}

static inline void bit_set(uint64_t *bits, uint32_t i, bool on)
{
    uint64_t mask = (uint64_t)1 << (i % 64);
    bits[i / 64] = on ? bits[i / 64] | mask : bits[i / 64] & ~mask;
}

static inline int64_t boot_ms(void)
{
    return snib__now().boot_ns / SNIB__MS;
}

#endif

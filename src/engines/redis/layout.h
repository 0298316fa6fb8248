/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_REDIS_LAYOUT_H
#define SNIB_REDIS_LAYOUT_H

/*
 * A layout: what is in the keys of a lock. It puts wishes into commands and replies into answers;
 * it keeps no state, sends nothing, and knows neither sessions nor nodes.
 */

#include "engines/engine.h"
#include "engines/redis/command.h"
#include "engines/redis/reply.h"
#include "engines/redis/server_clock.h"

#define SNIB__KEY_MAX 512 /* prefix and name are at most 300 */
#define SNIB__LOOKS 3     /* commands that read one lock, at most */
#define SNIB__CHANNELS 2  /* that tell of one lock, at most */
#define SNIB__ID_SIZE 17  /* of an owner: 16 random bytes, and one for each life of it */

/* What is wanted. Each command reads what it needs. */
struct snib__wish {
    const char *prefix, *name;
    const unsigned char *id; /* the owner's */
    int64_t retention_ms;    /* how long the last token of a free name is kept */
    bool by_text;            /* send scripts, not their SHA-1 */
    /* Attempt; the ttl also renews. */
    int mode; /* enum snib_mode */
    unsigned permits, span;
    int64_t ttl_ms;
    const char *inbox;    /* NULL: not willing to wait */
    bool patient;         /* will not ask again soon: a ticket for long */
    uint32_t turn;        /* which attempt of its claim; grants by message tell the last one */
    int64_t not_after_ms; /* refused when the server's clock is past this; 0: never */
    const char *who, *label;
    /* Release: until when an attempt may still arrive, by the server's clock; 0: none can, -1: not
     * known. */
    int64_t loose_ms;
    uint64_t token; /* evict: whose; agree: which one all servers are to have */
    bool force;     /* evict: is it taken away, or asked for; `who` asks */
    /* Attempt, at one server of several: the least token; and it is the one, because the lease goes
     * on elsewhere. 0: there is one server. */
    uint64_t least_token;
    bool goes_on;
};

enum snib__answer_word {
    /* to an attempt or a renewal */
    SNIB__ANSWER_HELD,
    SNIB__ANSWER_QUEUED,
    SNIB__ANSWER_BUSY,
    SNIB__ANSWER_KIND, /* in use with other permits, or as another sort of lock */
    SNIB__ANSWER_LATE, /* arrived after its time, or after its release */
    /* to a renewal, a release or an eviction */
    SNIB__ANSWER_BROKEN, /* a renewal: `holder` wants it given up; nothing was extended */
    SNIB__ANSWER_ASKED,  /* an eviction: its holder has it for `holder_left_ms` at the most; BUSY:
                          * so it has, and it is another program's, which cannot be asked */
    SNIB__ANSWER_GONE,   /* was the owner's, and is not any more */
    SNIB__ANSWER_LEFT,   /* was waiting */
    SNIB__ANSWER_DONE,   /* released before */
    SNIB__ANSWER_NONE    /* not here */
};

struct snib__layout_answer {
    enum snib__answer_word word;
    int64_t now_ms; /* the server's clock; 0: it does not say */
    uint64_t token;
    unsigned span;
    int64_t left_ms; /* of what is held */
    int place;
    unsigned permits; /* KIND */
    bool unfinished;  /* there was more to do for the line than one script may: ask again */
    uint64_t holder_token;
    int64_t holder_left_ms; /* 0: not known */
    char holder[120];       /* "": not known */
};

/* A grant that comes by message. */
struct snib__layout_grant {
    unsigned char id[SNIB__ID_SIZE];
    char name[SNIB__KEY_MAX];
    uint64_t token;
    unsigned span;
    int64_t left_ms;
    uint32_t turn; /* of the last attempt that the server had of it when it granted this */
};

typedef void snib__layout_show(void *arg, const snib_seen *);

/* What `snib doctor` tries: a command. "@" stands for the key of the lock, also within a
 * word, "#" for a channel. */
struct snib__probe {
    const char *words[6]; /* none: the end */
    bool optional;        /* locks do without it */
};

/* Those of all layouts but the native one, and the end of the table. */
#define SNIB__PROBES_OF_PEERS                                                                      \
    {.words = {"PTTL", "@"}}, {.words = {"PEXPIRE", "@", "1000"}}, {.words = {"DEL", "@"}},        \
        {.words = {"TIME"}}, {.words = {"PUBLISH", "#", "probe"}},                                 \
        {.words = {"SCAN", "0", "MATCH", "@", "COUNT", "1"}, .optional = true},                    \
        {.words = {"INFO", "server"}, .optional = true},                                           \
        {.words = {"CONFIG", "GET", "save"}, .optional = true},                                    \
        {.words = {"CONFIG", "GET", "appendfsync"}, .optional = true},                             \
    {                                                                                              \
        .words = { NULL }                                                                          \
    }

struct snib__plan; /* how it is done without scripts: plan.h */

/* One row of the table. No slot is optional, but for `plan` and `agree`. */
struct snib__layout {
    const char *name;
    const char *prefix; /* unless the URL names one */
    const char *type;   /* of the key of a lock: "a string" */
    bool counts;        /* tokens are counted in a key, and begin anew if that is lost */
    bool watched;       /* others shorten shared leases to their watchdog= */
    unsigned lacks;     /* of the engine's traits, */
    const char *why;    /* and why: "shared and counted locks ..."; "": lacks none */
    /* Those who wait ask again about this often: the first in line, and those behind them at most.
     * `strangers_ms`: while nobody would say that it is free. */
    int64_t recheck_ms, behind_ms, strangers_ms;
    /* The commands that it uses, inside of scripts too, as rights of an ACL; and without any. */
    const char *commands, *commands_of_plan;
    const struct snib__probe *probes;
    struct snib__probe clean; /* after them: nothing is left of the lock */

    void (*attempt)(struct snib__command *, const struct snib__wish *);
    void (*renew)(struct snib__command *, const struct snib__wish *);
    void (*release)(struct snib__command *, const struct snib__wish *);
    void (*evict)(struct snib__command *, const struct snib__wish *);
    /* One server of several: all are to have the same token. NULL: that cannot be. */
    void (*agree)(struct snib__command *, const struct snib__wish *);
    /* The answer to any of them; false: it is none. */
    bool (*answer)(struct snib__layout_answer *, const struct snib__reply *);
    /* A message; false: it is no grant. */
    bool (*grant)(struct snib__layout_grant *, const char *prefix, const char *message,
                  size_t size);

    /* How it is done without scripts; NULL: it cannot be. */
    const struct snib__plan *plan;

    /* Is this prefix, or name, one that cannot work? Why; NULL: it can. */
    const char *(*refuses)(const char *prefix, const char *name);
    void (*key)(char out[SNIB__KEY_MAX], const char *prefix, const char *name);
    /* In front of the channels of inboxes and breaks. */
    void (*root)(char out[SNIB__KEY_MAX], const char *prefix);
    /* Who waits listens there: what is said means that it may be free. How many; none: there is a
     * line at the server, and grants come to the inbox. */
    size_t (*channels)(char out[SNIB__CHANNELS][SNIB__KEY_MAX], const char *prefix,
                       const char *database, const char *name);
    /* Does this word, on that channel, mean so? */
    bool (*frees)(size_t channel, const char *word);
    /* Keys and channels as rights of an ACL; the prefix is escaped as its patterns want it. */
    void (*reach)(char *out, size_t size, const char *prefix, const char *database);

    /* All names that start with `name`, as a pattern of SCAN that may find more; and which name a
     * key is about. */
    void (*pattern)(char out[2 * SNIB__KEY_MAX], const char *prefix, const char *name);
    bool (*name_of)(char out[SNIB__KEY_MAX], const char *prefix, const char *key);
    /* Read a name by so many commands, all but the last of which answer a number; and show who is
     * in the last reply: holders first, then who waits. SNIB_ENOMEM, or SNIB_EKIND: another version
     * of the layout has written it. */
    unsigned looks;
    void (*inspect)(struct snib__command *, const struct snib__wish *, unsigned look);
    int (*show)(const struct snib__reply *, const int64_t numbers[SNIB__LOOKS], const char *name,
                const struct snib__server_clock *, snib__layout_show *, void *arg);
};

/* The choices of layout=, in this order. */
#define SNIB__LAYOUT_CHOICES "native|plain|redisson|redisson-rw"
#define SNIB__LAYOUT_VARIANTS                                                                      \
    "layout=plain: the key of redis-py, redsync, node-redlock and their like; exclusive locks "    \
    "only: "                                                                                       \
    "one string has room for one holder; not fair: others do not stand in line\n"                  \
    "layout=redisson: RLock and RFencedLock of Redisson; exclusive locks only: an RLock has one "  \
    "holder, its semaphores have no owners; not fair\n"                                            \
    "layout=redisson-rw: RReadWriteLock of Redisson; exclusive and shared locks, the latter with " \
    "a ttl of watchdog= at most; not fair, and readers do not wait for writers"
enum snib__layout_row {
    SNIB__LAYOUT_NATIVE,
    SNIB__LAYOUT_PLAIN,
    SNIB__LAYOUT_REDISSON,
    SNIB__LAYOUT_RWLOCK,
    SNIB__LAYOUTS
};
extern const struct snib__layout snib__layouts[SNIB__LAYOUTS];

/* Of a key that is something else: which one it is, what it is not, and what to do. */
#define SNIB__FOREIGN_SIZE 520
const char *snib__foreign_text(char out[SNIB__FOREIGN_SIZE], const struct snib__layout *,
                               const char *prefix, const char *name);

/* For patterns: what means something in them is meant as it is. Room for twice the text. */
void snib__pattern_escape(char *out, const char *text);

#endif

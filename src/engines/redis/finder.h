/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_REDIS_FINDER_H
#define SNIB_REDIS_FINDER_H

/*
 * The finder: asks sentinels who the master is, and leads connections there.
 */

#include "engines/engine.h"
#include "engines/redis/connection.h"
#include "engines/redis/greeting.h"

#define SNIB__FOLLOWERS 3 /* the lead, and those that go where it goes */

struct snib__finder;

enum snib__sentinel_state {
    SNIB__SENTINEL_IDLE,
    SNIB__SENTINEL_ASKED,
    SNIB__SENTINEL_ANSWERED,
    SNIB__SENTINEL_FAILED /* `why` */
};

/* One of them, and what it said to the present look. */
struct snib__sentinel {
    struct snib__finder *finder;
    struct snib__address address;
    struct snib__connection connection;
    enum snib__sentinel_state state;
    int64_t epoch;         /* of what it knows; the larger is the newer */
    int64_t down_after_ms; /* when it takes a master for dead; 0: it does not say */
    char host[256];
    int port;
    int code; /* why it failed: SNIB_EUNREACH, or what is of no use to repeat */
    char why[160];
};

/* What a finder says to its session. */
struct snib__finder_upcalls {
    void (*moved)(struct snib__finder *);             /* the target is another one now */
    void (*refused)(struct snib__finder *, int code); /* asking again is of no use: an error */
};

/* All of it lives as long as the finder. */
struct snib__finder_settings {
    const char *master;                   /* its name at the sentinels */
    struct snib__credentials credentials; /* at the sentinels */
    struct snib__address *target;         /* host and port are filled in here */
    int64_t timeout_ms;
};

struct snib__finder {
    const struct snib__finder_upcalls *upcalls;
    struct snib__finder_settings settings;
    void *owner;
    struct snib__connection *followers[SNIB__FOLLOWERS]; /* the first one leads */
    size_t follower_count;
    struct snib__sentinel sentinels[SNIB__HOSTS_MAX];
    size_t count;
    uint32_t turn;     /* which look this is: answers to an earlier one are old */
    bool looking;      /* it has no result yet */
    bool glance;       /* nobody waits for it: is it still the same? */
    int64_t begun_ns;  /* of the last look */
    int64_t settle_ns; /* decide then, whoever has answered; SNIB__NEVER: nobody has */
    bool found;        /* at least once */
    char host[256];    /* of the target */
};

void snib__finder_init(struct snib__finder *, const struct snib__finder_upcalls *,
                       const struct snib__finder_settings *, const struct snib__url *,
                       struct snib__tls *, void *owner);
void snib__finder_follow(struct snib__finder *, struct snib__connection *);
void snib__finder_close(struct snib__finder *);

/* Driving, as of a node. */
#define SNIB__FINDER_FDS SNIB__HOSTS_MAX
int64_t snib__finder_keep_time(struct snib__finder *, int64_t now_ns);
size_t snib__finder_poll(const struct snib__finder *, struct pollfd fds[SNIB__FINDER_FDS]);
bool snib__finder_ready(const struct snib__finder *);
void snib__finder_step(struct snib__finder *, const struct pollfd fds[], size_t n);

#endif

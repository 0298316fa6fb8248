/* What the parts of the proxy know about each other: the test's side sends one command, the loop
 * in the other process carries it out and answers with the counts. */
#ifndef SNIB_TESTS_PROXY_INTERNAL_H
#define SNIB_TESTS_PROXY_INTERNAL_H

#include "proxy.h"

enum proxy_order {
    PROXY_ORDER_COUNTS,
    PROXY_ORDER_TARGET,
    PROXY_ORDER_SET,
    PROXY_ORDER_DOOR,
    PROXY_ORDER_HEAL,
    PROXY_ORDER_CUT,
    PROXY_ORDER_HALF_OPEN,
    PROXY_ORDER_AFTER,
    PROXY_ORDER_SCRIPT,
};

struct proxy_command {
    enum proxy_order order;
    int a; /* the arguments of the call, in their order */
    int b;
    int c;
    uint64_t count;
    struct proxy_script script;
};

/* Never returns: ends the process when the other end of `control` is closed. */
_Noreturn void proxy_loop(int listener, int control, int target_port);

/* `state` starts as the seed. */
void proxy_script_next(const struct proxy_script *script, uint64_t *state, struct proxy_step *step);

/* ---- One connection (proxy_pair.c) ------------------------------------------------------ */

enum { PAIR_BUFFER = 32768, PAIR_CHUNKS = 128 };

/* Bytes that came together and are due together. */
struct pair_chunk {
    size_t bytes;
    int64_t due_ns;
};

/* One way of a connection: from fd[i] to fd[1 - i]. */
struct pair_flow {
    unsigned char buffer[PAIR_BUFFER]; /* a ring */
    size_t head;
    size_t used;
    struct pair_chunk chunks[PAIR_CHUNKS]; /* a ring */
    size_t chunk_head;
    size_t chunk_used;
    int64_t next_byte_ns; /* when dribbling */
    int64_t ended_due_ns;
    bool ended;     /* the sender closed */
    bool forwarded; /* and the receiver was told */
    bool lost;      /* bytes were swallowed: nothing passes any more */
};

struct pair {
    bool used;
    bool connecting;
    bool dark;
    bool blocked[2]; /* fd[i] takes no more bytes for now */
    int fd[2];       /* client, server; -1: closed or never opened */
    int last_way;    /* for turns: index of the flow that delivered last, -1 at first */
    struct pair_flow flow[2];
};

struct proxy_state {
    int listener;
    int control;
    int target_port;
    int filler; /* occupies the queue of a silent door */
    enum proxy_door door;
    enum proxy_mode mode[2];
    int mode_ms[2];
    struct {
        bool armed;
        int way; /* index of the flow */
        uint64_t left;
        enum proxy_unit unit;
        enum proxy_action action;
    } trigger;
    struct {
        bool on;
        bool resting;
        struct proxy_script script;
        uint64_t random;
        struct proxy_step step;
        int64_t next_ns;
    } play;
    struct proxy_counts counts;
    size_t pair_count; /* slots ever used */
    struct pair *pairs;
};

void pair_open(struct proxy_state *state, struct pair *pair, int client);
void pair_cut(struct pair *pair, enum proxy_end how);
void pair_close_side(struct pair *pair, int side, enum proxy_end how);

/* What to wait for on fd[side]; 0: nothing, do not poll it. */
short pair_events(const struct proxy_state *state, const struct pair *pair, int side);

/* Reads, delivers, passes ends on. `ready` says what poll found for fd[0] and fd[1]. */
void pair_pump(struct proxy_state *state, struct pair *pair, const short ready[2]);

/* When pair_pump has something to do although nothing arrives; INT64_MAX: never. */
int64_t pair_next_ns(const struct proxy_state *state, const struct pair *pair);

#endif

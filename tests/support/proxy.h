/*
 * A TCP proxy that misbehaves on command.
 *
 *     struct proxy proxy;
 *     proxy_start(&proxy, redis.port);               clients use 127.0.0.1:proxy.port
 *     proxy_set(&proxy, PROXY_TO_CLIENT, PROXY_STALL, 0);
 *     ... the server hears us, we do not hear the server ...
 *     proxy_heal(&proxy);
 *
 * It runs in a process of its own. Each call returns when its fault is in force: bytes that the
 * proxy has not yet passed on will meet it. Calls are for one caller at a time. The proxy dies
 * with the test and needs no stop at the end of a case.
 */
#ifndef SNIB_TESTS_PROXY_H
#define SNIB_TESTS_PROXY_H

#include "check.h"

enum proxy_way { PROXY_TO_SERVER = 1, PROXY_TO_CLIENT = 2, PROXY_BOTH = 3 };

struct proxy {
    int port;
    pid_t pid;
    int control;
};

void proxy_start(struct proxy *proxy, int target_port);
void proxy_stop(struct proxy *proxy);

/* New connections go to this port. */
void proxy_target(struct proxy *proxy, int target_port);

/* ---- Faults that last ------------------------------------------------------------------- */

enum proxy_mode {
    PROXY_PASS,
    PROXY_STALL,   /* read nothing, deliver nothing; all arrives when the fault ends */
    PROXY_SWALLOW, /* read and discard. A connection that lost bytes stays silent in this way also
                      after the fault: TCP has no holes. Cut it to let the client notice. */
    PROXY_DRIBBLE, /* one byte every `ms` */
    PROXY_DELAY,   /* each byte `ms` later, in order */
};

/* For present and future connections. */
void proxy_set(struct proxy *proxy, enum proxy_way way, enum proxy_mode mode, int ms);

enum proxy_door {
    PROXY_OPEN,
    PROXY_REFUSE, /* connection refused */
    PROXY_DARK,   /* accepted, never connected to the server, nothing ever read */
    PROXY_SILENT, /* not even accepted: connect hangs, as with a host that drops packets */
};

/* For future connections. */
void proxy_door(struct proxy *proxy, enum proxy_door door);

/* Ends all lasting faults, triggers and scripts. Cut, dark and silenced connections stay so. */
void proxy_heal(struct proxy *proxy);

/* ---- Faults that happen ----------------------------------------------------------------- */

enum proxy_end { PROXY_RESET, PROXY_CLOSE }; /* RST; or FIN after what was passed on */

/* Ends all connections, on both sides. */
void proxy_cut(struct proxy *proxy, enum proxy_end how);

enum proxy_side { PROXY_CLIENT_SIDE, PROXY_SERVER_SIDE };

/* Ends this side of all connections; the other stays open and hears nothing any more. */
void proxy_half_open(struct proxy *proxy, enum proxy_side closed, enum proxy_end how);

/* ---- Triggers --------------------------------------------------------------------------- */

enum proxy_unit {
    PROXY_BYTES,
    PROXY_TURNS, /* runs of bytes in one way on one connection: a request, or its reply */
};

enum proxy_action {
    PROXY_THEN_RESET, /* these two: the connection where it happened */
    PROXY_THEN_CLOSE,
    PROXY_THEN_STALL, /* these two: all connections, in that way */
    PROXY_THEN_SWALLOW,
};

/* Lets `count` more bytes or turns go that way, then acts: after the last of the bytes; before the
 * first byte of the turn that would be one too many. Zero bytes: before the next byte. So
 *
 *     proxy_after(&proxy, PROXY_TO_CLIENT, 0, PROXY_BYTES, PROXY_THEN_RESET);
 *
 * loses the next reply, after the server has acted. One trigger at a time; a new one replaces it.
 */
void proxy_after(struct proxy *proxy, enum proxy_way way, uint64_t count, enum proxy_unit unit,
                 enum proxy_action action);

/* Waits until the last proxy_after has acted; fails the case when the time is over. */
#define proxy_await_fired(proxy, timeout_ms)                                                       \
    proxy_await_fired_at(__FILE__, __LINE__, (proxy), (timeout_ms))
void proxy_await_fired_at(const char *file, int line, struct proxy *proxy, int timeout_ms);

/* ---- What happened ---------------------------------------------------------------------- */

struct proxy_counts {
    uint64_t accepted;    /* connections taken so far */
    uint64_t open;        /* connections now */
    uint64_t from_client; /* bytes read */
    uint64_t from_server;
    uint64_t to_server; /* bytes passed on */
    uint64_t to_client;
    uint64_t fired; /* triggers that acted */
    uint64_t steps; /* faults applied by a script */
    bool armed;     /* a trigger waits */
};

struct proxy_counts proxy_counts(struct proxy *proxy);

/* ---- Scripts ---------------------------------------------------------------------------- */

enum proxy_fault {
    PROXY_FAULT_RESET = 1 << 0,
    PROXY_FAULT_CLOSE = 1 << 1,
    PROXY_FAULT_STALL = 1 << 2,
    PROXY_FAULT_SWALLOW = 1 << 3,
    PROXY_FAULT_DRIBBLE = 1 << 4,
    PROXY_FAULT_DELAY = 1 << 5,
    PROXY_FAULT_REFUSE = 1 << 6,
    PROXY_FAULT_DARK = 1 << 7,
    PROXY_FAULT_SILENT = 1 << 8,
    PROXY_FAULT_HALF_OPEN = 1 << 9,
    PROXY_FAULT_LOSE_REPLY = 1 << 10,
    PROXY_FAULT_ALL = (1 << 11) - 1,
};

struct proxy_script {
    uint64_t seed;
    unsigned faults; /* which may happen */
    int fault_ms[2]; /* how long each lasts: at least, at most */
    int rest_ms[2];  /* and the time without faults behind it */
};

struct proxy_step {
    enum proxy_fault fault;
    enum proxy_way way; /* for stall, swallow, dribble, delay; for half-open: to the open side */
    int value_ms;       /* of dribble and delay */
    int fault_ms;
    int rest_ms;
};

/* Applies one random fault after the other until proxy_heal. The decisions depend on the script
 * alone: the same seed, the same steps. After each step, connections that it left silent are
 * reset. */
void proxy_script(struct proxy *proxy, const struct proxy_script *script);

/* The first steps of a script, for reports and for running one of them by hand. */
void proxy_script_plan(const struct proxy_script *script, struct proxy_step *steps, size_t count);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_ZOOKEEPER_WIRE_H
#define SNIB_ZOOKEEPER_WIRE_H

/*
 * ZooKeeper's protocol: what is sent and what comes back, as bytes. Nothing here knows of sockets.
 */

#include "net/buffer.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum snib__zk_op {
    SNIB__ZK_CREATE = 1,
    SNIB__ZK_DELETE = 2,
    SNIB__ZK_GET_DATA = 4,
    SNIB__ZK_SET_DATA = 5,
    SNIB__ZK_SYNC = 9,
    SNIB__ZK_PING = 11,
    SNIB__ZK_CHILDREN = 12, /* getChildren2: the names, and what there is to know of the parent */
    SNIB__ZK_CHECK = 13,    /* a part of a multi */
    SNIB__ZK_MULTI = 14,
    SNIB__ZK_CREATE2 = 15, /* and tells what was made */
    SNIB__ZK_CONTAINER = 19,
    SNIB__ZK_AUTH = 100,
    SNIB__ZK_CLOSE = -11
};

enum { SNIB__ZK_XID_EVENT = -1, SNIB__ZK_XID_PING = -2, SNIB__ZK_XID_AUTH = -4 };

enum snib__zk_flags {
    SNIB__ZK_PERSISTENT = 0,
    SNIB__ZK_EPHEMERAL = 1,
    SNIB__ZK_EPHEMERAL_SEQUENTIAL = 3,
    SNIB__ZK_IS_CONTAINER = 4
};

enum snib__zk_error {
    SNIB__ZK_OK = 0,
    SNIB__ZK_UNDONE = -2, /* a part of a multi: because of another one */
    SNIB__ZK_CONNECTION_LOSS = -4,
    SNIB__ZK_UNIMPLEMENTED = -6,
    SNIB__ZK_NO_NODE = -101,
    SNIB__ZK_NO_AUTH = -102,
    SNIB__ZK_BAD_VERSION = -103,
    SNIB__ZK_NODE_EXISTS = -110,
    SNIB__ZK_NOT_EMPTY = -111,
    SNIB__ZK_SESSION_EXPIRED = -112,
    SNIB__ZK_AUTH_FAILED = -115,
    SNIB__ZK_SESSION_MOVED = -118,
    SNIB__ZK_NOT_READ_ONLY = -119,
    SNIB__ZK_THROTTLED = -127
};

enum { SNIB__ZK_DELETED = 2, SNIB__ZK_CHANGED = 3, SNIB__ZK_CHILD = 4 }; /* watch events */

enum { SNIB__ZK_PASSWORD = 16, SNIB__ZK_FRAME_MOST = 64 * 1024 * 1024 };

/* What a server knows of a node. */
struct snib__zk_stat {
    int64_t created, changed; /* czxid, mzxid */
    int64_t created_ms, changed_ms;
    int32_t version, children_version, acl_version;
    int64_t owner; /* the session it is of; 0: none */
    int32_t data_size, child_count;
    int64_t children_changed;
};

/* Who may do what with a new node; ended by scheme NULL. */
struct snib__zk_right {
    int32_t permissions;
    const char *scheme, *id;
};

/* ---- Requests: appended as one frame each; false: no memory, nothing was appended --------- */

struct snib__zk_hello {
    int64_t last_seen; /* the largest zxid of this session */
    int32_t timeout_ms;
    int64_t session; /* 0: a new one */
    const unsigned char *password;
};

struct snib__zk_creation {
    enum snib__zk_op op; /* CREATE, CREATE2, CONTAINER */
    const char *path;
    const char *data;
    const struct snib__zk_right *rights;
    enum snib__zk_flags flags;
};

bool snib__zk_put_hello(struct snib__buffer *, const struct snib__zk_hello *);
bool snib__zk_put_auth(struct snib__buffer *, const char *scheme, const char *credentials);
bool snib__zk_put_bare(struct snib__buffer *, int32_t xid, enum snib__zk_op); /* PING, CLOSE */
/* GET_DATA, CHILDREN, SYNC; a watch is not for SYNC. */
bool snib__zk_put_path(struct snib__buffer *, int32_t xid, enum snib__zk_op, const char *path,
                       bool watch);
bool snib__zk_put_create(struct snib__buffer *, int32_t xid, const struct snib__zk_creation *);
bool snib__zk_put_delete(struct snib__buffer *, int32_t xid, const char *path);
bool snib__zk_put_set(struct snib__buffer *, int32_t xid, const char *path, const char *data,
                      int32_t version);
/* Both or none: write into the one, remove the other. */
bool snib__zk_put_set_and_delete(struct snib__buffer *, int32_t xid, const char *path,
                                 const char *data, const char *removed);

/* A transaction that changes nothing: it looks at a node, whatever its version. */
bool snib__zk_put_proof(struct snib__buffer *, int32_t xid, const char *path);

/* The parts of a trial, in their order. The last one fails if none before it has. */
enum {
    SNIB__ZK_TRIAL_LOCK,
    SNIB__ZK_TRIAL_NODE,
    SNIB__ZK_TRIAL_WRITE,
    SNIB__ZK_TRIAL_DELETE,
    SNIB__ZK_TRIAL_UNDO
};
bool snib__zk_put_trial(struct snib__buffer *, int32_t xid, const char *below,
                        const struct snib__zk_right *);

/* ---- Answers ------------------------------------------------------------------------------ */

/* The rest of a frame. What is missing reads as zero and makes it `bad`, for good. */
struct snib__zk_reader {
    const char *at;
    size_t left;
    bool bad;
};

/* Text inside a frame: not ended by a zero. */
struct snib__zk_text {
    const char *at;
    size_t size;
};

/* 1: a whole frame of *size bytes begins 4 bytes further on; 0: more is needed; -1: not a frame. */
int snib__zk_frame(const char *bytes, size_t have, size_t *size);

struct snib__zk_header {
    int32_t xid;
    int64_t zxid;
    int32_t error;
};

struct snib__zk_welcome {
    int32_t timeout_ms; /* 0: the session is over */
    int64_t session;
    unsigned char password[SNIB__ZK_PASSWORD];
    bool read_only;
};

struct snib__zk_event {
    int32_t type;
    struct snib__zk_text path;
};

bool snib__zk_get_header(struct snib__zk_reader *, struct snib__zk_header *);
bool snib__zk_get_welcome(struct snib__zk_reader *, struct snib__zk_welcome *);
bool snib__zk_get_event(struct snib__zk_reader *, struct snib__zk_event *);
bool snib__zk_get_created(struct snib__zk_reader *, struct snib__zk_text *path,
                          struct snib__zk_stat *);
bool snib__zk_get_data(struct snib__zk_reader *, struct snib__zk_text *data,
                       struct snib__zk_stat *);
/* Of a multi, the error that undid all of it, and which part had it; OK: all was done. */
bool snib__zk_get_multi(struct snib__zk_reader *, int32_t *error, int *part);
/* The number of names, each to be taken by snib__zk_get_text; the parent's stat is behind them. */
bool snib__zk_get_count(struct snib__zk_reader *, int32_t *count);
bool snib__zk_get_text(struct snib__zk_reader *, struct snib__zk_text *);
bool snib__zk_get_stat(struct snib__zk_reader *, struct snib__zk_stat *);

#endif

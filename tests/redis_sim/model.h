/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_TESTS_REDIS_MODEL_H
#define SNIB_TESTS_REDIS_MODEL_H

/*
 * A small model of a Redis server: bytes in, bytes out, no clock and no socket of its own.
 *
 *   keyspace.c   strings and hashes, and when they expire
 *   commands.c   what each command does
 *   model.c      the server: its state, the protocol, who may run what and when
 *   lua_host.c   scripts: liblua 5.1 with redis.*;  lua_struct.c: struct.* and bit.*
 *
 * It knows nothing of locks, nor of what is in the keys: scripts and their packing may change and
 * it stays as it is. model_check.c holds it against a real server.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- Bytes ------------------------------------------------------------------------------ */

struct bytes {
    char *at;
    size_t size, room;
};

struct arg {
    const char *at;
    size_t size;
};

void bytes_add(struct bytes *, const void *at, size_t size);
void bytes_format(struct bytes *, const char *format, ...) __attribute__((format(printf, 2, 3)));
void bytes_free(struct bytes *);
bool arg_is(struct arg, const char *word); /* whatever the case */

/* ---- Keys ------------------------------------------------------------------------------- */

enum sort { STRING, HASH };

struct field {
    uint32_t hash;
    struct bytes name, value;
};

struct key {
    enum sort sort;
    struct bytes name;
    int64_t expires_ms; /* 0: never */
    uint64_t version;   /* grows with each change; no two keys ever share one */
    struct field *fields;
    size_t count, room; /* a string is its first field's value */
    bool spread;        /* too large for a list: shown in another order */
};

struct keyspace {
    struct key *keys;
    size_t count, room;
};

struct key *keys_find(struct keyspace *, struct arg name, int64_t now_ms);
struct key *keys_make(struct keyspace *, struct arg name, enum sort);
void keys_remove(struct keyspace *, struct key *);
void keys_expire(struct keyspace *, int64_t now_ms);
void keys_clear(struct keyspace *);
void keys_copy(struct keyspace *to, const struct keyspace *from);
void keys_touch(struct key *);
struct field *key_field(const struct key *, struct arg name);
bool key_set(struct key *, struct arg name, struct arg value); /* true: it is new */
bool key_unset(struct key *, struct arg name);
size_t key_bytes(const struct key *);

/* ---- The server ------------------------------------------------------------------------- */

enum { DATABASES = 4, CHANNELS = 16, PEERS = 256 };

/* The server's side of a connection. */
struct peer {
    bool used, allowed, closing; /* allowed: no password is wanted any more */
    int database;
    struct bytes in, out;
    struct bytes channels[CHANNELS];
    int channel_count;
    void *owner;
};

struct model {
    struct keyspace databases[DATABASES];
    struct peer *peers[PEERS];
    int64_t now_us; /* its clock */
    int64_t started_us;
    char run_id[41];
    int version; /* 6 or 7: how the errors of scripts are worded */
    bool replica, busy, loading, full, aof;
    bool no_client, no_info; /* commands that it does not let one use */
    bool greedy;             /* reads all that has come before it runs the first of it */
    const char *password;    /* NULL: none */
    uint64_t known_scripts;  /* by their number in the host */
    uint64_t order;          /* in which a large hash is shown */
    /* Of the script that ran last. */
    bool script_full, wrote;
    unsigned calls;
    unsigned calls_most;
};

void model_start(struct model *, int64_t now_us, uint64_t run); /* a new run; keys stay */
void model_free(struct model *);
struct peer *model_accept(struct model *, void *owner);
void model_hang_up(struct model *, struct peer *);
/* What has come in is run; answers, and messages for others, are left in their `out`. */
void model_serve(struct model *, struct peer *);
/* One command, its answer behind what `out` has. */
void model_run(struct model *, struct peer *, int argc, const struct arg argv[], struct bytes *out);

/* ---- Commands --------------------------------------------------------------------------- */

enum {
    WRITES = 1,  /* not on a replica */
    GROWS = 2,   /* not when memory is full */
    ALWAYS = 4,  /* while loading too */
    OUTSIDE = 8, /* not in scripts */
    ENTERS = 16  /* without a password, and while busy */
};

struct call {
    struct model *model;
    struct peer *peer;
    int argc;
    const struct arg *argv;
    struct bytes *out;
};

struct command {
    const char *name;
    int arity; /* of at least -arity words, if below 0 */
    unsigned flags;
    void (*run)(struct call *);
};

const struct command *command_find(struct arg name);
bool command_fits(const struct command *, int argc);
int64_t model_now_ms(const struct model *);
struct keyspace *model_keys(const struct call *);

/* Answers. */
void answer_error(struct bytes *, const char *format, ...) __attribute__((format(printf, 2, 3)));
void answer_text(struct bytes *, struct arg);
void answer_number(struct bytes *, int64_t);
void answer_array(struct bytes *, size_t count);
void answer_nil(struct bytes *);
void answer_ok(struct bytes *);

/* pubsub, in model.c */
int model_publish(struct model *, struct arg channel, struct arg text);
int model_listeners(const struct model *, struct arg channel);

/* ---- Scripts ---------------------------------------------------------------------------- */

void host_eval(struct call *, bool by_sha1);
void host_script(struct call *); /* SCRIPT LOAD, EXISTS, FLUSH */
void host_forget(void);          /* all scripts: no server knows one */
void host_sha1(const char *at, size_t size, char out[41]);

struct lua_State;
void host_open_struct(struct lua_State *);

#endif

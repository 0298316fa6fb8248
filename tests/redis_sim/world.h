/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_TESTS_REDIS_WORLD_H
#define SNIB_TESTS_REDIS_WORLD_H

/*
 * The whole Redis protocol in a simulated world: the shipped core, the shipped Redis engine and its
 * shipped scripts, unmodified, with models of servers, of a network and of disks below them; one
 * thread, one pair of dice. As in tests/sim, one seed is one run.
 *
 *   model.h       the servers: see there
 *   network.c     connections: late, slow, cut, in pieces, swallowed; the sockets' functions
 *   places.c      what else the engine asks of the system: dialling, the memory of runs, sleeping
 *   world.c       virtual time, the machines and their clocks, what happens next
 *   servers.c     two servers, one of them the master: restarts, failovers, refusals
 *   faults.c      what happens to machines, connections and servers
 *   users.c       programs that acquire, look, break, cancel, release, close, die
 *   strangers.c   other programs that share a lock, in the layouts that they know
 *   promises.c    what must be true after every step; what must be left at the end: nothing
 *   trace.c       what happened, for the reader of a failure
 *   swarm.c       a world for each seed
 *   schedules.c   the cases: worlds by seed;  directed.c: worlds by script
 *   model_check.c the model of the server against a real one
 *
 * The seam is at the linker. recv, send, close and snib__sleep are wrapped; dialling and the memory
 * of runs are replaced by symbols that come before those of the library.
 */

#include "core/client.h"
#include "core/validity.h"
#include "engines/redis/layout.h"
#include "engines/redis/session.h"

#include "check.h"
#include "model.h"

#include <poll.h>

#define MS SNIB__MS

enum { MACHINES = 4, NAMES = 2, ASKS = 8, SERVERS = 2, WIRES = 4096, HOLDERS = 32, FDS = 2 };

/* ---- The world of one seed: percentages unless they say otherwise ------------------------ */

struct config {
    uint64_t seed;
    enum snib__layout_row layout;
    bool strangers; /* another program wants the locks, too */
    bool show, scripted;
    bool clean; /* no trouble: nothing may be lost, nobody may wait for long, all in order */
    int machines, names, asks;
    unsigned permits[NAMES];
    int64_t ttl_ms, timeout_ms, max_lease_ms, retention_ms;
    int version;
    bool quarantine, seen, passing, password, database, greedy, no_client, aof;

    int64_t delay_ms;
    int slow, pieces, full; /* of what is sent: late, in pieces, not at once */
    int64_t lag_ms;
    int64_t between_faults_ms;
    /* weights */
    int pause, suspend, slew, kill, close, cut, hole, server_pause, busy, loading, memory, restart,
        lose_data, failover, lag, step_back, step_forward, forget_scripts, break_lock, seize;

    int shared, try_once, deadline, cancel, max_hold, no_renew, own_ttl, mismatch;
    int64_t hold_ms, gap_ms;
};

/* ---- Connections ------------------------------------------------------------------------ */

struct wire {
    int number, machine, server;
    unsigned life;
    bool up, failed, reset, ended; /* as the client sees it */
    bool closed;                   /* by the client */
    bool hole_up, hole_down;       /* swallows all from now on */
    int error;
    struct peer *peer; /* NULL: the server knows nothing of it, or no more */
    struct bytes arrived;
    size_t taken;
    int64_t up_ns, down_ns; /* last arrival each way */
    int64_t full_ns;        /* takes nothing before */
};

/* ---- Machines --------------------------------------------------------------------------- */

struct ask {
    bool used, finished, cancelled;
    int machine, name;
    unsigned life;
    uint64_t turn;
    snib_ticket ticket;
    snib_options options;
    struct snib__instant started;
    int64_t started_ns; /* true time */
    int64_t queued_ns;  /* when it was first seen in line; 0: never */
    snib_lease *lease;
    bool saw_lost;
};

struct machine {
    int index;
    snib *client;
    unsigned life;
    bool paused, suspended, dead, closing, driven;
    int64_t boot_ns, raw_ns, boot_ppm, raw_ppm;
    int64_t resume_ns;
    int64_t cut_ns; /* no connection until then */
    bool slept, attends;
    int64_t sleep_ns; /* on its boot clock: when it looks again by itself */
    int64_t look_ns;  /* true time of the next look */
    struct pollfd fds[FDS];
    size_t fd_count;
    struct ask asks[ASKS];
    int asks_left;
    struct snib__run run;      /* its disk */
    int64_t rupture_ns[NAMES]; /* grants asked for before this instant of its clock are not
                                * promised any more */
    int64_t lost_ns[NAMES];    /* ... are promised, but the server has forgotten them */
};

/* ---- Servers ---------------------------------------------------------------------------- */

struct site {
    struct model model;
    bool down, paused;
    int64_t offset_us;    /* of its clock */
    struct keyspace copy; /* what the other one has of its database */
};

/* Who holds a name by the server's word. */
struct truth {
    uint64_t version; /* of the key */
    int count, waiting;
    struct {
        uint64_t token;
        int64_t until_ms;
    } holders[HOLDERS];
};

/* ---- Events ----------------------------------------------------------------------------- */

enum event_kind {
    DATA_UP,
    DATA_DOWN,
    END_UP,
    END_DOWN,
    RESET_DOWN,
    CONNECT,
    CONNECTED,
    ASK,
    CANCEL,
    LOOK,
    GIVE_BACK,
    STRANGER,
    FAULT,
    RESUME,
    REOPEN,
    SERVER_BACK,
    SERVER_GOES_ON,
    SERVER_ANSWERS,
    REPLICATE
};

struct event {
    int64_t at_ns;
    uint64_t order;
    enum event_kind kind;
    int which, ask; /* machine, wire or server */
    uint64_t turn;
    char *bytes;
    size_t size;
};

/* Another program and one name. */
struct stranger {
    bool holds, leaves; /* leaves: dies without giving it back */
    int64_t until_ns;   /* true time: it believes until then; 0: it does not */
    unsigned turns;
    char secret[24];
};

struct world {
    struct config config;
    struct stranger strangers[NAMES];
    uint64_t dice, random;
    int64_t now_ns;
    bool calm, blocking;
    struct event *events;
    size_t event_count, event_room;
    uint64_t event_order, steps, hash, runs;
    struct machine machines[MACHINES];
    struct machine *current;
    struct site servers[SERVERS];
    int master;
    struct wire *wires[WIRES];
    int wire_count;
    struct truth truth[NAMES];
    uint64_t top_token[NAMES];
    const void *top_holder[NAMES];
    int64_t idle_ns[NAMES]; /* since when it is free and wanted; 0: it is not */
    bool ran_out[NAMES];    /* and that, because the lease of a holder ended by itself */
    int seizing[NAMES];     /* somebody takes it away, or may still */
    int64_t calm_ns;
    int64_t set_back_ms; /* the server's clock, in all */
    int64_t worst_idle_ns;
};

extern struct world world;

/* world.c */
uint64_t roll(uint64_t sides);
bool chance(int percent);
int64_t span_ns(int64_t most_ms);
int64_t even_ns(int64_t most_ms);
void world_begin(const struct config *);
void world_end(void);
void world_run(uint64_t seed, enum snib__layout_row);
bool world_step(int64_t limit_ns);
void world_for(int64_t ms);
void world_calm(void);
void post(const struct event *, int64_t at_ns);
void enter(struct machine *);
void stir(struct machine *); /* it looks at once */
void crank(struct machine *);
struct snib__instant clock_of(const struct machine *);
int64_t true_time(const struct machine *, int64_t boot_ns);
void machine_open(struct machine *);
void machine_close(struct machine *, bool dead);
void machine_pause(struct machine *, int64_t ms, bool suspended);
void machine_resume(struct machine *);
void machine_slew(struct machine *);
bool host_sleep(struct machine *, snib *, struct pollfd fds[], size_t n, int64_t until_ns);

/* network.c */
enum { FIRST_FD = 1 << 20 };
struct wire *wire_of(int fd);
struct wire *wire_dial(struct machine *);
short wire_ready(const struct wire *, short wanted);
void wire_event(const struct event *);
void wire_cut(struct wire *, bool reset); /* both sides learn of it */
void wires_flush(int server);             /* what the server has said goes on its way */
void wires_of_machine_end(struct machine *, bool silently);
void wires_free(void);

/* servers.c */
void servers_begin(void);
void servers_end(void);
struct site *master(void);
void servers_tick(void); /* their clocks, now */
void site_serve(int index, struct wire *);
void site_restart(int index, bool lose_data, int64_t down_ms);
void site_pause(int index, int64_t ms);
void site_refuse(int index, bool loading, int64_t ms);
void site_step(int index, int64_t by_ms);
void servers_fail_over(bool lagging);
void site_event(const struct event *);
const struct truth *truth_of(int name);
struct key *key_of(int name);
const struct snib__layout *layout(void);
void rupture(int name, bool forgotten_only);

/* faults.c */
void fault(void);
void fault_later(void);

/* users.c */
const char *name_text(int name);
struct ask *ask_for(struct machine *, int name, const snib_options *);
void ask_any(struct machine *);
void give_back(struct ask *);
void user_event(const struct event *);
bool users_idle(void);
void break_lock(struct machine *, int name, bool seize);
void look(struct ask *);

/* strangers.c */
void strangers_begin(void);
void stranger_event(const struct event *);
void stranger_rupture(int name);
bool stranger_believes(int name);

/* promises.c */
bool believes(const struct snib__hold *, const struct machine *);
void check_world(void);
void check_left_over(void);

/* swarm.c */
void draw_config(struct config *, uint64_t seed);
void fit_layout(struct config *, enum snib__layout_row); /* what it cannot do is left out */

/* trace.c */
void note(int machine, const char *format, ...) __attribute__((format(printf, 2, 3)));
void note_number(uint64_t number); /* into the hash alone */
void trace_begin(void);
const char *explain(const char *format, ...) __attribute__((format(printf, 1, 2)));

#define SIM_CHECK(condition, ...)                                                                  \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            check_fail_at(__FILE__, __LINE__, "%s", explain(__VA_ARGS__));                         \
        }                                                                                          \
    } while (0)

bool no_seed(void); /* it is not one schedule that is asked for: schedules.c */

#endif

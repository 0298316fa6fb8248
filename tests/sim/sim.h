/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_TESTS_SIM_H
#define SNIB_TESTS_SIM_H

/*
 * The simulation: the shipped core, unmodified, in a world of one thread and one pair of dice.
 *
 *   world.c     virtual time, the machines and their clocks, what happens next
 *   network.c   messages between machines and server: late, lost, twice
 *   engine.c    the client's half of the engine, which also checks what the core owes an engine
 *   session.c   ... what it learns about all of its claims at once;  undoing.c: what it destroys
 *   server.c    the lock server: leases, queues, tokens
 *   users.c     programs that acquire, look, pause, cancel, release, close
 *   several.c   ... that want several locks at once;  byhand.c: that renew by hand
 *   faults.c    pauses, clocks, cuts;  memory.c: that runs out
 *   promises.c  what must be true after every step
 *   trace.c     what happened, for the reader of a failure; and which paths were reached
 *   swarm.c     a world for each seed
 *   schedules.c the cases: worlds by seed;  directed.c, blocking.c: worlds by script
 *
 * True time is the server's. Every machine has two clocks of its own, near true time but neither
 * equal to it nor to each other. Nothing here reads a real clock or the kernel's random numbers:
 * one seed is one run.
 */

#include "core/client.h"
#include "core/validity.h"

#include "check.h"

#define MS SNIB__MS

enum { MACHINES = 4, NAMES = 3, ASKS = 20, OWNERS = 2, ENTRIES = 128, UNDOING = 16 };

/* ---- Messages --------------------------------------------------------------------------- */

/* Requests and their answers go in order within a channel, channels overtake each other. */
enum sim_channel { MAIN, RENEWALS, PUSHED, CHANNELS };

enum sim_kind { ATTEMPT, RENEW, RELEASE, LEAVE, ANSWER, GRANTED, WORTH_IT, EVICTED, SESSION_OVER };

struct message {
    enum sim_kind kind;
    enum sim_kind about; /* of an ANSWER: what it answers */
    int machine;
    unsigned life;    /* of the machine's client */
    unsigned session; /* of that at the server, when it answered */
    size_t record;
    uint64_t request;
    uint64_t owner;
    int name, mode;
    unsigned permits, span; /* tokens: wanted, or given */
    bool may_queue;
    int64_t ttl_ms;
    struct snib__instant sent; /* on the machine's clocks */
    enum snib__status status;
    uint64_t token;
    uint64_t entry; /* in the server's queue */
    int64_t left_ms, retry_ms, holder_left_ms;
    uint64_t holder_token;
    int place, code;
};

/* ---- The world of one seed -------------------------------------------------------------- */

enum sim_style {
    HANDS_OVER, /* a queue; the first in it gets the lock by message */
    NOTIFIES,   /* a queue; the first in it is told that an attempt is worth it */
    REFUSES     /* no queue */
};

/* Percentages unless they say otherwise. */
struct sim_config {
    uint64_t seed;
    bool show;                 /* print everything as it happens */
    bool scripted;             /* nothing happens by itself */
    bool clean;                /* no trouble but clocks that differ: nothing may go wrong */
    int machines, names, asks; /* acquires of each machine before the calm */
    unsigned permits[NAMES];   /* 0: exclusive and shared, else counted */
    enum sim_style style;
    bool leased;
    int64_t ttl_ms, timeout_ms, recheck_ms;
    int64_t handover_ms; /* the lease of a lock handed over; 0: as any other */
    int longer;          /* a lease is for so many percent more than was asked for */
    unsigned fewer;      /* traits that turn out at contact not to be had */
    unsigned span;       /* most tokens of a grant; 0: no such thing */
    unsigned renewals;   /* regular ones under way at the same time; 0: as shipped */

    int64_t delay_ms;                                   /* most of a usual message */
    int slow, lose, lose_answer, twice;                 /* of messages */
    bool late;                                          /* answers after UNKNOWN reach the core */
    int inside;                                         /* answered from within the slot */
    int no_memory;                                      /* for the core */
    int refused;                                        /* attempts and renewals that fail */
    int64_t lag_ms;                                     /* most that a machine is late to look */
    bool slow_loop;                                     /* callbacks wait */
    int64_t between_faults_ms;                          /* 0: none of the following */
    int pause, suspend, slew, cut, stall, close, evict; /* weights */
    int end_session;                                    /* of a machine, at the server; the same */

    int shared, try_once, deadline, cancel, owner, max_hold, min_left, no_renew, mismatch;
    int several;             /* acquires of more than one name */
    int by_hand;             /* leases that are verified or renewed by hand */
    int released_async;      /* releases that want to be told */
    int hasty;               /* callbacks that act at once */
    int64_t hold_ms, gap_ms; /* most */
};

/* ---- Users ------------------------------------------------------------------------------ */

/* One acquire and what came of it. */
struct ask {
    bool used, finished, cancelled, awry; /* awry: of another kind than the others */
    bool several;                         /* names, and not finished */
    bool over; /* its owner had the lock when it asked, but by the clock no more */
    bool busy; /* somebody waits in a call about its lease */
    int machine;
    unsigned life;
    uint64_t number; /* in the order of asking on this machine */
    uint64_t turn;   /* how often this slot was used, for events that come late */
    snib_ticket ticket;
    int name;
    snib_options options;
    struct snib__instant started;
    snib_lease *lease;
    int told;       /* the last event */
    bool reentered; /* into what may have been doubtful already, which is no news */
    bool saw_lost;
};

/* ---- A machine: one process with a client ----------------------------------------------- */

/* A release without an answer that the engine repeats, when the claim is gone. */
struct undo {
    size_t record;
    uint64_t request;
    int64_t due_ns; /* on BOOTTIME */
    int tries;
};

struct machine {
    int index;
    snib *client; /* NULL: closed */
    unsigned life;
    bool paused, suspended, dead; /* dead: not a word gets out any more */
    bool driven;                  /* inside a blocking call */
    bool closing;                 /* inside snib_close */
    bool patient;                 /* ... which waits for the engine */
    int64_t closing_ns;           /* since when, on BOOTTIME */
    unsigned session, heard;      /* at the server; the one that the engine knows to be over */
    bool contact;                 /* the engine has heard from the server */
    int released_async;           /* releases that will be told */
    int64_t boot_ns, raw_ns;
    int64_t boot_ppm, raw_ppm;
    int64_t lag_ns;    /* how late the next look at a timer is */
    int64_t look_ns;   /* true time of the next look at the letters */
    int64_t loop_ns;   /* true time when callbacks are run, in a slow loop */
    int64_t resume_ns; /* true time when a pause ends */
    int64_t cut_until_ns;
    int64_t to_server_ns[CHANNELS], to_client_ns[CHANNELS]; /* last arrival */
    int64_t stalled_ns[CHANNELS];                           /* nothing arrives before */
    int lose_requests, lose_answers;                        /* the next ones, for scripts */
    struct message *inbox;
    size_t letters, letter_room;
    size_t *live; /* records the engine still has */
    size_t live_count, live_room;
    struct undo undoing[UNDOING];
    int undoing_count;
    int in_upcall, in_slot, said;
    struct ask asks[ASKS];
    uint64_t asked;
    int asks_left;
    char owners[OWNERS];
};

/* ---- The engine's and the server's memory ----------------------------------------------- */

/* A claim as the engine knows it. */
struct record {
    struct snib__claim *claim; /* NULL once its release was answered, or the client closed */
    struct snib__hold *hold;   /* behind the claim */
    size_t number;
    int machine, name;
    unsigned life;
    uint64_t owner;
    snib_ticket ticket;
    int attempts;
    bool asked; /* by the core, which has had no answer yet */
    bool released, granted, parked, broken, reported;
    bool said_busy, said_gone; /* to the core */
    bool survives;             /* the calm: nothing threatens it */
    int renewals;
    uint64_t open[3];  /* by verb: the request whose answer is awaited, 0: none */
    int64_t due_ns[3]; /* by verb: UNKNOWN then; on BOOTTIME */
    int64_t recheck_ns;
    struct snib__instant queued_since;
    uint64_t entry;
    uint64_t token; /* of the server's last grant */
    uint64_t seen_token;
    unsigned seen_passes;
    uint64_t told_token; /* the last that a user got with a lease of its own */
    enum snib__stage stage, stage_before;
    bool lost;
};

struct holder {
    uint64_t owner, token;
    size_t record;
    int machine, mode;
    unsigned life, span;
    int64_t ttl_ms, ends_ns;
};

struct waiting {
    uint64_t owner, entry;
    size_t record;
    int machine, mode;
    unsigned life, permits, span;
    int64_t ttl_ms, ends_ns;
    bool nudged;
};

struct lock {
    struct holder holders[ENTRIES];
    struct waiting queue[ENTRIES];
    int holding, waiting;
    bool counted;
    unsigned permits;
    uint64_t last_token, exclusive_token;
    uint64_t believed_token; /* the largest exclusive one a client has acted on */
};

/* ---- The world -------------------------------------------------------------------------- */

enum sim_event_kind {
    TO_SERVER,
    TO_CLIENT,
    ASK,
    CANCEL,
    LOOK,
    PROVE,
    GIVE_BACK,
    RESUME,
    FAULT,
    REOPEN
};

struct event {
    int64_t at_ns;
    uint64_t order;
    enum sim_event_kind kind;
    int machine, ask;
    uint64_t turn;
    struct message message;
};

struct world {
    struct sim_config config;
    uint64_t dice, bytes;
    int64_t now_ns;
    bool calm;     /* no more faults, no more asks */
    bool blocking; /* a machine is inside a call that waits: one at a time */
    struct event *events;
    size_t event_count, event_room;
    uint64_t event_order;
    struct machine machines[MACHINES];
    struct machine *current; /* whose clocks the core reads */
    struct lock locks[NAMES];
    int64_t server_due_ns;
    uint64_t last_entry, last_request;
    struct record **records;
    size_t record_count, record_room;
    uint64_t steps;
    unsigned renew_calls; /* each with one claim or more */
    int64_t recovered_ns; /* whoever was doubtful before the calm is not so any more */
    uint64_t hash;        /* of all that happened */
};

extern struct world world;

/* schedules.c */
bool sim_no_seed(void); /* given on the command line */

/* swarm.c */
void sim_draw_config(struct sim_config *out, uint64_t seed);

/* world.c */
void sim_begin(const struct sim_config *config);
void sim_open(struct machine *m);
void sim_run(uint64_t seed); /* a whole schedule, the calm after it included */
bool sim_step(int64_t limit_ns);
void sim_for(int64_t ms); /* let this much true time pass */
void sim_calm(void);
void sim_end(void);
void sim_post(struct event *event, int64_t at_ns);
void sim_enter(struct machine *m);
int64_t sim_true_time(const struct machine *m, int64_t boot_ns);
void sim_crank(struct machine *m);
void sim_pause(struct machine *m, int64_t ms, bool suspended);
void sim_resume(struct machine *m);
void sim_close(struct machine *m, bool dead);
struct snib__instant sim_clock(const struct machine *m);
uint64_t sim_roll(uint64_t sides);
bool sim_chance(int percent);
int64_t sim_span_ns(int64_t most_ms); /* often short, sometimes the most */
int64_t sim_even_ns(int64_t most_ms); /* any as likely as any other, or often short */

/* network.c */
void sim_send(struct message *message); /* from a machine to the server */
void sim_push(struct message *message); /* and back */
void sim_arrive(const struct message *message);

/* engine.c */
extern const struct snib__engine sim_engine;
void sim_deliver(struct machine *m, const struct message *message); /* an upcall */
void sim_expire(struct machine *m);                                 /* requests without answer */
int64_t sim_engine_due(const struct machine *m);                    /* on BOOTTIME */
struct record *sim_record_of(const struct snib__hold *h);           /* NULL: not started */
void sim_report(struct record *r, enum snib_state state);
void sim_reach_report(enum snib__stage stage);

/* session.c */
void sim_report_session(struct machine *m, enum snib_state state);
void sim_make_contact(struct machine *m);
bool sim_withdrawn(const struct machine *m, int mode); /* locks of that mode: known to be not had */
void sim_check_traits(const struct machine *m);

/* undoing.c */
void sim_undo(struct machine *m, size_t record);
bool sim_undone(struct machine *m, const struct message *answer);
void sim_undo_again(struct machine *m); /* those that are due */
int64_t sim_undo_due(const struct machine *m);
void sim_undo_forget(struct machine *m);

/* server.c */
bool sim_serve(const struct message *request, struct message *answer);
void sim_server_expire(void);
void sim_evict(int name);
void sim_end_session(struct machine *m);
const struct holder *sim_holder(int name, uint64_t owner);
bool sim_server_idle(void);

/* memory.c */
bool sim_sanitized(void);                 /* this build: slow, and memory does not run out */
void *sim_memory(void *old, size_t size); /* never refused */
void sim_spare_memory(bool spare);        /* the core is not refused any either */

/* faults.c */
void sim_fault(void);
void sim_fault_later(void);
void sim_slew(struct machine *m);

/* users.c */
struct ask *sim_ask(struct machine *m, int name, const snib_options *options);
void sim_ask_any(struct machine *m);
void sim_cancel(struct ask *ask);
void sim_look(struct ask *ask);
void sim_give_back(struct ask *ask);
void sim_give_back_calmly(struct ask *ask);
void sim_event(const struct event *event);
bool sim_users_idle(void);
struct ask *sim_free_ask(struct machine *m, int name, const snib_options *options);
void sim_finished(struct ask *ask, snib_lease *lease); /* and what it does next */
void sim_refused(struct ask *ask, const snib_error *err);
void sim_later(const struct ask *ask, enum sim_event_kind kind, int64_t span_ns);
bool sim_closed(const struct ask *ask);

/* several.c */
struct ask *sim_ask_several(struct machine *m, const int names[], size_t n,
                            const snib_options *options);
bool sim_ask_any_several(struct machine *m, const snib_options *options);
bool sim_several_in_time(const struct machine *m, snib_ticket ticket, int64_t bound_ns);
unsigned sim_several_leases(const struct machine *m, const struct snib__hold *h);

/* byhand.c */
void sim_prove(struct ask *ask);
bool sim_release_async(struct ask *ask, bool lost); /* false: not this time */

const char *sim_name(int name);

/* promises.c */
void sim_check(void);
void sim_check_idle(struct machine *m);
void sim_check_told(const struct holder *h);
bool sim_believes(const struct snib__hold *h, const struct machine *m);

/* ---- Trace ------------------------------------------------------------------------------ */

/* What the dice must have led to, in a set of schedules. */
#define SIM_PATHS(X)                                                                               \
    X(PROVED)                                                                                      \
    X(PROVED_BY_RENEWAL)                                                                           \
    X(PASSED)                                                                                      \
    X(CLAIMED_ANEW)                                                                                \
    X(STALE_TOKEN)                                                                                 \
    X(REENTERED)                                                                                   \
    X(REENTERED_FROM_LINE)                                                                         \
    X(REENTRY_REFUSED_LOST)                                                                        \
    X(REENTRY_REFUSED_DEADLOCK)                                                                    \
    X(REENTRY_REFUSED_KIND)                                                                        \
    X(KIND_REFUSED)                                                                                \
    X(LOST_BY_TIME)                                                                                \
    X(LOST_BY_MAX_HOLD)                                                                            \
    X(LOST_BY_ANSWER)                                                                              \
    X(LOST_BY_REPORT)                                                                              \
    X(LOST_WITH_RENEWAL_UNDER_WAY)                                                                 \
    X(RENEWAL_WAITS_ITS_TURN)                                                                      \
    X(LOOKED_BEFORE_THE_TIMER)                                                                     \
    X(REPORTED_PARKED)                                                                             \
    X(REPORTED_PROVING)                                                                            \
    X(REPORTED_RELEASING)                                                                          \
    X(REPORTED_OTHERWISE)                                                                          \
    X(REPORTED_DOUBTFUL)                                                                           \
    X(REPORTED_ALL)                                                                                \
    X(GRANT_OF_AN_OLD_SESSION)                                                                     \
    X(WITHDRAWN)                                                                                   \
    X(WITHDRAWN_WHILE_ASKED)                                                                       \
    X(UNDONE)                                                                                      \
    X(UNDOING_GIVEN_UP)                                                                            \
    X(CLOSED_PATIENTLY)                                                                            \
    X(CLOSED_WHILE_UNDOING)                                                                        \
    X(CLOSED_AT_THE_BOUND)                                                                         \
    X(SEVERAL_GRANTED)                                                                             \
    X(SEVERAL_REFUSED)                                                                             \
    X(SEVERAL_LOST)                                                                                \
    X(VERIFIED)                                                                                    \
    X(RENEWED_BY_HAND)                                                                             \
    X(RENEWED_NO_RENEW)                                                                            \
    X(PROVE_UNKNOWN)                                                                               \
    X(PROVE_LOST)                                                                                  \
    X(RELEASED_ASYNC)                                                                              \
    X(LATE_ANSWER_WHILE_WANTED)                                                                    \
    X(ASKED_WHEN_OVER)                                                                             \
    X(DOUBTFUL)                                                                                    \
    X(RECOVERED)                                                                                   \
    X(KEPT_THROUGH_THE_CALM)                                                                       \
    X(LATE_GRANT_DROPPED)                                                                          \
    X(LATE_QUEUED_DROPPED)                                                                         \
    X(LATE_RENEWAL_DROPPED)                                                                        \
    X(ANSWER_AFTER_UNKNOWN)                                                                        \
    X(ANSWER_TWICE)                                                                                \
    X(GRANT_BEFORE_QUEUED)                                                                         \
    X(GRANT_TO_A_PAUSED_MACHINE)                                                                   \
    X(GRANT_OF_ANOTHER_ENTRY)                                                                      \
    X(YOURS_ALREADY)                                                                               \
    X(SEVERAL_UPCALLS_AT_ONCE)                                                                     \
    X(ANSWERED_INSIDE)                                                                             \
    X(QUEUED)                                                                                      \
    X(PLACE_IN_QUEUE_LOST)                                                                         \
    X(UNKNOWN_ATTEMPT)                                                                             \
    X(UNKNOWN_RENEWAL)                                                                             \
    X(UNKNOWN_RELEASE)                                                                             \
    X(CANCEL_IN_LINE)                                                                              \
    X(CANCEL_ASKED)                                                                                \
    X(CANCEL_PARKED)                                                                               \
    X(CANCEL_RESTING)                                                                              \
    X(CANCEL_PROVING)                                                                              \
    X(CANCEL_TOO_LATE)                                                                             \
    X(DEADLINE_IN_LINE)                                                                            \
    X(DEADLINE_ASKED)                                                                              \
    X(DEADLINE_PARKED)                                                                             \
    X(DEADLINE_RESTING)                                                                            \
    X(DEADLINE_PROVING)                                                                            \
    X(TRY_BUSY)                                                                                    \
    X(TRY_UNKNOWN)                                                                                 \
    X(REFUSED_BY_ENGINE)                                                                           \
    X(MIN_LEFT_REFUSED)                                                                            \
    X(GRANTED_EXCLUSIVE)                                                                           \
    X(GRANTED_SHARED)                                                                              \
    X(GRANTED_COUNTED)                                                                             \
    X(GRANTED_WITHOUT_LEASE)                                                                       \
    X(GRANTED_BY_MESSAGE)                                                                          \
    X(SHARED_TOGETHER)                                                                             \
    X(LINE_BEHIND_A_CROWD)                                                                         \
    X(EXPIRED_AT_SERVER)                                                                           \
    X(RELEASED_BEFORE_LOSS)                                                                        \
    X(RELEASED_AFTER_LOSS)                                                                         \
    X(RELEASED_AFTER_CLOSE)                                                                        \
    X(CLOSED_WITH_WAITS)                                                                           \
    X(CLOSED_WITH_LEASES)                                                                          \
    X(CLOSED_IN_CALLBACK)                                                                          \
    X(EVENT_WAITING)                                                                               \
    X(EVENT_LOST)                                                                                  \
    X(PAUSED)                                                                                      \
    X(SUSPENDED)                                                                                   \
    X(SLEWED)                                                                                      \
    X(CUT)                                                                                         \
    X(STALLED)                                                                                     \
    X(EVICTED_HOLDER)                                                                              \
    X(OUT_OF_MEMORY)

#define SIM_ENUM(name) PATH_##name,
enum sim_path { SIM_PATHS(SIM_ENUM) PATHS };
#undef SIM_ENUM

extern uint64_t sim_paths[PATHS];

static inline void sim_reach(enum sim_path path)
{
    sim_paths[path]++;
}

/* What a line of the timeline says; two numbers each. */
#define SIM_NOTES(X)                                                                               \
    X(OPENS, "opens a client (ttl %lld ms, timeout %lld ms)")                                      \
    X(CLOSES, "closes its client (dead: %lld, callbacks below: %lld)")                             \
    X(ASKS, "acquires name %lld, ticket %lld")                                                     \
    X(OPTIONS, "  with mode %lld, wait %lld ms")                                                   \
    X(LIMITS, "  with max_hold %lld ms, min_left %lld ms")                                         \
    X(OWNER, "  as owner %lld, ttl %lld ms")                                                       \
    X(DONE, "is told: ticket %lld answered with code %lld")                                        \
    X(TOKEN, "  token %lld, left %lld ms")                                                         \
    X(EVENT, "is told: ticket %lld in state %lld")                                                 \
    X(CANCELS, "cancels ticket %lld: code %lld")                                                   \
    X(LOOKS, "looks: state %lld, left %lld ms")                                                    \
    X(RELEASES, "releases ticket %lld: code %lld")                                                 \
    X(RELEASED, "is told: release of ticket %lld answered with code %lld")                         \
    X(PROVES, "verifies or renews ticket %lld: ttl %lld ms")                                       \
    X(PROVED, "  ticket %lld: code %lld")                                                          \
    X(UNDOES, "engine: destroys what is left of claim %lld, time %lld")                            \
    X(ENDS_SESSION, "server: the session ends, %lld were before; life %lld")                       \
    X(WITHDRAWS, "engine: no traits %lld; session %lld")                                           \
    X(ATTEMPTS, "engine: attempt of claim %lld on name %lld")                                      \
    X(RENEWS, "engine: renew claim %lld of %lld")                                                  \
    X(LEAVES, "engine: release claim %lld on name %lld")                                           \
    X(SENDS, "sends message of kind %lld about claim %lld")                                        \
    X(LOSES, "a message of kind %lld about claim %lld is lost")                                    \
    X(SERVED, "server: request of kind %lld about claim %lld")                                     \
    X(ANSWERS, "server: status %lld, left %lld ms")                                                \
    X(GRANTS, "server: grants claim %lld, token %lld")                                             \
    X(EXPIRES, "server: lease of claim %lld expires, token %lld")                                  \
    X(FREED, "server: claim %lld is gone, token %lld")                                             \
    X(EVICTS, "server: claim %lld is evicted, token %lld")                                         \
    X(UPCALL, "core is told about claim %lld: status %lld")                                        \
    X(UPCALL_VERB, "  verb %lld, left %lld ms")                                                    \
    X(REPORTS, "core is told about claim %lld: state %lld")                                        \
    X(STAGE, "claim %lld is now in stage %lld")                                                    \
    X(PAUSES, "stops for %lld ms (suspended: %lld)")                                               \
    X(RESUMES, "goes on; %lld letters wait, boot clock %lld us")                                   \
    X(RATES, "clocks now run at %lld and %lld ppm (boot, raw)")                                    \
    X(NO_MEMORY, "gets no memory")                                                                 \
    X(CUTS, "is cut off for %lld ms")                                                              \
    X(STALLS, "channel %lld stalls for %lld ms")                                                   \
    X(CALM, "faults end here")

#define SIM_ENUM(name, text) NOTE_##name,
enum sim_note { SIM_NOTES(SIM_ENUM) NOTES };
#undef SIM_ENUM

void sim_note(enum sim_note note, int machine, int64_t a, int64_t b);
void sim_trace_begin(void);

/* Prints the timeline; answers what went wrong. */
const char *sim_explain(const char *format, ...) __attribute__((format(printf, 1, 2)));

#define SIM_FAIL(...) check_fail_at(__FILE__, __LINE__, "%s", sim_explain(__VA_ARGS__))
#define SIM_CHECK(condition, ...)                                                                  \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            SIM_FAIL(__VA_ARGS__);                                                                 \
        }                                                                                          \
    } while (0)

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The conformance suite: what every engine must show before it is one.
 *
 *     conformance --engine NAME [CASE...]
 *
 * Every case uses snib.h alone and gets a fresh, private place to lock in from place(). Which
 * cases apply follows from the traits the engine claims; one that does not apply is not listed.
 *
 * How to write a case here:
 * - Helper processes first, clients after: a process forked while its parent has threads cannot
 *   be watched by the sanitizers. Actors are the usual helpers; they idle until told to go.
 * - Wait for events (flags, diaries, places seen by snib_inspect), never for time. Where time
 *   itself is the subject, be exact about "not before" and generous about "not after".
 * - Show that what is tested took place: that there was contention, that the waiter did wait.
 */
#ifndef SNIB_TESTS_CONFORMANCE_H
#define SNIB_TESTS_CONFORMANCE_H

#include "check.h"
#include "snib.h"

#include <pthread.h>

/* ---- The engine under test (engines.c) -------------------------------------------------- */

/* A URL nobody else uses; the same for the whole case and its helpers. The first call starts
 * what the engine needs, so make it before the first helper. */
const char *place(void);

/* The same place with more parameters: place_with("ttl=1s"). Lives as long as the process. */
const char *place_with(const char *parameters);

/* A lease so short that a case can see it end, and long enough to live through a second in which
 * the machine does nothing; on leased engines. */
enum { SHORT_TTL_MS = 2000 };
#define SHORT_TTL "ttl=2s"

/* How long a lock may stay taken after its holder was killed, on this engine. */
int64_t orphan_bound_ms(int64_t ttl_ms);

/* So many of a thing are many for this engine. */
int engine_many(void);

/* Is this a name that the engine does not refuse? One that it does has a brace. */
bool engine_serves(const char *name);

/* What the engine claims, without asking it. */
unsigned engine_traits(void);

bool on_file(void);
bool with_shared(void);
bool with_counted(void);
bool with_fairness(void);
bool with_fair_shared(void);
bool with_leases(void);
bool with_break(void);
bool without_break(void);

/* ---- Clients and leases (client.c) ------------------------------------------------------ */

/* Generous for what has no reason to last: a loaded machine under a sanitizer is slow. */
enum { PATIENCE_MS = 15000 };

/* A wait that is over soon; where a server answers, not before a busy one has said anything. */
int64_t brief_ms(void);

/* A hold that ends soon, but not before a machine that did nothing for a moment has seen it. */
int64_t brief_hold_ms(void);

snib *client_at(const char *url);
snib *client_here(void); /* at place() */

/* Must succeed. NULL options: exclusive, waits up to PATIENCE_MS. */
snib_lease *take(snib *client, const char *name, const snib_options *options);

/* Must be refused; answers the code, with the error in `err` if that is not NULL. */
int refused(snib *client, const char *name, const snib_options *options, snib_error *err);

/* Must answer OK. */
void give(snib_lease **lease);

/* SNIB_OPTIONS with one thing changed. */
snib_options trying(int mode);
snib_options owned(const void *owner, int mode);
snib_options counted(unsigned permits, int64_t wait_ms);

/* Takes it exclusively at once and gives it back; answers the token it had. */
uint64_t must_be_free(snib *client, const char *name);
void must_be_held(snib *client, const char *name);

int64_t elapsed_ms(int64_t since_ns);
bool readable(int fd, int timeout_ms);

/* How many threads this process has by itself; the thread sanitizer adds one to the first. */
int own_threads(void);

/* Until there are at most so many: a joined thread can be seen for a moment more. */
bool at_most_threads(int count);

/* 'R', 'S', ... of a thread of this process, as /proc shows it. */
char thread_state(int tid);

/* ---- What others see (client.c) --------------------------------------------------------- */

struct sight {
    char name[201];
    char who[128];
    char label[64];
    uint64_t token;
    int mode;
    int place;
    unsigned permits;
    int64_t since_unix_ms;
    int64_t left_ms;
};

struct sights {
    size_t count;
    size_t waiters;
    struct sight all[64];
};

void look(snib *client, const char *name, struct sights *out);
void look_all(snib *client, const char *prefix, struct sights *out);

/* Until inspect shows so many waiters; only where with_fairness(). */
void await_waiters(snib *client, const char *name, size_t count);

/* Until nobody holds it or waits for it. */
void await_nobody(snib *client, const char *name);

/* ---- Diaries: the events of a lease or a wait (actor.c) --------------------------------- */

enum { DIARY_ENTRIES = 32 };

struct entry {
    int state;
    bool has_lease;
    snib_ticket ticket;
    int64_t left_ms;
    int64_t at_ns;
    char why[160];
};

struct diary {
    _Atomic uint32_t count;
    struct entry entries[DIARY_ENTRIES];
    struct check_flag seen[SNIB_RELEASED + 1];
};

/* An on_event; its arg is the diary. */
void diary_note(const snib_event *event, void *diary);

/* The first entry of this state; NULL: none. */
const struct entry *diary_find(const struct diary *diary, int state);

/* ---- Actors: helpers that acquire when told, and release when told (actor.c) ------------ */

/* Zeroed shared memory, then actor_prepare, then actor_spawn or actor_thread. */
struct actor {
    char name[201];
    char label[61];
    const char *url; /* place() unless set */
    snib_options options;
    bool at_once; /* release as soon as it is held */

    struct check_flag go;
    struct check_flag asking;  /* about to acquire, as thread `tid` */
    struct check_flag settled; /* acquire has answered: see code */
    struct check_flag let_go;
    struct check_flag over;

    _Atomic int tid;
    _Atomic int code;
    _Atomic int release_code;
    _Atomic int state_at_end; /* of the lease, just before the release */
    _Atomic uint64_t token;
    _Atomic int64_t left_at_end_ms;
    _Atomic int64_t settled_ns;
    snib_error error;
    struct diary diary;

    pid_t pid;
    pthread_t thread;
    snib *client;
};

struct actor *actors_new(size_t count); /* in shared memory */

/* Labelled, waits for ever, keeps a diary. */
void actor_prepare(struct actor *actor, const char *name, const char *label);

void actor_spawn(struct actor *actor);
void actor_thread(struct actor *actor, snib *client);

/* Fails the case when the actor has died or is too late. */
void actor_await(struct actor *actor, struct check_flag *flag);

void actor_go(struct actor *actor);          /* start acquiring */
void actor_go_and_hold(struct actor *actor); /* ... until it is granted */
void actor_go_and_wait(struct actor *actor); /* ... until it is seen waiting */
void actor_must_hold(struct actor *actor);   /* until granted */
void actor_let_go(struct actor *actor);      /* release, and wait for that */
void actor_join(struct actor *actor);        /* let go if need be, and be joined */

#endif

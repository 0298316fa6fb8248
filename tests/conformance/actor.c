/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Actors and diaries: the other processes and threads of a case.
 *
 * An actor acquires once when told, holds, and releases when told; everything it learns is in
 * shared memory. Its diary is its on_event, so "it waits" and "it lost" are flags to wait for.
 *
 * Not done: a general script language. A case that needs another life writes its own helper.
 */
#include "conformance.h"

#include <stdio.h>
#include <unistd.h>

/* ---- Diaries ---------------------------------------------------------------------------- */

void diary_note(const snib_event *event, void *arg)
{
    struct diary *diary = arg;
    uint32_t at = atomic_load(&diary->count);
    CHECK_UINT(event->size, >=, sizeof *event);
    CHECK(event->state >= SNIB_WAITING && event->state <= SNIB_RELEASED);
    if (at < DIARY_ENTRIES) {
        struct entry *entry = &diary->entries[at];
        entry->state = event->state;
        entry->has_lease = event->lease != NULL;
        entry->ticket = event->ticket;
        entry->left_ms = event->left_ms;
        entry->at_ns = check_now_ns();
        snprintf(entry->why, sizeof entry->why, "%s", event->why != NULL ? event->why : "");
        atomic_store(&diary->count, at + 1);
    }
    check_flag_set(&diary->seen[event->state]);
}

const struct entry *diary_find(const struct diary *diary, int state)
{
    uint32_t count = atomic_load(&diary->count);
    for (uint32_t i = 0; i < count; i++) {
        if (diary->entries[i].state == state) {
            return &diary->entries[i];
        }
    }
    return NULL;
}

/* ---- The life of an actor --------------------------------------------------------------- */

static void act(struct actor *actor, snib *client)
{
    snib_options options = actor->options;
    snib_lease *lease = NULL;
    check_flag_wait(&actor->go, 4 * PATIENCE_MS);
    atomic_store(&actor->tid, (int)gettid());
    check_flag_set(&actor->asking);
    int code = snib_acquire(&lease, client, actor->name, &options, &actor->error);
    atomic_store(&actor->settled_ns, check_now_ns());
    atomic_store(&actor->code, code);
    atomic_store(&actor->token, lease != NULL ? snib_token(lease) : 0);
    CHECK((code == 0) == (lease != NULL));
    check_flag_set(&actor->settled);
    if (lease != NULL) {
        if (!actor->at_once) {
            check_flag_wait(&actor->let_go, 4 * PATIENCE_MS);
        }
        atomic_store(&actor->state_at_end, snib_state(lease));
        atomic_store(&actor->left_at_end_ms, snib_left_ms(lease));
        atomic_store(&actor->release_code, snib_release(&lease, NULL));
        CHECK(lease == NULL);
    }
    check_flag_set(&actor->over);
}

static void act_as_process(void *arg)
{
    struct actor *actor = arg;
    snib *client = client_at(actor->url);
    act(actor, client);
    snib_close(client);
}

static void *act_as_thread(void *arg)
{
    struct actor *actor = arg;
    act(actor, actor->client);
    return NULL;
}

struct actor *actors_new(size_t count)
{
    return check_shared(count * sizeof(struct actor));
}

void actor_prepare(struct actor *actor, const char *name, const char *label)
{
    snib_options options = SNIB_OPTIONS;
    snprintf(actor->name, sizeof actor->name, "%s", name);
    snprintf(actor->label, sizeof actor->label, "%s", label);
    actor->options = options;
    actor->options.label = actor->label;
    actor->options.on_event = diary_note;
    actor->options.arg = &actor->diary;
    actor->url = place();
}

void actor_spawn(struct actor *actor)
{
    actor->pid = check_spawn(act_as_process, actor);
}

void actor_thread(struct actor *actor, snib *client)
{
    actor->client = client;
    CHECK(pthread_create(&actor->thread, NULL, act_as_thread, actor) == 0);
}

/* ---- Directions ------------------------------------------------------------------------- */

struct awaited_flag {
    struct actor *actor;
    struct check_flag *flag;
};

static bool set_or_dead(void *arg)
{
    struct awaited_flag *awaited = arg;
    return check_flag_is_set(awaited->flag) ||
           (awaited->actor->pid > 0 && !check_alive(awaited->actor->pid));
}

void actor_await(struct actor *actor, struct check_flag *flag)
{
    struct awaited_flag awaited = {.actor = actor, .flag = flag};
    bool over = check_until(set_or_dead, &awaited, PATIENCE_MS);
    if (!check_flag_is_set(flag)) {
        FAIL("actor '%s' of '%s' %s", actor->label, actor->name,
             over ? "has died" : "does not get there");
    }
}

void actor_go(struct actor *actor)
{
    check_flag_set(&actor->go);
}

void actor_must_hold(struct actor *actor)
{
    actor_await(actor, &actor->settled);
    CHECK_OK(atomic_load(&actor->code), actor->error.message);
}

void actor_go_and_hold(struct actor *actor)
{
    actor_go(actor);
    actor_must_hold(actor);
}

void actor_go_and_wait(struct actor *actor)
{
    actor_go(actor);
    actor_await(actor, &actor->diary.seen[SNIB_WAITING]);
    CHECK(!check_flag_is_set(&actor->settled));
}

void actor_let_go(struct actor *actor)
{
    check_flag_set(&actor->let_go);
    actor_await(actor, &actor->over);
}

void actor_join(struct actor *actor)
{
    check_flag_set(&actor->go);
    actor_let_go(actor);
    if (actor->pid > 0) {
        check_join(actor->pid, PATIENCE_MS);
    } else {
        CHECK(pthread_join(actor->thread, NULL) == 0);
    }
}

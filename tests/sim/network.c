/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages between machines and server.
 *
 * A channel keeps its order, as a connection does; but any message may be lost, and then those
 * behind it still arrive, which no connection does and which is worse. A request sent twice
 * arrives twice, one behind the other. What is on its way when a client is closed or cut off
 * still arrives at the server.
 *
 * Without leases nothing at the server ends by itself: there, a release and the end of a session
 * are never lost, only late. That is what the kernel does for file locks.
 */
#include "sim.h"

static int64_t delay_ns(void)
{
    if (world.config.scripted) {
        return world.config.delay_ms * MS;
    }
    if (!world.calm && sim_chance(world.config.slow)) {
        return sim_span_ns(world.config.ttl_ms * 2);
    }
    return 1000 + sim_span_ns(world.config.delay_ms);
}

static enum sim_channel channel_of(const struct message *message)
{
    enum sim_kind kind = message->kind == ANSWER ? message->about : message->kind;
    switch (kind) {
    case RENEW:
        return RENEWALS;
    case GRANTED:
    case WORTH_IT:
    case EVICTED:
    case SESSION_OVER:
        return PUSHED;
    default:
        return MAIN;
    }
}

/* When it arrives: behind what is on its way already. */
static int64_t arrival(struct machine *m, int64_t *last, enum sim_channel channel)
{
    int64_t at = world.now_ns + delay_ns();
    at = at > m->stalled_ns[channel] ? at : m->stalled_ns[channel];
    at = at > *last ? at : *last;
    *last = at;
    return at;
}

static bool must_arrive(const struct message *message)
{
    return !world.config.leased && (message->kind == RELEASE || message->kind == LEAVE);
}

static bool lost(struct machine *m, const struct message *message, int percent, int *next)
{
    if (must_arrive(message)) {
        return false;
    }
    bool gone = m->dead || world.now_ns < m->cut_until_ns || (!world.calm && sim_chance(percent));
    if (!gone && *next > 0) {
        (*next)--;
        gone = true;
    }
    if (gone) {
        sim_note(NOTE_LOSES, m->index, message->kind, (int64_t)message->record);
    }
    return gone;
}

void sim_arrive(const struct message *message)
{
    struct message answer;
    if (sim_serve(message, &answer)) {
        sim_push(&answer);
    }
}

/* Nothing under way: the engine may know the answer at once. */
static bool answered_inside(struct machine *m, struct message *message)
{
    enum sim_channel channel = channel_of(message);
    if (message->kind == LEAVE || m->dead || m->to_server_ns[channel] >= world.now_ns ||
        m->to_client_ns[channel] >= world.now_ns || m->stalled_ns[channel] > world.now_ns ||
        world.now_ns < m->cut_until_ns || m->letters > 0 || !sim_chance(world.config.inside)) {
        return false;
    }
    struct message answer;
    if (sim_serve(message, &answer)) {
        sim_reach(PATH_ANSWERED_INSIDE);
        sim_deliver(m, &answer);
    }
    return true;
}

void sim_send(struct message *message)
{
    struct machine *m = &world.machines[message->machine];
    if (answered_inside(m, message)) {
        return;
    }
    sim_note(NOTE_SENDS, m->index, message->kind, (int64_t)message->record);
    if (lost(m, message, world.config.lose, &m->lose_requests)) {
        return;
    }
    enum sim_channel channel = channel_of(message);
    struct event event = {.kind = TO_SERVER, .machine = m->index, .message = *message};
    sim_post(&event, arrival(m, &m->to_server_ns[channel], channel));
    if (!world.calm && message->kind != LEAVE && sim_chance(world.config.twice)) {
        sim_post(&event, arrival(m, &m->to_server_ns[channel], channel));
    }
}

void sim_push(struct message *message)
{
    struct machine *m = &world.machines[message->machine];
    if (lost(m, message, world.config.lose_answer, &m->lose_answers)) {
        return;
    }
    enum sim_channel channel = channel_of(message);
    struct event event = {.kind = TO_CLIENT, .machine = m->index, .message = *message};
    sim_post(&event, arrival(m, &m->to_client_ns[channel], channel));
    if (!world.calm && sim_chance(world.config.twice)) {
        sim_post(&event, arrival(m, &m->to_client_ns[channel], channel));
    }
}

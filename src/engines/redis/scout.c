/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The scout: asks for the map of the cluster.
 *
 * Any server has it, a replica too. All that are known are asked, one after the other, beginning
 * with another one each time, until one answers: those that the last map named, then those of the
 * URL. A server that is silent has a quarter of the time of a request, so that one which was
 * stopped does not keep us from the next. A map may be old: who is sent on from there asks again.
 *
 * A map without any slot is no answer, nor is a server's that is no member of a cluster; that is
 * told if nobody has another one.
 *
 * Deliberately not done: asking several at once and taking the newest. The version of a map
 * (its epoch) is not part of what CLUSTER SLOTS answers, and whoever has an old map is corrected by
 * the first MOVED.
 */
#include "engines/redis/cluster.h"
#include "engines/redis/errors.h"

#include <stdio.h>
#include <string.h>

#define NEWS_NS (20 * SNIB__MS) /* between two rounds, at least */
#define PAUSE_FIRST_MS 50
#define PAUSE_MOST_MS 400
#define DEFAULT_PORT 6379

static struct snib__cluster *cluster_of(struct snib__node *node)
{
    return node->owner;
}

/* ---- What it hears ---------------------------------------------------------------------- */

/* A sentence about one that answers is worth more than silence of another. */
static void note(struct snib__scout *s, enum snib__loss how, int code, int sys, const char *why)
{
    if (s->why[0] && how == SNIB__LOSS_UNREACHED && s->how != SNIB__LOSS_UNREACHED) {
        return;
    }
    s->how = how;
    s->code = code;
    s->sys = sys;
    snprintf(s->why, sizeof s->why, "%.90s:%d: %.150s", s->place.host, s->place.port, why);
}

static void on_error(struct snib__scout *s, const char *text)
{
    struct snib__error error = snib__error_read(text);
    if (strstr(text, "cluster support disabled")) {
        note(s, SNIB__LOSS_ALIEN, SNIB_ENOTSUP, 0,
             "this server is not part of a cluster: redis: instead of redis+cluster:");
    } else {
        char said[SNIB__ERROR_SAID];
        snib__error_say(said, text);
        note(s, SNIB__LOSS_DENIED, error.code, 0, said);
    }
}

static void on_reply(struct snib__node *node, struct snib__redis_call *call,
                     const struct snib__reply *reply)
{
    struct snib__cluster *c = cluster_of(node);
    struct snib__scout *s = &c->scout;
    (void)call;
    if (s->state != SNIB__SCOUT_ASKS) {
        return;
    }
    s->state = SNIB__SCOUT_REFUSED;
    memset(&c->fresh, 0, sizeof c->fresh);
    if (reply->type == REDIS_REPLY_ERROR) {
        on_error(s, reply->text);
    } else if (!snib__slots_read(&c->fresh, reply, &s->place)) {
        note(s, SNIB__LOSS_ALIEN, SNIB_EPROTO, 0, "its map of the cluster cannot be read");
    } else if (snib__slots_covered(&c->fresh) == 0) {
        note(s, SNIB__LOSS_ALIEN, SNIB_EUNREACH, 0,
             "the cluster has no slots yet: redis-cli --cluster create");
    } else {
        s->state = SNIB__SCOUT_KNOWS;
    }
}

static void on_lost(struct snib__node *node, struct snib__redis_call *call, enum snib__loss how)
{
    struct snib__scout *s = &cluster_of(node)->scout;
    (void)call;
    if (s->state != SNIB__SCOUT_ASKS) {
        return;
    }
    s->state = SNIB__SCOUT_REFUSED;
    int code = SNIB_EUNREACH;
    if (how == SNIB__LOSS_DENIED) {
        code = node->greeting.error.code;
    } else if (how == SNIB__LOSS_ALIEN) {
        code = SNIB_EPROTO;
    } else {
        how = SNIB__LOSS_UNREACHED; /* whatever it was, nothing was asked for but the map */
    }
    note(s, how, code, node->connection.sys, snib__node_why(node, how));
}

static void on_down(struct snib__node *node)
{
    (void)node;
}

/* ---- Going ------------------------------------------------------------------------------ */

static size_t count_known(const struct snib__cluster *c)
{
    return c->map.count + c->common.session->url->host_count;
}

static struct snib__place place_of(const struct snib__cluster *c, size_t number)
{
    struct snib__place place = {.port = DEFAULT_PORT};
    if (number < c->map.count) {
        return c->map.places[number];
    }
    const struct snib__host *host = &c->common.session->url->hosts[number - c->map.count];
    snprintf(place.host, sizeof place.host, "%.255s", host->name);
    place.port = host->port ? host->port : DEFAULT_PORT;
    return place;
}

static void ask(struct snib__cluster *c, int64_t now_ns)
{
    static const struct snib__node_upcalls upcalls = {
        .reply = on_reply, .lost = on_lost, .down = on_down};
    struct snib__scout *s = &c->scout;
    struct snib__command command;
    int64_t timeout_ms = c->common.settings.address.timeout_ms;
    s->place = place_of(c, s->next++ % count_known(c));
    s->settings = c->common.settings;
    s->settings.address.host = s->place.host;
    s->settings.address.port = s->place.port;
    s->settings.address.timeout_ms = timeout_ms > 1000 ? timeout_ms / 4 : timeout_ms;
    s->settings.quarantine.off = true;
    s->asked_ns = now_ns;
    s->state = SNIB__SCOUT_ASKS;
    snib__node_init(&s->node, &upcalls, &s->settings, c);
    struct snib__redis_call call = snib__node_call(&s->node, 0, c);
    snib__command_words(&command, "CLUSTER", "SLOTS", (char *)NULL);
    if (!snib__node_ask(&s->node, &call, &command)) {
        s->state = SNIB__SCOUT_REFUSED;
        note(s, SNIB__LOSS_UNREACHED, SNIB_ENOMEM, 0, "out of memory");
    }
    s->tried++;
}

void snib__scout_init(struct snib__cluster *c)
{
    c->scout.due_ns = SNIB__NEVER;
}

void snib__scout_want(struct snib__cluster *c)
{
    struct snib__scout *s = &c->scout;
    int64_t at_ns = s->asked_ns ? s->asked_ns + NEWS_NS : 1;
    if (at_ns < s->due_ns) {
        s->due_ns = at_ns;
    }
}

void snib__scout_again(struct snib__cluster *c)
{
    struct snib__scout *s = &c->scout;
    s->pause_ms = s->pause_ms ? s->pause_ms * 2 : PAUSE_FIRST_MS;
    s->pause_ms = s->pause_ms < PAUSE_MOST_MS ? s->pause_ms : PAUSE_MOST_MS;
    int64_t at_ns = snib__now().boot_ns + snib__jitter(s->pause_ms * SNIB__MS);
    if (at_ns < s->due_ns) {
        s->due_ns = at_ns;
    }
}

void snib__scout_content(struct snib__cluster *c)
{
    c->scout.pause_ms = 0;
}

/* The server has answered, or will not. True: the round is over. */
static bool go_on(struct snib__cluster *c, int64_t now_ns)
{
    struct snib__scout *s = &c->scout;
    bool knows = s->state == SNIB__SCOUT_KNOWS;
    snib__node_close(&s->node);
    s->state = SNIB__SCOUT_RESTS;
    if (knows) {
        c->map = c->fresh;
        c->known = true;
        s->why[0] = '\0';
        return true;
    }
    if (s->tried < count_known(c)) {
        ask(c, now_ns);
        return false;
    }
    return true;
}

bool snib__scout_keep_time(struct snib__cluster *c, int64_t now_ns, int64_t *next_ns)
{
    struct snib__scout *s = &c->scout;
    bool over = false;
    if (s->state == SNIB__SCOUT_RESTS && now_ns >= s->due_ns) {
        s->due_ns = SNIB__NEVER;
        s->tried = 0;
        s->why[0] = '\0';
        ask(c, now_ns);
    }
    *next_ns = s->state == SNIB__SCOUT_RESTS ? s->due_ns : SNIB__NEVER;
    if (s->state == SNIB__SCOUT_ASKS) {
        *next_ns = snib__node_keep_time(&s->node, now_ns);
        *next_ns = snib__node_ready(&s->node) ? 0 : *next_ns;
    }
    if (s->state == SNIB__SCOUT_KNOWS || s->state == SNIB__SCOUT_REFUSED) {
        over = go_on(c, now_ns);
        *next_ns = 0;
    }
    struct snib__session *session = c->common.session;
    if (*next_ns != SNIB__NEVER && (!session->wake_ns || *next_ns < session->wake_ns)) {
        session->wake_ns = *next_ns > 0 ? *next_ns : now_ns;
    }
    return over;
}

void snib__scout_close(struct snib__cluster *c)
{
    if (c->scout.state != SNIB__SCOUT_RESTS) {
        snib__node_close(&c->scout.node);
        c->scout.state = SNIB__SCOUT_RESTS;
    }
}

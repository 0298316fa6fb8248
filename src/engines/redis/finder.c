/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The finder: who is the master, by what the sentinels say.
 *
 * Whenever the lead wants to connect, all sentinels are asked anew, at the same time. As soon as
 * more than half have answered, or all that will, the newest answer counts: the one with the
 * highest configuration epoch, which is how sentinels settle it among themselves. A sentinel that
 * was cut off has an older one. Two that name different servers at the same epoch do not watch the
 * same ones: nobody is believed then. The other connections go where the lead goes.
 *
 * While the lead is in use, the sentinels are asked about once a second whether it is still the
 * same: a master that was replaced while it was cut off goes on answering those on its side.
 *
 * Safety. What a sentinel says is a hint. The server at that address is believed only if it says
 * itself that it is a master (fitness.c); and that there may be two masters for a while is what
 * wait= is for (witness.c).
 *
 * What can go wrong: sentinels name the master by the address that *they* use; from where we are
 * it may be another, and then it is not reached (replica-announce-ip is for that).
 *
 * Not done: subscribing to +switch-master. The look before each connection finds the same, and a
 * subscription that is dead without a sign finds nothing.
 */
#include "engines/redis/finder.h"

#include <stdio.h>
#include <string.h>

#define PORT 26379
#define GLANCE_NS (1000 * SNIB__MS)
#define GRACE_MS 300 /* for the others, once one has answered */

enum kind { ADDRESS = 0, STATE = 1, NAME = -1, AUTH = -2 };

/* ---- One sentinel ----------------------------------------------------------------------- */

static void failed(struct snib__sentinel *s, int code, const char *why)
{
    if (s->state == SNIB__SENTINEL_ASKED) {
        s->state = SNIB__SENTINEL_FAILED;
        s->code = code;
        snprintf(s->why, sizeof s->why, "%.159s", why);
    }
}

static void ask(struct snib__sentinel *s, enum kind kind, const struct snib__command *command)
{
    struct snib__redis_call call = {.kind = kind, .sent = snib__now(), .turn = s->finder->turn};
    call.due_ns = call.sent.boot_ns + s->address.timeout_ms * SNIB__MS;
    if (!snib__connection_ask(&s->connection, &call, command)) {
        failed(s, SNIB_ENOMEM, "out of memory");
    }
}

static void greet(struct snib__connection *c)
{
    struct snib__sentinel *s = c->owner;
    const struct snib__credentials *who = &s->finder->settings.credentials;
    struct snib__command command;
    if (who->password[0]) {
        if (who->user[0]) {
            snib__command_words(&command, "AUTH", who->user, who->password, (char *)NULL);
        } else {
            snib__command_words(&command, "AUTH", who->password, (char *)NULL);
        }
        ask(s, AUTH, &command);
    }
    snib__command_words(&command, "CLIENT", "SETNAME", who->name, (char *)NULL);
    ask(s, NAME, &command);
}

static void on_error(struct snib__sentinel *s, const char *text)
{
    struct snib__error error = snib__error_read(text);
    char said[SNIB__ERROR_SAID];
    snib__error_say(said, text);
    if (strstr(text, "No such master")) {
        failed(s, SNIB_EINVAL, "knows no master of that name");
    } else if (strstr(text, "unknown command")) {
        failed(s, SNIB_EINVAL, "is a Redis server and no sentinel (their port is 26379)");
    } else if (strncmp(text, "NOAUTH", 6) == 0) {
        failed(s, SNIB_EDENIED, "wants a password: sentinel-passfile=");
    } else if (error.kind == SNIB__ERROR_DENIED) {
        failed(s, SNIB_EDENIED, said);
    } else {
        failed(s, SNIB_EUNREACH, said);
    }
}

static void on_state(struct snib__sentinel *s, const struct snib__reply *reply)
{
    s->epoch = 0;
    for (size_t i = 0; i + 1 < reply->count; i += 2) {
        if (strcmp(snib__reply_text(reply, i), "config-epoch") == 0) {
            s->epoch = snib__reply_number(reply, i + 1);
        } else if (strcmp(snib__reply_text(reply, i), "down-after-milliseconds") == 0) {
            s->down_after_ms = snib__reply_number(reply, i + 1);
        }
    }
}

static void on_address(struct snib__sentinel *s, const struct snib__reply *reply)
{
    const char *host = snib__reply_text(reply, 0);
    int64_t port = snib__reply_number(reply, 1);
    if (!host[0] || port < 1 || port > 65535 || strlen(host) >= sizeof s->host) {
        failed(s, SNIB_EINVAL, "knows no master of that name");
    } else if (s->state == SNIB__SENTINEL_ASKED) {
        s->state = SNIB__SENTINEL_ANSWERED;
        snprintf(s->host, sizeof s->host, "%s", host);
        s->port = (int)port;
    }
}

static void on_reply(struct snib__connection *c, struct snib__redis_call *call,
                     const struct snib__reply *reply)
{
    struct snib__sentinel *s = c->owner;
    if (call->turn != s->finder->turn || call->kind == NAME) {
        return; /* of an earlier look; a name is for people */
    }
    if (reply->type == REDIS_REPLY_ERROR) {
        on_error(s, reply->text);
    } else if (call->kind == STATE) {
        on_state(s, reply);
    } else if (call->kind == ADDRESS) {
        on_address(s, reply);
    }
}

static void on_lost(struct snib__connection *c, struct snib__redis_call *call, enum snib__loss how)
{
    struct snib__sentinel *s = c->owner;
    if (call->turn == s->finder->turn) {
        failed(s, SNIB_EUNREACH, how == SNIB__LOSS_TOO_LATE ? "no answer in time" : c->why);
    }
}

static void on_down(struct snib__connection *c)
{
    (void)c; /* its calls were lost before */
}

static const struct snib__connection_upcalls connection_upcalls = {
    .greet = greet,
    .reply = on_reply,
    .lost = on_lost,
    .down = on_down,
};

/* ---- Beginning and end ------------------------------------------------------------------ */

void snib__finder_init(struct snib__finder *f, const struct snib__finder_upcalls *upcalls,
                       const struct snib__finder_settings *settings, const struct snib__url *url,
                       struct snib__tls *tls, void *owner)
{
    *f = (struct snib__finder){.upcalls = upcalls, .settings = *settings, .owner = owner};
    f->count = url->host_count;
    for (size_t i = 0; i < f->count; i++) {
        struct snib__sentinel *s = &f->sentinels[i];
        s->finder = f;
        s->address = (struct snib__address){
            .host = url->hosts[i].name,
            .port = url->hosts[i].port ? url->hosts[i].port : PORT,
            .tls = tls,
            .timeout_ms = settings->timeout_ms,
        };
        snib__connection_init(&s->connection, &connection_upcalls, &s->address, s);
    }
}

void snib__finder_follow(struct snib__finder *f, struct snib__connection *c)
{
    f->followers[f->follower_count++] = c;
}

void snib__finder_close(struct snib__finder *f)
{
    for (size_t i = 0; i < f->count; i++) {
        snib__connection_close(&f->sentinels[i].connection);
    }
}

/* ---- A look ----------------------------------------------------------------------------- */

static void begin(struct snib__finder *f, int64_t now_ns, bool glance)
{
    struct snib__command command;
    f->turn++;
    f->looking = true;
    f->glance = glance;
    f->begun_ns = now_ns;
    f->settle_ns = SNIB__NEVER;
    for (size_t i = 0; i < f->count; i++) {
        struct snib__sentinel *s = &f->sentinels[i];
        s->state = SNIB__SENTINEL_ASKED;
        snib__command_words(&command, "SENTINEL", "MASTER", f->settings.master, (char *)NULL);
        ask(s, STATE, &command);
        snib__command_words(&command, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", f->settings.master,
                            (char *)NULL);
        ask(s, ADDRESS, &command);
    }
}

static size_t count(const struct snib__finder *f, enum snib__sentinel_state state)
{
    size_t n = 0;
    for (size_t i = 0; i < f->count; i++) {
        n += f->sentinels[i].state == state;
    }
    return n;
}

static bool is_same(const struct snib__sentinel *a, const struct snib__sentinel *b)
{
    return a->port == b->port && strcmp(a->host, b->host) == 0;
}

/* The newest answer; *rival: another one that is as new and says otherwise. */
static const struct snib__sentinel *newest(const struct snib__finder *f,
                                           const struct snib__sentinel **rival)
{
    const struct snib__sentinel *best = NULL;
    *rival = NULL;
    for (size_t i = 0; i < f->count; i++) {
        const struct snib__sentinel *s = &f->sentinels[i];
        if (s->state != SNIB__SENTINEL_ANSWERED) {
            continue;
        }
        if (!best || s->epoch > best->epoch) {
            best = s;
            *rival = NULL;
        } else if (s->epoch == best->epoch && !is_same(s, best)) {
            *rival = s;
        }
    }
    return best;
}

/* Whoever waits for the address gets none. */
static void lose(struct snib__finder *f, int code, const char *why)
{
    bool hopeless = code != SNIB_EUNREACH && !f->found;
    if (hopeless) {
        f->upcalls->refused(f, code);
    }
    for (size_t i = f->follower_count; i-- > 0;) { /* the lead last: it may ask anew */
        struct snib__connection *c = f->followers[i];
        if (c->seeking) {
            snib__connection_lose(c, hopeless && i == 0 ? SNIB__LOSS_DENIED : SNIB__LOSS_UNREACHED,
                                  0, why);
        }
    }
}

/* Nobody said who the master is. Each says why: the first of them in the words of people. */
static void fail(struct snib__finder *f)
{
    char why[256];
    const struct snib__sentinel *worst = &f->sentinels[0];
    for (size_t i = 1; i < f->count; i++) {
        const struct snib__sentinel *s = &f->sentinels[i];
        worst = worst->code == SNIB_EUNREACH && s->code != SNIB_EUNREACH ? s : worst;
    }
    snprintf(why, sizeof why, "no sentinel says who is master %.40s: %.40s:%d%s%.90s%s",
             f->settings.master, worst->address.host, worst->address.port,
             worst->code == SNIB_EUNREACH ? ": " : " ", worst->why,
             f->count > 1 ? " (nor do the others)" : "");
    lose(f, worst->code, why);
}

static void disagree(struct snib__finder *f, const struct snib__sentinel *a,
                     const struct snib__sentinel *b)
{
    char why[256];
    snprintf(why, sizeof why,
             "the sentinels disagree about %.20s: %.30s:%d says %.30s:%d, %.30s:%d says %.30s:%d: "
             "do they watch the same?",
             f->settings.master, a->address.host, a->address.port, a->host, a->port,
             b->address.host, b->address.port, b->host, b->port);
    lose(f, SNIB_EUNREACH, why);
}

static void lead(struct snib__finder *f, const struct snib__sentinel *s)
{
    struct snib__address *target = f->settings.target;
    if (!f->found || target->port != s->port || strcmp(f->host, s->host) != 0) {
        snprintf(f->host, sizeof f->host, "%s", s->host);
        target->host = f->host;
        target->port = s->port;
        f->found = true;
        f->upcalls->moved(f);
    }
    for (size_t i = 0; i < f->follower_count; i++) {
        snib__connection_go(f->followers[i]);
    }
}

static void glanced(struct snib__finder *f, const struct snib__sentinel *s)
{
    char why[200];
    if (f->settings.target->port == s->port && strcmp(f->host, s->host) == 0) {
        return;
    }
    snprintf(why, sizeof why, "the sentinels name another master now: %.100s:%d", s->host, s->port);
    for (size_t i = 0; i < f->follower_count; i++) {
        snib__connection_end(f->followers[i], SNIB__LOSS_CUT, 0, why);
    }
}

static void decide(struct snib__finder *f, int64_t now_ns)
{
    const struct snib__sentinel *best, *rival;
    size_t answered = count(f, SNIB__SENTINEL_ANSWERED);
    bool all = count(f, SNIB__SENTINEL_ASKED) == 0;
    if (answered && f->settle_ns == SNIB__NEVER) {
        f->settle_ns = now_ns + GRACE_MS * SNIB__MS;
    }
    if (!all && answered * 2 <= f->count && now_ns < f->settle_ns) {
        return;
    }
    f->looking = false;
    best = newest(f, &rival);
    if (f->glance) {
        if (best && !rival) {
            glanced(f, best);
        }
    } else if (!best) {
        fail(f);
    } else if (rival) {
        disagree(f, best, rival);
    } else {
        lead(f, best);
    }
}

/* ---- Driving ---------------------------------------------------------------------------- */

/* Does somebody want to know? Those that follow go where the lead is, or is going. */
static bool is_wanted(struct snib__finder *f)
{
    const struct snib__connection *first = f->followers[0];
    bool settled = first->state != SNIB__CONNECTION_DOWN && !first->seeking;
    bool wanted = first->seeking;
    for (size_t i = 1; i < f->follower_count; i++) {
        if (f->followers[i]->seeking && settled) {
            snib__connection_go(f->followers[i]);
        }
        wanted = wanted || f->followers[i]->seeking;
    }
    return wanted;
}

int64_t snib__finder_keep_time(struct snib__finder *f, int64_t now_ns)
{
    int64_t next_ns = SNIB__NEVER;
    const struct snib__connection *first = f->followers[0];
    if (is_wanted(f) && (!f->looking || f->glance)) {
        begin(f, now_ns, false);
    } else if (!f->looking && first->state == SNIB__CONNECTION_UP &&
               !snib__connection_idle(first) && now_ns >= f->begun_ns + GLANCE_NS) {
        begin(f, now_ns, true);
    }
    for (size_t i = 0; i < f->count; i++) {
        struct snib__connection *c = &f->sentinels[i].connection;
        snib__connection_expire(c, now_ns);
        snib__connection_flush(c);
        int64_t due_ns = snib__connection_next(c);
        next_ns = due_ns < next_ns ? due_ns : next_ns;
    }
    if (f->looking) {
        decide(f, now_ns);
    }
    return f->looking && f->settle_ns < next_ns ? f->settle_ns : next_ns;
}

size_t snib__finder_poll(const struct snib__finder *f, struct pollfd fds[SNIB__FINDER_FDS])
{
    size_t n = 0;
    for (size_t i = 0; i < f->count; i++) {
        const struct snib__connection *c = &f->sentinels[i].connection;
        n += !snib__connection_idle(c) && snib__connection_poll(c, &fds[n]);
    }
    return n;
}

bool snib__finder_ready(const struct snib__finder *f)
{
    for (size_t i = 0; i < f->count; i++) {
        if (snib__connection_ready(&f->sentinels[i].connection)) {
            return true;
        }
    }
    return false;
}

void snib__finder_step(struct snib__finder *f, const struct pollfd fds[], size_t n)
{
    for (size_t i = 0; i < f->count; i++) {
        snib__connection_poll_step(&f->sentinels[i].connection, fds, n);
    }
}

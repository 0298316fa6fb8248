/* SPDX-License-Identifier: Apache-2.0 */
/*
 * snib hold --json: any number of locks for a program in another language. Commands are lines on
 * stdin, events are lines of JSON on stdout; docs/hold-json.md specifies both.
 *
 * One thread and one poll: commands start something and never wait for it, and every event is
 * written from a callback inside of snib_dispatch.
 *
 * A claim is what this process has to do with one name, from the acquire to the event that ends
 * it. A lost lock stays a claim until its holder releases it: where it was asked to give the lock
 * up, that is how the others learn that it has stopped.
 *
 * Nothing that is said on stdin ends the conversation, but its end does, and a signal, the death
 * of the parent, and a reader that is gone. Then everything is given back.
 */
#include "converse.h"

#include "announce.h"
#include "environment.h"
#include "input.h"
#include "lines.h"
#include "paths.h"
#include "request.h"
#include "say.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>

#define PROTOCOL 1
#define LAST_WORDS_MS 1000

struct conversation {
    snib *client;
    int event_fd;
    struct announcer out;
    struct lines lines;
    struct claim *claims;
};

struct claim {
    struct claim *next;
    struct conversation *c;
    char *name; /* as it was given */
    char *key;  /* the one spelling of it */
    snib_ticket ticket;
    snib_lease *lease; /* NULL: not yet, or no longer */
    bool leaving;      /* given back, or cancelled: on its way out */
    bool cancelled;
};

/* ---- Events ----------------------------------------------------------------------------- */

static struct json *begin(struct conversation *c, const char *event, const char *name)
{
    struct json *json = announce(&c->out, event);
    if (json) {
        json_text(json, "name", name);
    }
    return json;
}

/* What a name is to this process. NULL: nothing. */
static const char *state_of(const struct claim *claim)
{
    if (!claim) {
        return "none";
    }
    if (claim->leaving) {
        return "leaving";
    }
    switch (claim->lease ? snib_state(claim->lease) : SNIB_WAITING) {
    case SNIB_WAITING:
        return "waiting";
    case SNIB_HELD:
        return "held";
    case SNIB_DOUBTFUL:
        return "doubtful";
    default:
        return "lost";
    }
}

static void announce_ready(struct conversation *c)
{
    struct json *json = announce(&c->out, "ready");
    if (json) {
        json_integer(json, "version", PROTOCOL);
        json_text(json, "snib", snib_version());
        json_text(json, "url", snib_url(c->client));
        announce_end(&c->out);
    }
}

/* `name` may be NULL. `claim` is what is left of it. */
static void announce_error(struct conversation *c, const char *name, const struct claim *claim,
                           int code, const char *message)
{
    struct json *json = begin(c, "error", name);
    if (json) {
        json_text(json, "code", snib_errname(code));
        json_text(json, "message", message);
        json_text(json, "state", state_of(claim));
        announce_end(&c->out);
    }
}

static void announce_busy(const struct claim *claim, const snib_error *error)
{
    struct json *json = begin(claim->c, "busy", claim->name);
    if (json) {
        json_text(json, "holder", error->holder[0] ? error->holder : NULL);
        announce_left(json, error->holder_left_ms);
        announce_end(&claim->c->out);
    }
}

static void announce_held(const struct claim *claim, const char *why)
{
    struct json *json = begin(claim->c, "held", claim->name);
    if (json) {
        json_token(json, "token", snib_token(claim->lease));
        announce_left(json, snib_left_ms(claim->lease));
        json_text(json, "why", why);
        announce_end(&claim->c->out);
    }
}

static void announce_news(const struct claim *claim, const char *event, const snib_event *news)
{
    struct json *json = begin(claim->c, event, claim->name);
    if (json) {
        json_text(json, "why", news->why);
        if (news->state != SNIB_LOST) {
            announce_left(json, news->left_ms);
        }
        announce_end(&claim->c->out);
    }
}

static void announce_over(const struct claim *claim, int code)
{
    struct json *json = begin(claim->c, claim->cancelled ? "cancelled" : "released", claim->name);
    if (json) {
        if (!claim->cancelled) {
            json_text(json, "code", snib_errname(code));
        }
        announce_end(&claim->c->out);
    }
}

static void announce_status(struct conversation *c, const char *name, const struct claim *claim)
{
    struct json *json = begin(c, "status", name);
    if (json) {
        const snib_lease *lease = claim ? claim->lease : NULL;
        json_text(json, "state", state_of(claim));
        json_token(json, "token", lease ? snib_token(lease) : 0);
        announce_left(json, lease ? snib_left_ms(lease) : -1);
        announce_end(&c->out);
    }
}

/* ---- Claims ----------------------------------------------------------------------------- */

static void claim_free(struct claim *claim)
{
    if (claim) {
        free(claim->name);
        free(claim->key);
        free(claim);
    }
}

static void forget(struct claim *claim)
{
    struct claim **where = &claim->c->claims;
    while (*where != claim) {
        where = &(*where)->next;
    }
    *where = claim->next;
    claim_free(claim);
}

/* With its name in the one spelling that the engine would give it, and not in the list yet. */
static struct claim *claim_new(struct conversation *c, const char *name)
{
    struct claim *claim = calloc(1, sizeof *claim);
    if (!claim) {
        return NULL;
    }
    claim->c = c;
    claim->name = strdup(name);
    claim->key = strdup(name);
    if (!claim->name || !claim->key) {
        claim_free(claim);
        return NULL;
    }
    const char *names[] = {claim->key};
    struct options one = {.names = names, .name_count = 1};
    (void)paths_settle(&one, snib_url(c->client));
    return claim;
}

static struct claim *find(const struct claim *like)
{
    struct claim *claim = like->c->claims;
    while (claim && strcmp(claim->key, like->key) != 0) {
        claim = claim->next;
    }
    return claim;
}

static void on_released(int code, const snib_error *error, void *arg)
{
    struct claim *claim = arg;
    (void)error;
    announce_over(claim, code);
    forget(claim);
}

static void give_back(struct claim *claim)
{
    claim->leaving = true;
    if (snib_release_async(&claim->lease, on_released, claim, NULL) < 0) {
        on_released(snib_release(&claim->lease, NULL), NULL, claim); /* out of memory: wait */
    }
}

/* The end of a claim in whatever state it is. An acquire that was answered meanwhile is given back
 * when the answer is taken in. */
static void leave(struct claim *claim)
{
    if (claim->leaving) {
        return;
    }
    if (claim->lease) {
        give_back(claim);
        return;
    }
    claim->leaving = claim->cancelled = true;
    (void)snib_cancel(claim->c->client, claim->ticket);
}

/* ---- What the library says -------------------------------------------------------------- */

static void on_done(snib_lease *lease, const snib_error *error, void *arg)
{
    struct claim *claim = arg;
    claim->lease = lease;
    if (lease && claim->leaving) {
        give_back(claim);
        return;
    }
    if (lease) {
        announce_held(claim, NULL);
        return;
    }
    if (claim->leaving) {
        announce_over(claim, SNIB_OK);
    } else if (error->code == SNIB_EBUSY) {
        announce_busy(claim, error);
    } else {
        announce_error(claim->c, claim->name, NULL, error->code, error->message);
    }
    forget(claim);
}

static void on_event(const snib_event *news, void *arg)
{
    const struct claim *claim = arg;
    if (claim->leaving) {
        return;
    }
    switch (news->state) {
    case SNIB_WAITING:
        announce_news(claim, "waiting", news);
        break;
    case SNIB_HELD:
        announce_held(claim, news->why);
        break;
    case SNIB_DOUBTFUL:
        announce_news(claim, "doubtful", news);
        break;
    case SNIB_LOST:
        announce_news(claim, "lost", news);
        break;
    default:
        break;
    }
}

/* ---- Commands --------------------------------------------------------------------------- */

/* Would it wait for the `snib run` around us, which waits for us? */
static bool waits_for_itself(const struct claim *claim, const snib_options *lock)
{
    const char *names[] = {claim->key};
    struct options one = {.names = names, .name_count = 1, .lock = *lock};
    return environment_check_nested(&(struct lock){.options = &one, .client = claim->c->client}) !=
           0;
}

/* Takes over the claim, which is not in the list yet. */
static void acquire(struct claim *claim, const snib_options *lock)
{
    struct conversation *c = claim->c;
    snib_options options = *lock;
    snib_error error;
    options.on_event = on_event;
    options.arg = claim;
    if (waits_for_itself(claim, lock)) {
        announce_error(c, claim->name, NULL, SNIB_EDEADLK, "held by the snib run around this one");
        claim_free(claim);
    } else if (snib_acquire_async(&claim->ticket, c->client, claim->key, &options, on_done, claim,
                                  &error) < 0) {
        announce_error(c, claim->name, NULL, error.code, error.message);
        claim_free(claim);
    } else {
        claim->next = c->claims;
        c->claims = claim;
    }
}

/* Does what a well-formed command says. */
static void obey(struct conversation *c, const struct request *request)
{
    struct claim *claim = claim_new(c, request->name);
    if (!claim) {
        announce_error(c, request->name, NULL, SNIB_ENOMEM, "out of memory");
        return;
    }
    struct claim *known = find(claim);
    if (request->verb == REQUEST_ACQUIRE && !known) {
        acquire(claim, &request->lock);
        return;
    }
    claim_free(claim);
    if (request->verb == REQUEST_STATUS) {
        announce_status(c, request->name, known);
    } else if (request->verb == REQUEST_ACQUIRE) {
        announce_error(c, request->name, known, SNIB_EINVAL, "already held or asked for here");
    } else if (!known || known->leaving) {
        announce_error(c, request->name, known, SNIB_ESTATE, "neither held nor asked for here");
    } else if (request->verb == REQUEST_CANCEL && known->lease) {
        announce_error(c, request->name, known, SNIB_ESTATE, "granted already: release it");
    } else {
        leave(known);
    }
}

/* A command that is not understood changes nothing: what it names is what it was. */
static void refuse(struct conversation *c, const struct request *request)
{
    struct claim *like = request->name ? claim_new(c, request->name) : NULL;
    announce_error(c, request->name, like ? find(like) : NULL, SNIB_EINVAL, request->wrong);
    claim_free(like);
}

static void take_commands(struct conversation *c, const snib_options *usual)
{
    char *line;
    size_t length;
    while (!c->out.gone && !announce_is_full(&c->out)) {
        struct request request;
        switch (lines_next(&c->lines, &line, &length)) {
        case LINES_NONE:
            return;
        case LINES_TOO_LONG:
            announce_error(c, NULL, NULL, SNIB_EINVAL, "a line of more than 4096 bytes");
            break;
        default:
            if (request_read(&request, line, length, usual)) {
                obey(c, &request);
            } else {
                refuse(c, &request);
            }
        }
    }
}

static void take_arguments(struct conversation *c, const struct options *o)
{
    for (size_t i = 0; i < o->name_count; i++) {
        struct request request = {.verb = REQUEST_ACQUIRE, .lock = o->lock};
        request.name = (char *)(uintptr_t)o->names[i]; /* is copied */
        obey(c, &request);
    }
}

/* ---- The loop --------------------------------------------------------------------------- */

static bool signals_end_it(const struct signals *signals)
{
    bool ends = false;
    for (int number; (number = signals_next(signals, NULL)) != 0;) {
        if (number == SIGTSTP) {
            say("not stopped: it would hold its locks unseen");
        }
        ends |= signals_ends(number);
    }
    return ends;
}

/* While too much waits to be read from us, nothing is read, and all that is seen of stdin is that
 * it hangs up. Answers after how many milliseconds to ask again; -1: never. */
static int watch_input(const struct conversation *c, const struct input *input, struct pollfd *out)
{
    int timeout_ms = input_watch(input, out);
    if (announce_is_full(&c->out)) {
        out->events = POLLRDHUP;
    } else if (input->kind == INPUT_PIPE) {
        out->events = POLLIN;
    }
    return timeout_ms;
}

/* Takes in what has come on stdin. False: that was its end. */
static bool hear_input(struct conversation *c, const struct input *input,
                       const struct pollfd *polled)
{
    return polled->revents & POLLIN ? lines_read(&c->lines, input->fd) : polled->revents == 0;
}

static void talk(struct conversation *c, const struct lock *lock, const struct signals *signals)
{
    struct input input;
    bool open = true;
    input_open(&input);
    while (open && !c->out.gone) {
        struct pollfd fds[4] = {{.fd = signals->fd, .events = POLLIN},
                                {.fd = c->event_fd, .events = POLLIN}};
        announce_watch(&c->out, &fds[2]);
        int timeout_ms = watch_input(c, &input, &fds[3]);
        (void)poll(fds, 4, timeout_ms);
        announce_write(&c->out);
        (void)snib_dispatch(c->client, 0);
        open = !signals_end_it(signals) && hear_input(c, &input, &fds[3]);
        take_commands(c, &lock->options->lock);
    }
}

static void give_all_back(struct conversation *c)
{
    for (struct claim *claim = c->claims, *next; claim; claim = next) {
        next = claim->next;
        leave(claim);
    }
    (void)snib_dispatch(c->client, 0);
    while (c->claims) {
        struct pollfd fds[2] = {{.fd = c->event_fd, .events = POLLIN}};
        announce_watch(&c->out, &fds[1]);
        (void)poll(fds, 2, -1);
        announce_write(&c->out);
        (void)snib_dispatch(c->client, 0);
    }
}

int converse(const struct lock *lock, const struct signals *signals)
{
    struct conversation c = {.client = lock->client, .event_fd = lock->event_fd};
    announce_ready(&c);
    take_arguments(&c, lock->options);
    talk(&c, lock, signals);
    give_all_back(&c);
    announce_close(&c.out, LAST_WORDS_MS);
    return 0;
}

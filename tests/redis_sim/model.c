/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The server: its runs, its connections, the protocol, and who may run what and when.
 */
#include "model.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void model_start(struct model *m, int64_t now_us, uint64_t run)
{
    m->started_us = m->now_us = now_us;
    m->known_scripts = 0;
    m->busy = m->loading = false;
    snprintf(m->run_id, sizeof m->run_id, "%016llx%016llx%08llx", (unsigned long long)run,
             (unsigned long long)(run * 0x9e3779b97f4a7c15ULL), (unsigned long long)(run & 0xffff));
}

static void free_peer(struct peer *p)
{
    bytes_free(&p->in);
    bytes_free(&p->out);
    for (int i = 0; i < p->channel_count; i++) {
        bytes_free(&p->channels[i]);
    }
    free(p);
}

void model_free(struct model *m)
{
    for (int i = 0; i < DATABASES; i++) {
        keys_clear(&m->databases[i]);
    }
    for (int i = 0; i < PEERS; i++) {
        if (m->peers[i]) {
            free_peer(m->peers[i]);
            m->peers[i] = NULL;
        }
    }
}

struct peer *model_accept(struct model *m, void *owner)
{
    for (int i = 0; i < PEERS; i++) {
        if (!m->peers[i]) {
            struct peer *p = calloc(1, sizeof *p);
            assert(p);
            p->used = true;
            p->owner = owner;
            p->allowed = !m->password;
            m->peers[i] = p;
            return p;
        }
    }
    return NULL;
}

void model_hang_up(struct model *m, struct peer *p)
{
    for (int i = 0; i < PEERS; i++) {
        if (m->peers[i] == p) {
            m->peers[i] = NULL;
            free_peer(p);
            return;
        }
    }
}

int64_t model_now_ms(const struct model *m)
{
    return m->now_us / 1000;
}

struct keyspace *model_keys(const struct call *c)
{
    return &c->model->databases[c->peer ? c->peer->database : 0];
}

/* ---- Answers ---------------------------------------------------------------------------- */

void answer_error(struct bytes *out, const char *format, ...)
{
    char text[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    for (char *p = text; *p; p++) {
        *p = *p == '\r' || *p == '\n' ? ' ' : *p;
    }
    bytes_add(out, "-", 1);
    bytes_add(out, text, strlen(text));
    bytes_add(out, "\r\n", 2);
}

static void header(struct bytes *out, char sort, int64_t number)
{
    char text[32];
    size_t at = sizeof text;
    uint64_t left = number < 0 ? 0 - (uint64_t)number : (uint64_t)number;
    text[--at] = '\n';
    text[--at] = '\r';
    do {
        text[--at] = (char)('0' + left % 10);
        left /= 10;
    } while (left);
    if (number < 0) {
        text[--at] = '-';
    }
    text[--at] = sort;
    bytes_add(out, text + at, sizeof text - at);
}

void answer_text(struct bytes *out, struct arg a)
{
    header(out, '$', (int64_t)a.size);
    bytes_add(out, a.at, a.size);
    bytes_add(out, "\r\n", 2);
}

void answer_number(struct bytes *out, int64_t number)
{
    header(out, ':', number);
}

void answer_array(struct bytes *out, size_t count)
{
    header(out, '*', (int64_t)count);
}

void answer_nil(struct bytes *out)
{
    bytes_add(out, "$-1\r\n", 5);
}

void answer_ok(struct bytes *out)
{
    bytes_add(out, "+OK\r\n", 5);
}

/* ---- Messages --------------------------------------------------------------------------- */

static bool listens(const struct peer *p, struct arg channel)
{
    for (int i = 0; i < p->channel_count; i++) {
        if (p->channels[i].size == channel.size &&
            memcmp(p->channels[i].at, channel.at, channel.size) == 0) {
            return true;
        }
    }
    return false;
}

int model_listeners(const struct model *m, struct arg channel)
{
    int n = 0;
    for (int i = 0; i < PEERS; i++) {
        n += m->peers[i] && listens(m->peers[i], channel);
    }
    return n;
}

int model_publish(struct model *m, struct arg channel, struct arg text)
{
    int n = 0;
    for (int i = 0; i < PEERS; i++) {
        struct peer *p = m->peers[i];
        if (p && listens(p, channel)) {
            answer_array(&p->out, 3);
            answer_text(&p->out, (struct arg){"message", 7});
            answer_text(&p->out, channel);
            answer_text(&p->out, text);
            n++;
        }
    }
    return n;
}

/* ---- Running ---------------------------------------------------------------------------- */

/* The server's state comes before the command, in the order the server looks. */
static bool refused(const struct model *m, const struct peer *p, const struct command *c,
                    struct bytes *out)
{
    if (p && !p->allowed && !(c->flags & ENTERS)) {
        answer_error(out, "NOAUTH Authentication required.");
    } else if (m->full && c->flags & GROWS) {
        answer_error(out, "OOM command not allowed when used memory > 'maxmemory'.");
    } else if (m->replica && c->flags & WRITES) {
        answer_error(out, "READONLY You can't write against a read only replica.");
    } else if (m->loading && !(c->flags & (ALWAYS | ENTERS))) {
        answer_error(out, "LOADING Redis is loading the dataset in memory");
    } else if (m->busy && !(c->flags & ENTERS)) {
        answer_error(out, "BUSY Redis is busy running a script. You can only call SCRIPT KILL or "
                          "SHUTDOWN NOSAVE.");
    } else {
        return false;
    }
    return true;
}

void model_run(struct model *m, struct peer *p, int argc, const struct arg argv[],
               struct bytes *out)
{
    const struct command *c = command_find(argv[0]);
    struct call call = {m, p, argc, argv, out};
    if (!c || (m->no_client && arg_is(argv[0], "CLIENT"))) {
        answer_error(out, "ERR unknown command '%.*s'", (int)argv[0].size, argv[0].at);
    } else if (!command_fits(c, argc)) {
        answer_error(out, "ERR wrong number of arguments for '%s' command", c->name);
    } else if (m->no_info && arg_is(argv[0], "INFO")) {
        answer_error(out, "NOPERM this user has no permissions to run the 'info' command");
    } else if (!refused(m, p, c, out)) {
        if (p && p->channel_count > 0 && !arg_is(argv[0], "SUBSCRIBE") &&
            !arg_is(argv[0], "UNSUBSCRIBE") && !arg_is(argv[0], "PING")) {
            answer_error(out, "ERR Can't execute '%s' in this context", c->name);
            return;
        }
        c->run(&call);
    }
}

/* ---- The protocol ----------------------------------------------------------------------- */

enum { ARGS_MOST = 64 };

/* "*3\r\n": the number, or -1 if it is not all there; *at moves behind it. */
static int64_t number_line(const struct bytes *in, size_t *at)
{
    const char *end = memchr(in->at + *at, '\n', in->size - *at);
    if (!end) {
        return -1;
    }
    int64_t number = strtoll(in->at + *at + 1, NULL, 10);
    *at = (size_t)(end - in->at) + 1;
    return number;
}

/* One whole command from `at` on; 0: more has to come. */
static int parse(const struct bytes *in, size_t *at, struct arg argv[ARGS_MOST])
{
    size_t to = *at;
    int64_t argc = to < in->size ? number_line(in, &to) : -1;
    if (argc <= 0 || argc > ARGS_MOST) {
        assert(argc <= 0);
        return 0;
    }
    for (int64_t i = 0; i < argc; i++) {
        int64_t size = to < in->size ? number_line(in, &to) : -1;
        if (size < 0 || to + (size_t)size + 2 > in->size) {
            return 0;
        }
        argv[i] = (struct arg){in->at + to, (size_t)size};
        to += (size_t)size + 2;
    }
    *at = to;
    return (int)argc;
}

/* A stranger may not send much. A greedy server looks at all that has come before it runs AUTH. */
static bool too_much(const struct model *m, struct peer *p)
{
    struct arg argv[ARGS_MOST];
    size_t at = 0;
    int argc;
    while (m->greedy && !p->allowed && (argc = parse(&p->in, &at, argv)) > 0) {
        if (argc > 10) {
            answer_error(&p->out, "ERR Protocol error: unauthenticated multibulk length");
            p->closing = true;
            return true;
        }
    }
    return false;
}

void model_serve(struct model *m, struct peer *p)
{
    struct arg argv[ARGS_MOST];
    size_t at = 0;
    int argc;
    if (p->closing || too_much(m, p)) {
        return;
    }
    while (!p->closing && (argc = parse(&p->in, &at, argv)) > 0) {
        if (!p->allowed && argc > 10) {
            answer_error(&p->out, "ERR Protocol error: unauthenticated multibulk length");
            p->closing = true;
            break;
        }
        model_run(m, p, argc, argv, &p->out);
    }
    if (at > 0) {
        memmove(p->in.at, p->in.at + at, p->in.size - at);
        p->in.size -= at;
    }
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connections: bytes in order, each way on its own time; and the sockets' functions over them.
 *
 * What a client has sent still arrives after it has closed, or after the connection was cut under
 * it: a request may be executed although nobody will hear of it. Or it is swallowed, from one byte
 * on, in one direction or both, and nobody is told. Connections know nothing of each other: one
 * overtakes the other.
 */
#include "world.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

/* NOLINTBEGIN(bugprone-reserved-identifier): the linker's names */
int __real_close(int fd);
ssize_t __real_recv(int fd, void *bytes, size_t size, int flags);
ssize_t __real_send(int fd, const void *bytes, size_t size, int flags);
int __wrap_close(int fd);
ssize_t __wrap_recv(int fd, void *bytes, size_t size, int flags);
ssize_t __wrap_send(int fd, const void *bytes, size_t size, int flags);
/* NOLINTEND(bugprone-reserved-identifier) */

struct wire *wire_of(int fd)
{
    int number = fd - FIRST_FD;
    return number >= 0 && number < world.wire_count ? world.wires[number] : NULL;
}

/* ---- Time ------------------------------------------------------------------------------- */

static int64_t delay_ns(void)
{
    if (world.config.scripted) {
        return world.config.delay_ms * MS;
    }
    if (!world.calm && chance(world.config.slow)) {
        return span_ns(world.config.ttl_ms);
    }
    return 1000 + span_ns(world.config.delay_ms);
}

static int64_t arrival(int64_t *last)
{
    int64_t at = world.now_ns + delay_ns();
    at = at > *last ? at : *last;
    *last = at;
    return at;
}

static void post_bytes(struct wire *w, enum event_kind kind, const char *bytes, size_t size)
{
    struct event event = {.kind = kind, .which = w->number, .size = size};
    event.bytes = malloc(size);
    CHECK(event.bytes != NULL);
    memcpy(event.bytes, bytes, size);
    post(&event, arrival(kind == DATA_UP ? &w->up_ns : &w->down_ns));
}

static void post_all(struct wire *w, enum event_kind kind, const char *bytes, size_t size)
{
    while (size > 0) {
        size_t n = size;
        if (size > 1 && chance(world.config.pieces)) {
            n = 1 + (size_t)roll(size < 60 ? size : 60);
        }
        post_bytes(w, kind, bytes, n);
        bytes += n;
        size -= n;
    }
}

static void post_plain(const struct wire *w, enum event_kind kind, int64_t at_ns)
{
    struct event event = {.kind = kind, .which = w->number};
    post(&event, at_ns);
}

/* ---- Beginning and end ------------------------------------------------------------------ */

struct wire *wire_dial(struct machine *m)
{
    SIM_CHECK(world.wire_count < WIRES, "too many connections");
    struct wire *w = calloc(1, sizeof *w);
    CHECK(w != NULL);
    w->number = world.wire_count;
    w->machine = m->index;
    w->life = m->life;
    w->server = -1;
    world.wires[world.wire_count++] = w;
    note(m->index, "dials connection %d", w->number);
    if (world.now_ns >= m->cut_ns && !m->dead) {
        post_plain(w, CONNECT, world.now_ns + delay_ns());
    } /* else nobody ever answers */
    return w;
}

static void hang_up(struct wire *w)
{
    if (w->peer) {
        model_hang_up(&world.servers[w->server].model, w->peer);
        w->peer = NULL;
    }
}

void wire_cut(struct wire *w, bool reset)
{
    note(w->machine, "connection %d is cut", w->number);
    if (w->peer && !w->hole_up) {
        post_plain(w, END_UP, arrival(&w->up_ns));
    }
    if (!w->closed && !w->hole_down) {
        post_plain(w, reset ? RESET_DOWN : END_DOWN, arrival(&w->down_ns));
    }
    w->hole_up = w->hole_down = true; /* nothing new; what is on its way arrives */
}

void wires_of_machine_end(struct machine *m, bool silently)
{
    for (int i = 0; i < world.wire_count; i++) {
        struct wire *w = world.wires[i];
        if (w->machine == m->index && !w->closed) {
            w->closed = true;
            if (!silently && !w->hole_up) {
                post_plain(w, END_UP, arrival(&w->up_ns));
            }
            w->hole_up = true;
        }
    }
}

void wires_free(void)
{
    for (int i = 0; i < world.wire_count; i++) {
        bytes_free(&world.wires[i]->arrived);
        free(world.wires[i]);
    }
    world.wire_count = 0;
}

/* ---- The server's side ------------------------------------------------------------------ */

void wires_flush(int server)
{
    struct model *m = &world.servers[server].model;
    for (int i = 0; i < PEERS; i++) {
        struct peer *p = m->peers[i];
        if (!p) {
            continue;
        }
        struct wire *w = p->owner;
        if (p->out.size > 0 && !w->hole_down) {
            post_all(w, DATA_DOWN, p->out.at, p->out.size);
        }
        p->out.size = 0;
        if (p->closing) {
            post_plain(w, END_DOWN, arrival(&w->down_ns));
            hang_up(w);
        }
    }
}

static void connect_to_master(struct wire *w)
{
    struct site *s = &world.servers[world.master];
    w->server = world.master;
    if (s->down) {
        w->error = ECONNREFUSED;
    } else if (!w->closed) {
        w->peer = model_accept(&s->model, w);
        w->error = w->peer ? 0 : ECONNREFUSED;
    }
    post_plain(w, CONNECTED, world.now_ns + delay_ns());
}

/* Somebody may want to look at this. */
static void wake(const struct wire *w)
{
    struct machine *m = &world.machines[w->machine];
    if (m->client && m->attends && m->life == w->life && !w->closed) {
        int64_t at = world.now_ns + span_ns(world.calm ? 0 : world.config.lag_ms);
        m->look_ns = at < m->look_ns ? at : m->look_ns;
    }
}

void wire_event(const struct event *e)
{
    struct wire *w = world.wires[e->which];
    switch (e->kind) {
    case CONNECT:
        connect_to_master(w);
        return;
    case CONNECTED:
        w->up = w->error == 0;
        w->failed = w->error != 0;
        break;
    case DATA_UP:
        if (w->peer) {
            bytes_add(&w->peer->in, e->bytes, e->size);
            site_serve(w->server, w);
        }
        return;
    case END_UP:
        hang_up(w);
        return;
    case DATA_DOWN:
        bytes_add(&w->arrived, e->bytes, e->size);
        break;
    case END_DOWN:
        w->ended = true;
        break;
    default:
        w->reset = true;
        break;
    }
    wake(w);
}

/* ---- The client's side ------------------------------------------------------------------ */

short wire_ready(const struct wire *w, short wanted)
{
    short ready = 0;
    if (!w->up) {
        return w->failed ? POLLERR | POLLOUT : 0;
    }
    if (w->arrived.size > w->taken || w->ended || w->reset) {
        ready |= POLLIN;
    }
    if (world.now_ns >= w->full_ns) {
        ready |= POLLOUT;
    }
    return ready & (wanted | POLLERR);
}

int __wrap_close(int fd)
{
    struct wire *w = wire_of(fd);
    if (!w) {
        return __real_close(fd);
    }
    SIM_CHECK(!w->closed || world.machines[w->machine].dead, "a connection is closed twice");
    if (!w->closed && w->up && !w->hole_up) {
        post_plain(w, END_UP, arrival(&w->up_ns));
    } else if (!w->closed && !w->hole_up) { /* given up while dialling */
        post_plain(w, END_UP, world.now_ns + 2 * world.config.ttl_ms * MS);
    }
    w->closed = true;
    return 0;
}

ssize_t __wrap_recv(int fd, void *bytes, size_t size, int flags)
{
    struct wire *w = wire_of(fd);
    if (!w) {
        return __real_recv(fd, bytes, size, flags);
    }
    if (world.machines[w->machine].dead) {
        errno = EAGAIN;
        return -1;
    }
    SIM_CHECK(!w->closed, "recv from a closed connection");
    size_t n = w->arrived.size - w->taken;
    n = n < size ? n : size;
    if (n > 0) {
        memcpy(bytes, w->arrived.at + w->taken, n);
        w->taken += flags & MSG_PEEK ? 0 : n;
        if (w->taken == w->arrived.size) {
            w->taken = w->arrived.size = 0;
        }
        return (ssize_t)n;
    }
    if (w->ended) {
        return 0;
    }
    errno = w->reset ? ECONNRESET : EAGAIN;
    return -1;
}

ssize_t __wrap_send(int fd, const void *bytes, size_t size, int flags)
{
    struct wire *w = wire_of(fd);
    if (!w) {
        return __real_send(fd, bytes, size, flags);
    }
    if (world.machines[w->machine].dead) {
        return (ssize_t)size;
    }
    SIM_CHECK(!w->closed, "send to a closed connection");
    if (w->reset) {
        errno = EPIPE;
        return -1;
    }
    if (world.now_ns < w->full_ns) {
        errno = EAGAIN;
        return -1;
    }
    if (size > 1 && !world.calm && chance(world.config.full)) {
        size = 1 + (size_t)roll(size);
        w->full_ns = world.now_ns + span_ns(world.config.timeout_ms / 2);
    }
    if (!w->hole_up) {
        post_all(w, DATA_UP, bytes, size);
    }
    return (ssize_t)size;
}

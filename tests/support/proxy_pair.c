/*
 * One proxied connection: two sockets, and a flow of bytes each way with its fault.
 *
 * Every byte that was read waits in the flow's ring until it is due; faults decide what is read,
 * what becomes due and what is thrown away. The end of a stream travels like a byte: delayed,
 * stalled or swallowed with the rest. A socket for which there is nothing to wait is left out of
 * poll(2), which would otherwise report its hang-up for ever.
 */
#include "proxy_internal.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

static void finish(struct pair *pair)
{
    if (pair->fd[0] < 0 && pair->fd[1] < 0) {
        pair->used = false;
    }
}

/* ---- Ends ------------------------------------------------------------------------------- */

void pair_close_side(struct pair *pair, int side, enum proxy_end how)
{
    int descriptor = pair->fd[side];
    if (descriptor < 0) {
        return;
    }
    if (how == PROXY_RESET) {
        struct linger at_once = {.l_onoff = 1, .l_linger = 0};
        setsockopt(descriptor, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    } else {
        /* Unread bytes would turn the close into a reset. */
        char unread[4096];
        shutdown(descriptor, SHUT_WR);
        while (recv(descriptor, unread, sizeof unread, MSG_DONTWAIT) > 0) {
        }
    }
    close(descriptor);
    pair->fd[side] = -1;
    pair->connecting = pair->connecting && side != 1;
    /* What the other side still sends has nowhere to go. */
    pair->flow[1 - side].lost = true;
    pair->flow[side].used = 0;
    pair->flow[side].chunk_used = 0;
    finish(pair);
}

void pair_cut(struct pair *pair, enum proxy_end how)
{
    pair_close_side(pair, 0, how);
    pair_close_side(pair, 1, how);
}

/* ---- Start ------------------------------------------------------------------------------ */

static void clear(struct pair *pair)
{
    /* Not the buffers: they are large, and `used` says what counts. */
    pair->used = true;
    pair->connecting = false;
    pair->dark = false;
    pair->last_way = -1;
    for (int i = 0; i < 2; i++) {
        struct pair_flow *flow = &pair->flow[i];
        pair->fd[i] = -1;
        pair->blocked[i] = false;
        flow->head = flow->used = 0;
        flow->chunk_head = flow->chunk_used = 0;
        flow->next_byte_ns = flow->ended_due_ns = 0;
        flow->ended = flow->forwarded = flow->lost = false;
    }
}

void pair_open(struct proxy_state *state, struct pair *pair, int client)
{
    int one = 1;
    clear(pair);
    pair->fd[0] = client;
    setsockopt(client, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    if (state->door == PROXY_DARK) {
        pair->dark = true;
        return;
    }
    struct sockaddr_in address = {
        .sin_family = AF_INET,
        .sin_port = htons((uint16_t)state->target_port),
        .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
    };
    pair->fd[1] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (pair->fd[1] < 0) {
        pair_cut(pair, PROXY_RESET);
        return;
    }
    setsockopt(pair->fd[1], IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    if (connect(pair->fd[1], (struct sockaddr *)&address, sizeof address) != 0) {
        pair->connecting = errno == EINPROGRESS;
        if (!pair->connecting) {
            pair_cut(pair, PROXY_RESET);
        }
    }
}

static void finish_connect(struct pair *pair)
{
    int cause = 0;
    socklen_t size = sizeof cause;
    getsockopt(pair->fd[1], SOL_SOCKET, SO_ERROR, &cause, &size);
    pair->connecting = false;
    if (cause != 0) {
        pair_cut(pair, PROXY_RESET);
    }
}

/* ---- Reading ---------------------------------------------------------------------------- */

static bool swallows(const struct proxy_state *state, const struct pair *pair, int way)
{
    return pair->flow[way].lost || state->mode[way] == PROXY_SWALLOW;
}

static bool wants_read(const struct proxy_state *state, const struct pair *pair, int way)
{
    const struct pair_flow *flow = &pair->flow[way];
    if (pair->fd[way] < 0 || pair->dark || pair->connecting || flow->ended) {
        return false;
    }
    if (swallows(state, pair, way)) {
        return true;
    }
    return state->mode[way] != PROXY_STALL && flow->used < PAIR_BUFFER &&
           flow->chunk_used < PAIR_CHUNKS;
}

static void count_read(struct proxy_state *state, int way, ssize_t bytes)
{
    if (way == 0) {
        state->counts.from_client += (uint64_t)bytes;
    } else {
        state->counts.from_server += (uint64_t)bytes;
    }
}

static int64_t due_time(const struct proxy_state *state, int way)
{
    int64_t now = check_now_ns();
    return state->mode[way] == PROXY_DELAY ? now + (int64_t)state->mode_ms[way] * 1000000 : now;
}

static void append(struct pair_flow *flow, size_t bytes, int64_t due_ns)
{
    size_t last = (flow->chunk_head + flow->chunk_used - 1) % PAIR_CHUNKS;
    if (flow->chunk_used > 0 && flow->chunks[last].due_ns > due_ns) {
        due_ns = flow->chunks[last].due_ns; /* no byte overtakes another */
    }
    size_t next = (flow->chunk_head + flow->chunk_used) % PAIR_CHUNKS;
    flow->chunks[next] = (struct pair_chunk){.bytes = bytes, .due_ns = due_ns};
    flow->chunk_used++;
    flow->used += bytes;
}

static void note_end(struct proxy_state *state, struct pair *pair, int way)
{
    struct pair_flow *flow = &pair->flow[way];
    flow->ended = true;
    flow->ended_due_ns = due_time(state, way);
    if (swallows(state, pair, way)) {
        flow->lost = true;
    }
}

static void read_some(struct proxy_state *state, struct pair *pair, int way)
{
    struct pair_flow *flow = &pair->flow[way];
    unsigned char discarded[4096];
    bool discard = swallows(state, pair, way);
    size_t tail = (flow->head + flow->used) % PAIR_BUFFER;
    size_t room = tail < flow->head ? flow->head - tail : PAIR_BUFFER - tail;
    ssize_t got = discard ? recv(pair->fd[way], discarded, sizeof discarded, MSG_DONTWAIT)
                          : recv(pair->fd[way], flow->buffer + tail, room, MSG_DONTWAIT);
    if (got > 0) {
        count_read(state, way, got);
        if (discard) {
            flow->lost = true;
        } else {
            append(flow, (size_t)got, due_time(state, way));
        }
    } else if (got == 0) {
        note_end(state, pair, way);
    } else if (errno != EAGAIN && errno != EINTR) {
        /* Reset by this side: so shall the other be, unless it must not hear of it. */
        pair_close_side(pair, way, PROXY_RESET);
        if (!discard) {
            pair_close_side(pair, 1 - way, PROXY_RESET);
        }
    }
}

/* ---- Delivering ------------------------------------------------------------------------- */

static size_t bytes_due(const struct proxy_state *state, const struct pair_flow *flow, int way,
                        int64_t now)
{
    size_t due = 0;
    if (state->mode[way] == PROXY_STALL || flow->used == 0) {
        return 0;
    }
    if (state->mode[way] == PROXY_DRIBBLE) {
        return now >= flow->next_byte_ns ? 1 : 0;
    }
    for (size_t i = 0; i < flow->chunk_used; i++) {
        const struct pair_chunk *chunk = &flow->chunks[(flow->chunk_head + i) % PAIR_CHUNKS];
        if (chunk->due_ns > now) {
            break;
        }
        due += chunk->bytes;
    }
    return due;
}

static void remove_bytes(struct pair_flow *flow, size_t bytes)
{
    flow->head = (flow->head + bytes) % PAIR_BUFFER;
    flow->used -= bytes;
    while (bytes > 0) {
        struct pair_chunk *chunk = &flow->chunks[flow->chunk_head];
        size_t part = bytes < chunk->bytes ? bytes : chunk->bytes;
        chunk->bytes -= part;
        bytes -= part;
        if (chunk->bytes == 0) {
            flow->chunk_head = (flow->chunk_head + 1) % PAIR_CHUNKS;
            flow->chunk_used--;
        }
    }
}

static void fire(struct proxy_state *state, struct pair *pair)
{
    int way = state->trigger.way;
    state->trigger.armed = false;
    state->counts.fired++;
    switch (state->trigger.action) {
    case PROXY_THEN_RESET:
        pair_cut(pair, PROXY_RESET);
        break;
    case PROXY_THEN_CLOSE:
        pair_cut(pair, PROXY_CLOSE);
        break;
    case PROXY_THEN_STALL:
        state->mode[way] = PROXY_STALL;
        break;
    case PROXY_THEN_SWALLOW:
        state->mode[way] = PROXY_SWALLOW;
        break;
    }
}

/* How many of `bytes` may go before the trigger acts; false when it has acted instead. */
static bool ask_trigger(struct proxy_state *state, struct pair *pair, int way, size_t *bytes)
{
    if (!state->trigger.armed || state->trigger.way != way) {
        return true;
    }
    if (state->trigger.unit == PROXY_TURNS && pair->last_way == way) {
        return true;
    }
    if (state->trigger.left == 0) {
        fire(state, pair);
        return false;
    }
    if (state->trigger.unit == PROXY_BYTES && *bytes > state->trigger.left) {
        *bytes = (size_t)state->trigger.left;
    }
    return true;
}

static void tell_trigger(struct proxy_state *state, struct pair *pair, int way, size_t sent)
{
    bool turn = pair->last_way != way;
    pair->last_way = way;
    if (!state->trigger.armed || state->trigger.way != way) {
        return;
    }
    if (state->trigger.unit == PROXY_TURNS) {
        state->trigger.left -= turn ? 1 : 0;
        return;
    }
    state->trigger.left -= sent;
    if (state->trigger.left == 0) {
        fire(state, pair);
    }
}

static void count_delivered(struct proxy_state *state, int way, size_t bytes)
{
    if (way == 0) {
        state->counts.to_server += bytes;
    } else {
        state->counts.to_client += bytes;
    }
}

static void deliver(struct proxy_state *state, struct pair *pair, int way)
{
    struct pair_flow *flow = &pair->flow[way];
    int64_t now = check_now_ns();
    if (swallows(state, pair, way) && flow->used > 0) {
        flow->lost = true;
        remove_bytes(flow, flow->used);
    }
    size_t due = bytes_due(state, flow, way, now);
    if (due == 0 || pair->fd[1 - way] < 0 || pair->connecting ||
        !ask_trigger(state, pair, way, &due)) {
        return;
    }
    size_t straight = PAIR_BUFFER - flow->head;
    ssize_t sent = send(pair->fd[1 - way], flow->buffer + flow->head,
                        due < straight ? due : straight, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent > 0) {
        pair->blocked[1 - way] = false;
        flow->next_byte_ns = now + (int64_t)state->mode_ms[way] * 1000000;
        remove_bytes(flow, (size_t)sent);
        count_delivered(state, way, (size_t)sent);
        tell_trigger(state, pair, way, (size_t)sent);
    } else if (errno == EAGAIN) {
        pair->blocked[1 - way] = true;
    } else if (errno != EINTR) {
        pair_cut(pair, PROXY_RESET);
    }
}

/* Passes the end of a stream on once all before it has been delivered. */
static void deliver_end(struct proxy_state *state, struct pair *pair, int way)
{
    struct pair_flow *flow = &pair->flow[way];
    if (flow->ended && !flow->forwarded && !swallows(state, pair, way) && flow->used == 0 &&
        state->mode[way] != PROXY_STALL && check_now_ns() >= flow->ended_due_ns &&
        pair->fd[1 - way] >= 0 && !pair->connecting) {
        shutdown(pair->fd[1 - way], SHUT_WR);
        flow->forwarded = true;
    }
}

static bool is_over(const struct pair *pair, int way)
{
    const struct pair_flow *flow = &pair->flow[way];
    return pair->fd[way] < 0 || (flow->ended && (flow->forwarded || flow->lost));
}

/* ---- For the loop ----------------------------------------------------------------------- */

short pair_events(const struct proxy_state *state, const struct pair *pair, int side)
{
    short events = 0;
    if (pair->fd[side] < 0) {
        return 0;
    }
    if (pair->dark) {
        return POLLRDHUP;
    }
    if (pair->connecting) {
        return side == 1 ? POLLOUT : 0;
    }
    if (wants_read(state, pair, side)) {
        events |= POLLIN;
    }
    if (pair->blocked[side] && pair->flow[1 - side].used > 0 &&
        state->mode[1 - side] != PROXY_STALL) {
        events |= POLLOUT;
    }
    return events;
}

void pair_pump(struct proxy_state *state, struct pair *pair, const short ready[2])
{
    if (pair->dark && (ready[0] & (POLLRDHUP | POLLHUP | POLLERR)) != 0) {
        pair_cut(pair, PROXY_CLOSE);
        return;
    }
    if (pair->connecting && ready[1] != 0) {
        finish_connect(pair);
    }
    for (int side = 0; side < 2; side++) {
        if ((ready[side] & (POLLOUT | POLLHUP | POLLERR)) != 0) {
            pair->blocked[side] = false;
        }
    }
    for (int way = 0; way < 2 && pair->used; way++) {
        if ((ready[way] & (POLLIN | POLLHUP | POLLERR)) != 0 && wants_read(state, pair, way)) {
            read_some(state, pair, way);
        }
        if (pair->used) {
            deliver(state, pair, way);
        }
        if (pair->used) {
            deliver_end(state, pair, way);
        }
    }
    if (pair->used && !pair->dark && is_over(pair, 0) && is_over(pair, 1)) {
        pair_cut(pair, PROXY_CLOSE);
    }
}

static int64_t flow_next_ns(const struct proxy_state *state, const struct pair *pair, int way)
{
    const struct pair_flow *flow = &pair->flow[way];
    if (state->mode[way] == PROXY_STALL || swallows(state, pair, way) || pair->connecting ||
        pair->fd[1 - way] < 0 || pair->blocked[1 - way]) {
        return INT64_MAX;
    }
    if (flow->used > 0) {
        return state->mode[way] == PROXY_DRIBBLE ? flow->next_byte_ns
                                                 : flow->chunks[flow->chunk_head].due_ns;
    }
    return flow->ended && !flow->forwarded ? flow->ended_due_ns : INT64_MAX;
}

int64_t pair_next_ns(const struct proxy_state *state, const struct pair *pair)
{
    int64_t a = flow_next_ns(state, pair, 0);
    int64_t b = flow_next_ns(state, pair, 1);
    return a < b ? a : b;
}

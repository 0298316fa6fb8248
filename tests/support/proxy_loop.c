/*
 * The event loop of the proxy's process.
 *
 * One thread, one poll(2). Commands come through the control socket and are answered only when
 * they are carried out; since nothing else runs meanwhile, a fault is in force for every byte that
 * has not been passed on. The process is forked from a test that may have threads, so it uses no
 * heap: all state is one mapping.
 *
 * A refusing door is a listener that was shut down but stays bound, so that nobody else gets the
 * port. A silent door is a listener whose queue is full: with no room the kernel ignores whoever
 * knocks.
 */
#include "proxy_internal.h"

#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { PAIRS = 512, BACKLOG = 512, FILL_MS = 200 };

/* ---- The door --------------------------------------------------------------------------- */

static int local_port(int descriptor)
{
    struct sockaddr_in address = {0};
    socklen_t size = sizeof address;
    getsockname(descriptor, (struct sockaddr *)&address, &size);
    return ntohs(address.sin_port);
}

static struct pair *free_pair(struct proxy_state *state)
{
    for (size_t i = 0; i < PAIRS; i++) {
        if (!state->pairs[i].used) {
            state->pair_count = i >= state->pair_count ? i + 1 : state->pair_count;
            return &state->pairs[i];
        }
    }
    return NULL;
}

/* Takes one waiting connection; `stranger` is the port of a peer that is to be sent away. */
static bool take_connection(struct proxy_state *state, int stranger)
{
    struct pair *pair = free_pair(state);
    struct sockaddr_in peer = {0};
    socklen_t size = sizeof peer;
    if (pair == NULL) {
        return false;
    }
    int client =
        accept4(state->listener, (struct sockaddr *)&peer, &size, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (client < 0) {
        return false;
    }
    if (ntohs(peer.sin_port) == stranger) {
        close(client);
        return true;
    }
    state->counts.accepted++;
    pair_open(state, pair, client);
    return true;
}

static void fill_queue(struct proxy_state *state)
{
    struct sockaddr_in address = {
        .sin_family = AF_INET,
        .sin_port = htons((uint16_t)local_port(state->listener)),
        .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
    };
    while (take_connection(state, -1)) {
    }
    listen(state->listener, 0);
    /* A client may have been quicker: then the queue is full by itself, and we do not get in. */
    state->filler = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (connect(state->filler, (struct sockaddr *)&address, sizeof address) != 0) {
        struct pollfd connected = {.fd = state->filler, .events = POLLOUT};
        poll(&connected, 1, FILL_MS);
    }
}

static void empty_queue(struct proxy_state *state)
{
    int stranger = local_port(state->filler);
    while (take_connection(state, stranger)) {
    }
    close(state->filler);
    state->filler = -1;
}

static void set_door(struct proxy_state *state, enum proxy_door door)
{
    if (door == state->door) {
        return;
    }
    enum proxy_door before = state->door;
    state->door = door;
    if (before == PROXY_SILENT) {
        empty_queue(state);
    }
    if (door == PROXY_REFUSE) {
        shutdown(state->listener, SHUT_RD);
        return;
    }
    listen(state->listener, BACKLOG);
    if (door == PROXY_SILENT) {
        fill_queue(state);
    }
}

/* ---- Faults ----------------------------------------------------------------------------- */

static void set_mode(struct proxy_state *state, enum proxy_way ways, enum proxy_mode mode, int ms)
{
    for (int way = 0; way < 2; way++) {
        if (((unsigned)ways >> way & 1) != 0) {
            state->mode[way] = mode;
            state->mode_ms[way] = ms;
        }
    }
}

static void cut_all(struct proxy_state *state, enum proxy_end how)
{
    for (size_t i = 0; i < state->pair_count; i++) {
        if (state->pairs[i].used) {
            pair_cut(&state->pairs[i], how);
        }
    }
}

static void half_open_all(struct proxy_state *state, int closed, enum proxy_end how)
{
    for (size_t i = 0; i < state->pair_count; i++) {
        struct pair *pair = &state->pairs[i];
        if (pair->used && !pair->dark) {
            pair_close_side(pair, closed, how);
        }
    }
}

/* Resets what can never work again: half-open and dark connections, and those with lost bytes. */
static void cut_silent(struct proxy_state *state)
{
    for (size_t i = 0; i < state->pair_count; i++) {
        struct pair *pair = &state->pairs[i];
        if (pair->used && (pair->dark || pair->flow[0].lost || pair->flow[1].lost)) {
            pair_cut(pair, PROXY_RESET);
        }
    }
}

static void set_trigger(struct proxy_state *state, enum proxy_way way, uint64_t count,
                        enum proxy_unit unit, enum proxy_action action)
{
    state->trigger.armed = true;
    state->trigger.way = way == PROXY_TO_SERVER ? 0 : 1;
    state->trigger.left = count;
    state->trigger.unit = unit;
    state->trigger.action = action;
}

static void end_faults(struct proxy_state *state)
{
    set_mode(state, PROXY_BOTH, PROXY_PASS, 0);
    state->trigger.armed = false;
    set_door(state, PROXY_OPEN);
}

/* ---- Scripts ---------------------------------------------------------------------------- */

static void begin_step(struct proxy_state *state, const struct proxy_step *step)
{
    state->counts.steps++;
    switch (step->fault) {
    case PROXY_FAULT_RESET:
        cut_all(state, PROXY_RESET);
        break;
    case PROXY_FAULT_CLOSE:
        cut_all(state, PROXY_CLOSE);
        break;
    case PROXY_FAULT_STALL:
        set_mode(state, step->way, PROXY_STALL, 0);
        break;
    case PROXY_FAULT_SWALLOW:
        set_mode(state, step->way, PROXY_SWALLOW, 0);
        break;
    case PROXY_FAULT_DRIBBLE:
        set_mode(state, step->way, PROXY_DRIBBLE, step->value_ms);
        break;
    case PROXY_FAULT_DELAY:
        set_mode(state, step->way, PROXY_DELAY, step->value_ms);
        break;
    case PROXY_FAULT_REFUSE:
        set_door(state, PROXY_REFUSE);
        break;
    case PROXY_FAULT_DARK:
        set_door(state, PROXY_DARK);
        break;
    case PROXY_FAULT_SILENT:
        set_door(state, PROXY_SILENT);
        break;
    case PROXY_FAULT_HALF_OPEN:
        half_open_all(state, (step->way & PROXY_TO_SERVER) != 0 ? 0 : 1, PROXY_CLOSE);
        break;
    case PROXY_FAULT_LOSE_REPLY:
        set_trigger(state, PROXY_TO_CLIENT, 0, PROXY_BYTES, PROXY_THEN_RESET);
        break;
    case PROXY_FAULT_ALL:
        break;
    }
}

static void play(struct proxy_state *state)
{
    int64_t now = check_now_ns();
    if (!state->play.on || now < state->play.next_ns) {
        return;
    }
    if (state->play.resting) {
        proxy_script_next(&state->play.script, &state->play.random, &state->play.step);
        begin_step(state, &state->play.step);
        state->play.next_ns = now + (int64_t)state->play.step.fault_ms * 1000000;
    } else {
        end_faults(state);
        cut_silent(state);
        state->play.next_ns = now + (int64_t)state->play.step.rest_ms * 1000000;
    }
    state->play.resting = !state->play.resting;
}

static void start_script(struct proxy_state *state, const struct proxy_script *script)
{
    state->play.on = true;
    state->play.resting = true;
    state->play.script = *script;
    state->play.random = script->seed;
    state->play.next_ns = check_now_ns();
}

/* ---- Commands --------------------------------------------------------------------------- */

static void carry_out(struct proxy_state *state, const struct proxy_command *command)
{
    switch (command->order) {
    case PROXY_ORDER_COUNTS:
        break;
    case PROXY_ORDER_TARGET:
        state->target_port = command->a;
        break;
    case PROXY_ORDER_SET:
        set_mode(state, (enum proxy_way)command->a, (enum proxy_mode)command->b, command->c);
        break;
    case PROXY_ORDER_DOOR:
        set_door(state, (enum proxy_door)command->a);
        break;
    case PROXY_ORDER_HEAL:
        state->play.on = false;
        end_faults(state);
        break;
    case PROXY_ORDER_CUT:
        cut_all(state, (enum proxy_end)command->a);
        break;
    case PROXY_ORDER_HALF_OPEN:
        half_open_all(state, command->a, (enum proxy_end)command->b);
        break;
    case PROXY_ORDER_AFTER:
        set_trigger(state, (enum proxy_way)command->a, command->count, (enum proxy_unit)command->b,
                    (enum proxy_action)command->c);
        break;
    case PROXY_ORDER_SCRIPT:
        start_script(state, &command->script);
        break;
    }
}

static void answer(struct proxy_state *state)
{
    state->counts.armed = state->trigger.armed;
    state->counts.open = 0;
    for (size_t i = 0; i < state->pair_count; i++) {
        state->counts.open += state->pairs[i].used ? 1 : 0;
    }
    if (send(state->control, &state->counts, sizeof state->counts, MSG_NOSIGNAL) < 0) {
        _exit(0);
    }
}

static void take_command(struct proxy_state *state)
{
    struct proxy_command command;
    ssize_t got = recv(state->control, &command, sizeof command, 0);
    if (got == (ssize_t)sizeof command) {
        carry_out(state, &command);
        answer(state);
    } else if (got >= 0 || errno != EINTR) {
        _exit(0); /* the test is gone */
    }
}

/* ---- The loop --------------------------------------------------------------------------- */

static struct timespec until_next(const struct proxy_state *state)
{
    int64_t next = state->play.on ? state->play.next_ns : INT64_MAX;
    for (size_t i = 0; i < state->pair_count; i++) {
        if (state->pairs[i].used) {
            int64_t one = pair_next_ns(state, &state->pairs[i]);
            next = one < next ? one : next;
        }
    }
    int64_t now = check_now_ns();
    int64_t left = next > now ? next - now : 0;
    if (next == INT64_MAX) {
        left = INT64_C(3600) * 1000000000;
    }
    struct timespec span = {.tv_sec = left / 1000000000, .tv_nsec = left % 1000000000};
    return span;
}

static void prepare_poll(const struct proxy_state *state, struct pollfd *list)
{
    bool listening = state->door == PROXY_OPEN || state->door == PROXY_DARK;
    list[0] = (struct pollfd){.fd = state->control, .events = POLLIN};
    list[1] = (struct pollfd){.fd = listening ? state->listener : -1, .events = POLLIN};
    for (size_t i = 0; i < state->pair_count; i++) {
        const struct pair *pair = &state->pairs[i];
        for (int side = 0; side < 2; side++) {
            short events = pair->used ? pair_events(state, pair, side) : 0;
            list[2 + 2 * i + (size_t)side] =
                (struct pollfd){.fd = events != 0 ? pair->fd[side] : -1, .events = events};
        }
    }
}

/* `listen_to_test`: false right after a command, so that a test that asks again and again leaves
 * the connections their turns. Answers whether a command was carried out. */
static bool turn(struct proxy_state *state, struct pollfd *list, bool listen_to_test)
{
    prepare_poll(state, list);
    size_t polled = state->pair_count;
    struct timespec span = {0};
    if (listen_to_test) {
        span = until_next(state);
    } else {
        list[0].fd = -1;
    }
    if (ppoll(list, 2 + 2 * polled, &span, NULL) < 0) {
        return false;
    }
    if (list[0].revents != 0) {
        /* What poll found for the others may not hold any more: look again. */
        take_command(state);
        return true;
    }
    play(state);
    for (size_t i = 0; i < polled; i++) {
        const short ready[2] = {list[2 + 2 * i].revents, list[3 + 2 * i].revents};
        if (state->pairs[i].used) {
            pair_pump(state, &state->pairs[i], ready);
        }
    }
    if (list[1].revents != 0 && (state->door == PROXY_OPEN || state->door == PROXY_DARK)) {
        take_connection(state, -1);
    }
    return false;
}

_Noreturn void proxy_loop(int listener, int control, int target_port)
{
    static struct pollfd list[2 + 2 * PAIRS];
    static struct proxy_state state;
    state.listener = listener;
    state.control = control;
    state.target_port = target_port;
    state.filler = -1;
    state.pairs = mmap(NULL, PAIRS * sizeof *state.pairs, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (state.pairs == MAP_FAILED) {
        _exit(1);
    }
    for (bool commanded = false;;) {
        commanded = turn(&state, list, !commanded);
    }
}

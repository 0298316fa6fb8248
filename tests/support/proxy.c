/*
 * The test's side of the proxy: forks its process and sends it commands.
 *
 * A process and not a thread, so that it works in any test, is stopped or killed with no effect on
 * the test, and stays out of the race detector's sight. It closes every descriptor it inherits
 * but its own: a copy of somebody's lock or connection must not live on in it.
 */
#include "proxy_internal.h"

#include "port.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

enum { CONTROL_TIMEOUT_MS = 10000, BACKLOG = 512 };

static int listen_on(int port)
{
    int one = 1;
    struct sockaddr_in address = {
        .sin_family = AF_INET,
        .sin_port = htons((uint16_t)port),
        .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
    };
    int descriptor = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (descriptor < 0 || setsockopt(descriptor, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) != 0 ||
        bind(descriptor, (struct sockaddr *)&address, sizeof address) != 0 ||
        listen(descriptor, BACKLOG) != 0) {
        FAIL("cannot listen on port %d: %s", port, strerror(errno));
    }
    return descriptor;
}

static _Noreturn void proxy_process(int listener, int control, int target_port, pid_t parent,
                                    bool dies_with_thread)
{
    setpgid(0, 0);
    if (dies_with_thread) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
    }
    if (getppid() != parent) {
        _exit(0);
    }
    /* Both above everything that is to be closed, in a known order. */
    int low = listener < control ? listener : control;
    int high = listener < control ? control : listener;
    if (low > 3) {
        close_range(3, (unsigned)low - 1, 0);
    }
    if (high > low + 1) {
        close_range((unsigned)low + 1, (unsigned)high - 1, 0);
    }
    close_range((unsigned)high + 1, ~0U, 0);
    proxy_loop(listener, control, target_port);
}

void proxy_start(struct proxy *proxy, int target_port)
{
    int control[2];
    proxy->port = port_claim();
    int listener = listen_on(proxy->port);
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, control) != 0) {
        FAIL("socketpair: %s", strerror(errno));
    }
    pid_t parent = getpid();
    bool main_thread = gettid() == parent;
    fflush(NULL);
    proxy->pid = fork();
    if (proxy->pid < 0) {
        FAIL("fork: %s", strerror(errno));
    }
    if (proxy->pid == 0) {
        proxy_process(listener, control[1], target_port, parent, main_thread);
    }
    setpgid(proxy->pid, proxy->pid);
    check_manage(proxy->pid);
    close(listener);
    close(control[1]);
    proxy->control = control[0];
    proxy_counts(proxy); /* it is there */
}

void proxy_stop(struct proxy *proxy)
{
    if (proxy->pid == 0) {
        return;
    }
    check_unmanage(proxy->pid);
    check_kill(proxy->pid);
    close(proxy->control);
    proxy->pid = 0;
    proxy->control = -1;
}

/* ---- Commands --------------------------------------------------------------------------- */

static struct proxy_counts command(struct proxy *proxy, const struct proxy_command *what)
{
    struct proxy_counts counts;
    struct pollfd answered = {.fd = proxy->control, .events = POLLIN};
    if (send(proxy->control, what, sizeof *what, MSG_NOSIGNAL) != (ssize_t)sizeof *what) {
        FAIL("the proxy does not listen: %s", strerror(errno));
    }
    int ready;
    do {
        ready = poll(&answered, 1, check_ms(CONTROL_TIMEOUT_MS));
    } while (ready < 0 && errno == EINTR);
    if (ready != 1 || recv(proxy->control, &counts, sizeof counts, 0) != (ssize_t)sizeof counts) {
        FAIL("the proxy does not answer");
    }
    return counts;
}

struct proxy_counts proxy_counts(struct proxy *proxy)
{
    return command(proxy, &(struct proxy_command){.order = PROXY_ORDER_COUNTS});
}

void proxy_target(struct proxy *proxy, int target_port)
{
    command(proxy, &(struct proxy_command){.order = PROXY_ORDER_TARGET, .a = target_port});
}

void proxy_set(struct proxy *proxy, enum proxy_way way, enum proxy_mode mode, int ms)
{
    command(proxy, &(struct proxy_command){
                       .order = PROXY_ORDER_SET, .a = (int)way, .b = (int)mode, .c = ms});
}

void proxy_door(struct proxy *proxy, enum proxy_door door)
{
    command(proxy, &(struct proxy_command){.order = PROXY_ORDER_DOOR, .a = (int)door});
}

void proxy_heal(struct proxy *proxy)
{
    command(proxy, &(struct proxy_command){.order = PROXY_ORDER_HEAL});
}

void proxy_cut(struct proxy *proxy, enum proxy_end how)
{
    command(proxy, &(struct proxy_command){.order = PROXY_ORDER_CUT, .a = (int)how});
}

void proxy_half_open(struct proxy *proxy, enum proxy_side closed, enum proxy_end how)
{
    command(proxy, &(struct proxy_command){
                       .order = PROXY_ORDER_HALF_OPEN, .a = (int)closed, .b = (int)how});
}

void proxy_after(struct proxy *proxy, enum proxy_way way, uint64_t count, enum proxy_unit unit,
                 enum proxy_action action)
{
    CHECK(way != PROXY_BOTH);
    CHECK(unit != PROXY_BYTES || count < SIZE_MAX);
    command(proxy, &(struct proxy_command){.order = PROXY_ORDER_AFTER,
                                           .a = (int)way,
                                           .b = (int)unit,
                                           .c = (int)action,
                                           .count = count});
}

static bool has_fired(void *arg)
{
    return !proxy_counts(arg).armed;
}

void proxy_await_fired_at(const char *file, int line, struct proxy *proxy, int timeout_ms)
{
    if (!check_until(has_fired, proxy, timeout_ms)) {
        check_fail_at(file, line, "the proxy's trigger has not acted after %d ms",
                      check_ms(timeout_ms));
    }
}

void proxy_script(struct proxy *proxy, const struct proxy_script *script)
{
    CHECK((script->faults & PROXY_FAULT_ALL) != 0);
    command(proxy, &(struct proxy_command){.order = PROXY_ORDER_SCRIPT, .script = *script});
}

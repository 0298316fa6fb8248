/*
 * The lock server: one process, one poll(2), a table of a few locks that is searched from its
 * start. Writes block: nobody asks for more than a socket holds.
 */
#include "lock_server.h"

#include "port.h"

#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { CLIENTS = 32, LOCKS = 64, DEAD = 256, LINE = 2048, WORDS = 8 };

struct lock {
    char name[512], owner[40], who[512], label[160]; /* name "": this place is free */
    uint64_t token;
    int64_t since_ns, end_ns, ttl_ms, since_unix_ms;
};

struct client {
    size_t used;
    char bytes[LINE];
};

static struct lock_server *shared;
static struct lock locks[LOCKS];
static char dead[DEAD][40]; /* owners that gave back: the last of them */
static unsigned dead_count;
static uint64_t last_token;
static int listener;

/* ---- Locks ------------------------------------------------------------------------------ */

static struct lock *holder_of(const char *name)
{
    for (size_t i = 0; i < LOCKS; i++) {
        if (strcmp(locks[i].name, name) == 0) {
            return &locks[i];
        }
    }
    return NULL;
}

static struct lock *held_by(const char *name, const char *owner)
{
    struct lock *lock = holder_of(name);
    return lock && strcmp(lock->owner, owner) == 0 ? lock : NULL;
}

static void forget_the_late(void)
{
    int held = 0;
    for (size_t i = 0; i < LOCKS; i++) {
        if (locks[i].end_ns <= check_now_ns()) {
            locks[i].name[0] = '\0';
        }
        held += locks[i].name[0] != '\0';
    }
    atomic_store(&shared->held, held);
}

static bool is_dead(const char *owner)
{
    for (size_t i = 0; i < DEAD; i++) {
        if (strcmp(dead[i], owner) == 0) {
            return true;
        }
    }
    return false;
}

static int64_t left_ms(const struct lock *lock)
{
    return (lock->end_ns - check_now_ns()) / 1000000;
}

/* ---- Requests --------------------------------------------------------------------------- */

__attribute__((format(printf, 2, 3))) static void reply(int fd, const char *format, ...)
{
    char line[LINE];
    va_list args;
    va_start(args, format);
    int size = vsnprintf(line, sizeof line, format, args);
    va_end(args);
    ssize_t sent = send(fd, line, (size_t)size, MSG_NOSIGNAL);
    (void)sent; /* who is gone hears nothing */
}

static void take(int fd, char *w[])
{
    struct lock *lock = holder_of(w[2]);
    atomic_fetch_add(&shared->takes, 1);
    if (lock && strcmp(lock->owner, w[3]) == 0) {
        reply(fd, "%s HELD %" PRIu64 " %" PRId64 " %" PRId64 "\n", w[0], lock->token, lock->ttl_ms,
              (check_now_ns() - lock->since_ns) / 1000000);
        return;
    }
    if (lock) {
        reply(fd, "%s BUSY %" PRIu64 " %" PRId64 " %s\n", w[0], lock->token, left_ms(lock),
              lock->who);
        return;
    }
    lock = holder_of("");
    if (!lock || is_dead(w[3])) {
        reply(fd, "%s BUSY 0 0 -\n", w[0]);
        return;
    }
    struct timespec wall;
    clock_gettime(CLOCK_REALTIME, &wall);
    *lock = (struct lock){.token = ++last_token,
                          .since_ns = check_now_ns(),
                          .ttl_ms = atoll(w[4]),
                          .since_unix_ms = wall.tv_sec * 1000 + wall.tv_nsec / 1000000};
    lock->end_ns = lock->since_ns + lock->ttl_ms * 1000000;
    snprintf(lock->name, sizeof lock->name, "%s", w[2]);
    snprintf(lock->owner, sizeof lock->owner, "%s", w[3]);
    snprintf(lock->who, sizeof lock->who, "%s", w[5]);
    snprintf(lock->label, sizeof lock->label, "%s", w[6]);
    reply(fd, "%s HELD %" PRIu64 " %" PRId64 " 0\n", w[0], lock->token, lock->ttl_ms);
}

static void renew(int fd, char *w[])
{
    struct lock *lock = held_by(w[2], w[3]);
    atomic_fetch_add(&shared->renewals, 1);
    if (!lock) {
        reply(fd, "%s LOST\n", w[0]);
        return;
    }
    lock->since_ns = check_now_ns();
    lock->ttl_ms = atoll(w[4]);
    lock->end_ns = lock->since_ns + lock->ttl_ms * 1000000;
    reply(fd, "%s HELD %" PRIu64 " %" PRId64 " 0\n", w[0], lock->token, lock->ttl_ms);
}

static void give(int fd, char *w[])
{
    struct lock *lock = held_by(w[2], w[3]);
    atomic_fetch_add(&shared->gives, 1);
    snprintf(dead[dead_count++ % DEAD], sizeof dead[0], "%s", w[3]);
    if (lock) {
        lock->end_ns = 0;
    }
    forget_the_late();
    reply(fd, "%s %s\n", w[0], lock ? "FREED" : "LOST");
}

static void evict(int fd, char *w[])
{
    struct lock *lock = holder_of(w[2]);
    bool same = lock && lock->token == strtoull(w[3], NULL, 10);
    if (same) {
        lock->end_ns = 0;
    }
    forget_the_late();
    reply(fd, "%s %s\n", w[0], same ? "GONE" : "LOST");
}

static void list(int fd, char *w[], int count)
{
    const char *prefix = strcmp(w[2], "-") == 0 ? "" : w[2];
    for (size_t i = 0; i < LOCKS; i++) {
        const struct lock *l = &locks[i];
        if (l->name[0] && (count > 3 ? strncmp(l->name, prefix, strlen(prefix)) == 0
                                     : strcmp(l->name, prefix) == 0)) {
            reply(fd, "%s SEEN %s %" PRIu64 " %" PRId64 " %s %s %" PRId64 "\n", w[0], l->name,
                  l->token, left_ms(l), l->who, l->label, l->since_unix_ms);
        }
    }
    reply(fd, "%s END\n", w[0]);
}

/* False: not a request, and the client is not worth more of our time. */
static bool obey(int fd, char *line)
{
    char *w[WORDS] = {NULL};
    int count = 0;
    for (char *word; count < WORDS && (word = strsep(&line, " ")) != NULL;) {
        w[count++] = word;
    }
    forget_the_late();
    if (count == 7 && strcmp(w[1], "TAKE") == 0) {
        take(fd, w);
    } else if (count == 5 && strcmp(w[1], "RENEW") == 0) {
        renew(fd, w);
    } else if (count == 4 && strcmp(w[1], "GIVE") == 0) {
        give(fd, w);
    } else if (count == 4 && strcmp(w[1], "EVICT") == 0) {
        evict(fd, w);
    } else if (count >= 3 && strcmp(w[1], "LIST") == 0) {
        list(fd, w, count);
    } else if (count == 2 && strcmp(w[1], "HELLO") == 0) {
        reply(fd, "%s HELLO\n", w[0]);
    } else {
        return false;
    }
    forget_the_late();
    return true;
}

/* ---- Connections ------------------------------------------------------------------------ */

/* False when the client is gone. */
static bool hear(int fd, struct client *client)
{
    ssize_t got = recv(fd, client->bytes + client->used, LINE - client->used, 0);
    if (got <= 0) {
        return false;
    }
    client->used += (size_t)got;
    char *end;
    while ((end = memchr(client->bytes, '\n', client->used)) != NULL) {
        *end = '\0';
        if (!obey(fd, client->bytes)) {
            return false;
        }
        client->used -= (size_t)(end + 1 - client->bytes);
        memmove(client->bytes, end + 1, client->used);
    }
    return client->used < LINE;
}

static void serve(void *arg)
{
    static struct client clients[CLIENTS];
    struct pollfd fds[1 + CLIENTS];
    (void)arg;
    fds[0] = (struct pollfd){.fd = listener, .events = POLLIN};
    for (int i = 1; i <= CLIENTS; i++) {
        fds[i] = (struct pollfd){.fd = -1, .events = POLLIN};
    }
    while (poll(fds, 1 + CLIENTS, 20) >= 0) {
        int place = 0;
        for (int i = 1; i <= CLIENTS; i++) {
            if (fds[i].fd >= 0 && fds[i].revents && !hear(fds[i].fd, &clients[i - 1])) {
                close(fds[i].fd);
                fds[i].fd = -1;
            }
            place = fds[i].fd < 0 ? i : place;
        }
        if (fds[0].revents && place > 0) {
            fds[place].fd = accept(listener, NULL, NULL);
            fds[place].revents = 0;
            clients[place - 1].used = 0;
        }
        forget_the_late();
    }
}

struct lock_server *lock_server_start(void)
{
    int one = 1;
    shared = check_shared(sizeof *shared);
    shared->port = port_claim();
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)shared->port),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (listener < 0 || setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) != 0 ||
        bind(listener, (struct sockaddr *)&address, sizeof address) != 0 ||
        listen(listener, CLIENTS) != 0) {
        FAIL("cannot listen on port %d: %s", shared->port, strerror(errno));
    }
    shared->pid = check_spawn(serve, NULL);
    check_manage(shared->pid);
    close(listener);
    return shared;
}

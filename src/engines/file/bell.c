/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bell: how one session tells another that its turn may have come.
 *
 * A datagram socket in the abstract namespace, made when the first claim has to wait or listens.
 * Its address follows from the pid and the random id that stand in every record of the session.
 * Anybody on the host can send to it; so a ring is a hint that costs whoever gets it one look,
 * and nothing is believed because of it. It can be lost, too (the queue of a socket is short):
 * who finds it full has more than one reason to look, and looks at everything it waits for.
 *
 * Asking a holder to give up is more than a hint. It carries the claim's cookie, which stands in
 * the lock file and nowhere else: who can read that file could as well have locked it.
 */
#include "engines/file/bell.h"

#include "base/list.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define MESSAGE_MAGIC "snibbell"
#define QUEUE_BOUND 10  /* net.unix.max_dgram_qlen: what the kernel keeps for us */
#define HEAR_AT_ONCE 16 /* more than that */
#define HEAR_MAX 64

enum message_type { MESSAGE_RING = 1, MESSAGE_QUIT = 2 };

struct message {
    char magic[8];
    uint32_t type, reserved;
    uint64_t cookie;
    /* MESSAGE_QUIT */
    uint64_t token;
    char who[104];
};

#define RING_BYTES offsetof(struct message, token)

static socklen_t address_of(struct sockaddr_un *out, struct bell_address a)
{
    *out = (struct sockaddr_un){.sun_family = AF_UNIX};
    int n = snprintf(out->sun_path + 1, sizeof out->sun_path - 1, "snib/%u/%016llx", a.pid,
                     (unsigned long long)a.session);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
}

/* ---- Sending ---------------------------------------------------------------------------- */

/* From our own bell, or where we have none, from a socket of the moment. */
static enum rung send_to(const struct bell *b, struct bell_address to, const struct message *m,
                         size_t bytes)
{
    struct sockaddr_un address;
    socklen_t size = address_of(&address, to);
    int fd = b->fd >= 0 ? b->fd : socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        return UNSURE;
    }
    ssize_t n;
    do {
        n = sendto(fd, m, bytes, MSG_DONTWAIT | MSG_NOSIGNAL, (struct sockaddr *)&address, size);
    } while (n < 0 && errno == EINTR);
    enum rung rung = n >= 0 ? RUNG : errno == ECONNREFUSED ? NOBODY : UNSURE;
    if (fd != b->fd) {
        close(fd);
    }
    return rung;
}

static void start(struct message *m, enum message_type type, uint64_t cookie)
{
    *m = (struct message){.type = type, .cookie = cookie};
    memcpy(m->magic, MESSAGE_MAGIC, sizeof m->magic);
}

enum rung snib__file_bell_ring(const struct bell *b, struct bell_address to, uint64_t cookie)
{
    struct message m;
    start(&m, MESSAGE_RING, cookie);
    return send_to(b, to, &m, RING_BYTES);
}

bool snib__file_bell_ask(const struct bell *b, struct bell_address to, uint64_t cookie,
                         uint64_t token, const char *who)
{
    struct message m;
    start(&m, MESSAGE_QUIT, cookie);
    m.token = token;
    snprintf(m.who, sizeof m.who, "%s", who);
    return send_to(b, to, &m, sizeof m) != NOBODY;
}

/* ---- Hearing ---------------------------------------------------------------------------- */

static void on_message(struct bell *b, struct message *m, size_t bytes)
{
    if (bytes < RING_BYTES || memcmp(m->magic, MESSAGE_MAGIC, sizeof m->magic) != 0) {
        return;
    }
    if (m->type == MESSAGE_RING) {
        b->rung(b, m->cookie);
    } else if (m->type == MESSAGE_QUIT && bytes == sizeof *m) {
        m->who[sizeof m->who - 1] = '\0';
        for (char *p = m->who; *p; p++) {
            *p = (unsigned char)*p < 0x20 || *p == 0x7f ? '?' : *p;
        }
        b->asked(b, m->cookie, m->token, m->who);
    }
}

static void hear(struct source *source)
{
    struct bell *b = SNIB__OF(source, struct bell, source);
    struct message messages[HEAR_AT_ONCE];
    struct iovec rooms[HEAR_AT_ONCE];
    struct mmsghdr headers[HEAR_AT_ONCE] = {0};
    for (int i = 0; i < HEAR_AT_ONCE; i++) {
        rooms[i] = (struct iovec){.iov_base = &messages[i], .iov_len = sizeof messages[i]};
        headers[i].msg_hdr = (struct msghdr){.msg_iov = &rooms[i], .msg_iovlen = 1};
    }
    int heard = 0;
    int n = HEAR_AT_ONCE;
    while (heard < HEAR_MAX && n == HEAR_AT_ONCE) {
        n = recvmmsg(b->fd, headers, HEAR_AT_ONCE, MSG_DONTWAIT | MSG_TRUNC, NULL);
        for (int i = 0; i < n; i++) {
            on_message(b, &messages[i], headers[i].msg_len);
        }
        heard += n > 0 ? n : 0;
    }
    if (heard >= QUEUE_BOUND) {
        b->overflowed(b);
    }
}

/* ---- Open and close --------------------------------------------------------------------- */

void snib__file_bell_init(struct bell *b, struct waking *waking, struct bell_address address)
{
    b->waking = waking;
    b->source.ready = hear;
    b->fd = -1;
    b->address = address;
}

int snib__file_bell_open(struct bell *b)
{
    if (b->fd >= 0) {
        return 0;
    }
    struct sockaddr_un address;
    socklen_t size = address_of(&address, b->address);
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    int sys = fd < 0 || bind(fd, (struct sockaddr *)&address, size) < 0 ? errno : 0;
    if (sys != 0) {
        if (fd >= 0) {
            close(fd);
        }
        return sys;
    }
    b->fd = fd;
    snib__file_waking_hear(b->waking, fd, &b->source);
    return 0;
}

void snib__file_bell_close(struct bell *b)
{
    if (b->fd >= 0) {
        snib__file_waking_hear(b->waking, -1, NULL);
        close(b->fd);
        b->fd = -1;
    }
}

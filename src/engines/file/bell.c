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
#include "engines/file/file.h"

#include <errno.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define MESSAGE_MAGIC "snibbell"
#define QUEUE_BOUND 10 /* net.unix.max_dgram_qlen: what the kernel keeps for us */
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

static socklen_t address_of(struct sockaddr_un *out, uint32_t pid, uint64_t session)
{
    *out = (struct sockaddr_un){.sun_family = AF_UNIX};
    int n = snprintf(out->sun_path + 1, sizeof out->sun_path - 1, "snib/%u/%016llx", pid,
                     (unsigned long long)session);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
}

int snib__file_bell_open(struct file_session *fs)
{
    if (fs->bell >= 0) {
        return 0;
    }
    struct sockaddr_un address;
    socklen_t size = address_of(&address, fs->self.pid, fs->self.session);
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    int sys = fd < 0 || bind(fd, (struct sockaddr *)&address, size) < 0 ? errno : 0;
    if (sys == 0) {
        sys = snib__file_reactor_hear(fs, fd);
    }
    if (sys != 0) {
        if (fd >= 0) {
            close(fd);
        }
        return sys;
    }
    fs->bell = fd;
    fs->self.flags |= HAS_BELL;
    return 0;
}

/* ---- Sending ---------------------------------------------------------------------------- */

/* From our own bell, or where we have none, from a socket of the moment. */
static bool send_to(struct file_session *fs, uint32_t pid, uint64_t session,
                    const struct message *m, size_t bytes)
{
    struct sockaddr_un address;
    socklen_t size = address_of(&address, pid, session);
    int fd = fs->bell >= 0 ? fs->bell : socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        return true; /* not known */
    }
    ssize_t n;
    do {
        n = sendto(fd, m, bytes, MSG_DONTWAIT | MSG_NOSIGNAL, (struct sockaddr *)&address, size);
    } while (n < 0 && errno == EINTR);
    bool there = n >= 0 || errno != ECONNREFUSED;
    if (fd != fs->bell) {
        close(fd);
    }
    return there;
}

static void start(struct message *m, enum message_type type, uint64_t cookie)
{
    *m = (struct message){.type = type, .cookie = cookie};
    memcpy(m->magic, MESSAGE_MAGIC, sizeof m->magic);
}

bool snib__file_ring(struct file_session *fs, const struct ring *ring)
{
    struct message m;
    start(&m, MESSAGE_RING, ring->cookie);
    return send_to(fs, ring->pid, ring->session, &m, RING_BYTES);
}

bool snib__file_ask_to_quit(struct file_session *fs, const struct record *r, uint64_t token)
{
    struct message m;
    start(&m, MESSAGE_QUIT, r->cookie);
    m.token = token;
    memcpy(m.who, fs->self.who, sizeof m.who);
    return send_to(fs, r->pid, r->session, &m, sizeof m);
}

/* ---- Hearing ---------------------------------------------------------------------------- */

/* To a claim that is held and listens; anything else is late or forged. */
void snib__file_asked_to_quit(struct file_claim *c, uint64_t token, const char *who)
{
    if (c->phase != PHASE_HELD || c->token != token || !c->claim->listens) {
        return;
    }
    char why[160];
    snprintf(why, sizeof why, "asked to give up by %.100s", who);
    snib__report(c->claim, SNIB_LOST, why);
}

static void on_message(struct file_session *fs, struct message *m, size_t bytes)
{
    if (bytes < RING_BYTES || memcmp(m->magic, MESSAGE_MAGIC, sizeof m->magic) != 0) {
        return;
    }
    struct file_claim *c = snib__file_by_cookie(fs, m->cookie);
    if (!c || !c->file) {
        return;
    }
    if (m->type == MESSAGE_RING && c->phase == PHASE_WAITING) {
        snib__file_poke(c->file);
    } else if (m->type == MESSAGE_QUIT && bytes == sizeof *m) {
        m->who[sizeof m->who - 1] = '\0';
        for (char *p = m->who; *p; p++) {
            *p = (unsigned char)*p < 0x20 || *p == 0x7f ? '?' : *p;
        }
        snib__file_asked_to_quit(c, m->token, m->who);
    }
}

static void poke_all(struct file_session *fs)
{
    for (size_t i = 0; i <= FILE_BUCKETS; i++) {
        struct lockfile *f = i < FILE_BUCKETS ? fs->files[i] : fs->strays;
        for (; f; f = f->next_hash) {
            if (f->waiting.first) {
                snib__file_poke(f);
            }
        }
    }
}

void snib__file_bell_hear(struct file_session *fs)
{
    int heard = 0;
    while (heard < HEAR_MAX) {
        struct message m;
        ssize_t n = recv(fs->bell, &m, sizeof m, MSG_DONTWAIT | MSG_TRUNC);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0) {
            break;
        }
        heard++;
        on_message(fs, &m, (size_t)n);
    }
    if (heard >= QUEUE_BOUND) {
        poke_all(fs);
    }
}

/* ---- Whose cookie ----------------------------------------------------------------------- */

struct file_claim *snib__file_by_cookie(struct file_session *fs, uint64_t cookie)
{
    struct file_claim *c = fs->cookies[cookie % COOKIE_BUCKETS];
    while (c && c->cookie != cookie) {
        c = c->next_cookie;
    }
    return c;
}

void snib__file_cookie_add(struct file_claim *c)
{
    struct file_claim **head = &file_session_of(c->claim)->cookies[c->cookie % COOKIE_BUCKETS];
    if (!c->named) {
        c->named = true;
        c->next_cookie = *head;
        *head = c;
    }
}

void snib__file_cookie_remove(struct file_claim *c)
{
    if (!c->named) {
        return;
    }
    struct file_claim **at = &file_session_of(c->claim)->cookies[c->cookie % COOKIE_BUCKETS];
    while (*at != c) {
        at = &(*at)->next_cookie;
    }
    *at = c->next_cookie;
    c->named = false;
}

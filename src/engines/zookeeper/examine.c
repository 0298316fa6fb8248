/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An examination of the ensemble: what `snib doctor` shows.
 *
 * Each server of the URL is asked what it is, one after the other and on a connection of its own,
 * by the word that ZooKeeper has for that, `srvr`. Meanwhile the session does what a renewal does:
 * a proof, and a look at the base path; and tries what a lock does (trial.c), which leaves nothing.
 * One examination at a time; others wait for it.
 */
#include "engines/zookeeper/examine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SAID_ROOM = 2048, LIMIT_MS = 1500 };

struct snib__zk_probe {
    struct snib__zk_look *look;
    size_t host, reached, serving;
    bool done; /* with all servers */
    bool asked;
    struct snib__dial dial;
    struct snib__stream *stream;
    int fd;
    int64_t due_ns;
    size_t used;
    char said[SAID_ROOM];
};

static struct snib__zk_look *current(const struct snib__zk *z)
{
    for (struct snib__list *l = z->queries.after; l != &z->queries; l = l->after) {
        struct snib__zk_look *look = SNIB__OF(l, struct snib__zk_look, link);
        if (look->examines) {
            return look;
        }
    }
    return NULL;
}

static void tell(struct snib__zk_look *look, enum snib_verdict verdict, const char *about,
                 const char *text, const char *remedy)
{
    snib_finding finding = {.size = sizeof finding,
                            .verdict = (int)verdict,
                            .about = about,
                            .text = text,
                            .remedy = remedy};
    snib__found(look->query, &finding);
}

/* ---- The servers -------------------------------------------------------------------------- */

static const char *place_of(const struct snib__zk *z, size_t i, int *port)
{
    const struct snib__url *url = z->session->url;
    *port = url->host_count && url->hosts[i].port ? url->hosts[i].port : 2181;
    return url->host_count ? url->hosts[i].name : "127.0.0.1";
}

static void hang_up(struct snib__zk_probe *p)
{
    snib__dial_end(&p->dial);
    snib__stream_close(p->stream);
    if (p->fd >= 0) {
        close(p->fd);
    }
    p->stream = NULL;
    p->fd = -1;
}

static void call_up(struct snib__zk *z, struct snib__zk_probe *p)
{
    int port;
    const char *host = place_of(z, p->host, &port);
    p->used = 0;
    p->asked = false;
    int64_t limit_ms = snib__zk_session_patience_ms(&z->at);
    limit_ms = limit_ms < LIMIT_MS ? limit_ms : LIMIT_MS;
    p->due_ns = snib__now().boot_ns + limit_ms * SNIB__MS;
    snib__dial_tcp(&p->dial, host, port, limit_ms);
}

/* What one of them said about itself. */
static void tell_server(struct snib__zk *z, struct snib__zk_probe *p, const char *failed)
{
    char text[400], version[40] = "", mode[24] = "";
    int port;
    const char *host = place_of(z, p->host, &port);
    const char *at = strstr(p->said, "Zookeeper version: ");
    const char *is = strstr(p->said, "Mode: ");
    if (at) {
        sscanf(at + 19, "%39[0-9A-Za-z.]", version);
    }
    if (is) {
        sscanf(is + 6, "%23[a-z-]", mode);
    }
    int n = snprintf(text, sizeof text, "%.200s:%d: ", host, port);
    char *rest = text + n;
    size_t room = sizeof text - (size_t)n;
    if (failed) {
        snprintf(rest, room, "%.150s", failed);
        tell(p->look, SNIB_WARNING, "server", text, "start it, or take it out of the URL");
        return;
    }
    p->reached++;
    if (mode[0]) {
        bool cut = strcmp(mode, "read-only") == 0;
        snprintf(rest, room, "%s, version %s", mode, version);
        p->serving += cut ? 0 : 1;
        tell(p->look, cut ? SNIB_WARNING : SNIB_GOOD, "server", text,
             cut ? "it is cut off from the others: mend the network between them" : NULL);
    } else if (strstr(p->said, "not currently serving")) {
        snprintf(rest, room, "runs, and does not serve: it is not part of a quorum");
        tell(p->look, SNIB_WARNING, "server", text, "start more members, or mend their network");
    } else {
        p->serving++;
        snprintf(rest, room, "answers, and may not say what it is");
        tell(p->look, SNIB_GOOD, "server", text, "4lw.commands.whitelist=srvr lets it say so");
    }
}

static void next_server(struct snib__zk *z, struct snib__zk_probe *p, const char *failed)
{
    size_t hosts = z->session->url->host_count ? z->session->url->host_count : 1;
    p->said[p->used] = '\0';
    tell_server(z, p, failed);
    hang_up(p);
    if (++p->host < hosts) {
        call_up(z, p);
    } else {
        p->done = true;
    }
}

/* ---- The session -------------------------------------------------------------------------- */

static void tell_ensemble(const struct snib__zk *z, const struct snib__zk_probe *p)
{
    size_t hosts = z->session->url->host_count ? z->session->url->host_count : 1;
    char text[120];
    if (p->serving == 0) {
        tell(p->look, SNIB_BAD, "ensemble", "none of the servers serves", "start a majority of it");
    } else if (hosts == 1 && !strstr(p->said, "standalone")) {
        tell(p->look, SNIB_WARNING, "ensemble", "the URL names one server of several",
             "name all of them, so that a lock outlives its server");
    } else {
        snprintf(text, sizeof text, "%zu of %zu servers serve", p->serving, hosts);
        tell(p->look, p->serving == hosts ? SNIB_GOOD : SNIB_WARNING, "ensemble", text, NULL);
    }
}

static void tell_rights(const struct snib__zk *z, struct snib__zk_look *look)
{
    static const char remedy[] = "USER:PASSWORD@ of somebody who may, or another ACL there";
    char text[SNIB__ZK_BASE_MOST + 120];
    const struct snib__zk_trial *trial = &look->trial;
    const char *refused = snib__zk_trial_refused(trial);
    bool denied = look->error == SNIB__ZK_NO_AUTH;
    snprintf(text, sizeof text, "%s %s", z->base[0] ? z->base : "/",
             denied                            ? "may not be listed by this user"
             : look->error == SNIB__ZK_NO_NODE ? "is not there yet, and made on first use"
                                               : "may be listed");
    tell(look, denied ? SNIB_BAD : SNIB_GOOD, "rights", text, denied ? remedy : NULL);
    if (!refused) {
        snprintf(text, sizeof text, "nodes below %s may be made, written and deleted",
                 trial->below[0] ? trial->below : "/");
    } else if (trial->error == SNIB__ZK_NO_AUTH) {
        snprintf(text, sizeof text, "this user may not %s below %s", refused,
                 trial->below[0] ? trial->below : "/");
    } else {
        snprintf(text, sizeof text, "to %s below %s fails with error %d", refused,
                 trial->below[0] ? trial->below : "/", (int)trial->error);
    }
    tell(look, refused ? SNIB_BAD : SNIB_GOOD, "rights", text, refused ? remedy : NULL);
}

static void tell_session(const struct snib__zk *z, struct snib__zk_look *look)
{
    char text[300];
    const struct snib__zk_session *at = &z->at;
    if (look->stage != SNIB__ZK_LOOK_PROBED) {
        tell(look, SNIB_BAD, "session", at->why[0] ? at->why : "none within the time",
             at->denied ? "check user and password" : "check the servers, and the network to them");
        return;
    }
    bool less = at->granted_ms < at->wanted_ms && z->wished;
    snprintf(text, sizeof text,
             "%.1f s (asked for: %.1f s), of which %.1f s are certain after each proof",
             (double)at->granted_ms / 1e3, (double)at->wanted_ms / 1e3,
             (double)at->granted_ms * 5 / 8e3);
    tell(look, less ? SNIB_WARNING : SNIB_GOOD, "session", text,
         less ? "a smaller ttl= or session=, or a larger maxSessionTimeout of the servers" : NULL);
    snprintf(text, sizeof text, "%.1f ms for what a renewal asks", (double)look->round_ns / 1e6);
    bool slow = look->round_ns > at->granted_ms * SNIB__MS / 12;
    tell(look, slow ? SNIB_WARNING : SNIB_GOOD, "latency", text,
         slow ? "a longer session, or servers that are nearer" : NULL);
    tell_rights(z, look);
}

static void ask_session(struct snib__zk *z, struct snib__zk_look *look)
{
    const char *path = z->base[0] ? z->base : "/";
    struct snib__instant now = snib__now();
    if (look->stage == SNIB__ZK_LOOK_PROBE && z->at.ready && !look->under_way &&
        snib__zk_ask_proof(&z->at, path, now) &&
        snib__zk_ask_since(&z->at, SNIB__ZK_ASK_PROBE, look, SNIB__ZK_CHILDREN, path, false, now)) {
        look->under_way++;
        look->asked = true;
        snib__zk_link_flush(&z->at.link);
    }
}

/* ---- Driving ------------------------------------------------------------------------------ */

void snib__zk_examine(struct snib__query *query)
{
    struct snib__zk_look *look = query->state;
    look->examines = true;
    snib__zk_look_submit(query, SNIB__ZK_LOOK_PROBE);
}

static bool begin(struct snib__zk *z, struct snib__zk_look *look)
{
    if (look->probe) {
        return true;
    }
    look->probe = calloc(1, sizeof *look->probe);
    if (!look->probe) {
        snib__zk_look_finish(z, look, SNIB_ENOMEM, "out of memory");
        return false;
    }
    look->probe->look = look;
    look->probe->fd = look->probe->dial.fd = -1;
    call_up(z, look->probe);
    return true;
}

static void end(struct snib__zk_look *look)
{
    if (look->probe) {
        hang_up(look->probe);
        free(look->probe);
        look->probe = NULL;
    }
}

bool snib__zk_examine_poll(struct snib__zk *z, struct pollfd *p)
{
    const struct snib__zk_look *look = current(z);
    if (!look || !look->probe || look->probe->done) {
        return false;
    }
    if (!look->probe->stream) {
        *p = snib__dial_poll(&look->probe->dial);
    } else {
        *p = (struct pollfd){.fd = look->probe->fd,
                             .events =
                                 snib__stream_events(look->probe->stream, !look->probe->asked)};
    }
    return p->fd >= 0;
}

static void converse(struct snib__zk *z, struct snib__zk_probe *p)
{
    size_t n;
    enum snib__streamed now = snib__stream_start(p->stream);
    if (now == SNIB__STREAM_DONE && !p->asked) {
        now = snib__stream_write(p->stream, "srvr", 4, &n);
        p->asked = now == SNIB__STREAM_DONE;
    }
    while (p->asked && p->used < sizeof p->said - 1 &&
           (now = snib__stream_read(p->stream, p->said + p->used, sizeof p->said - 1 - p->used,
                                    &n)) == SNIB__STREAM_DONE) {
        p->used += n;
    }
    if (now == SNIB__STREAM_FAILED && p->used == 0) {
        next_server(z, p, snib__stream_why(p->stream));
    } else if (now == SNIB__STREAM_END || now == SNIB__STREAM_FAILED ||
               p->used == sizeof p->said - 1) {
        next_server(z, p, p->used ? NULL : "closed the connection");
    }
}

void snib__zk_examine_step(struct snib__zk *z)
{
    struct snib__zk_look *look = current(z);
    struct snib__zk_probe *p = look ? look->probe : NULL;
    if (!p || p->done) {
        return;
    }
    if (!p->stream) {
        int port;
        switch (snib__dial_step(&p->dial, &p->fd)) {
        case SNIB__DIAL_GOING:
            return;
        case SNIB__DIAL_FAILED:
            next_server(z, p, p->dial.why);
            return;
        case SNIB__DIAL_DONE:
            p->stream = snib__stream_open(p->fd, z->tls, place_of(z, p->host, &port));
            break;
        }
        if (!p->stream) {
            next_server(z, p, "out of memory");
            return;
        }
    }
    converse(z, p);
}

void snib__zk_examine_tick(struct snib__zk *z, int64_t now_ns)
{
    struct snib__zk_look *look = current(z);
    if (!look || !begin(z, look)) {
        return;
    }
    struct snib__zk_probe *p = look->probe;
    struct pollfd none;
    if (!p->done && now_ns >= p->due_ns) {
        next_server(z, p, p->used ? NULL : "no answer");
    }
    while (!p->done && !snib__zk_examine_poll(z, &none)) {
        snib__zk_examine_step(z); /* known already, of the one just called as well */
    }
    ask_session(z, look);
    if (p->done && (look->stage == SNIB__ZK_LOOK_PROBED || now_ns >= look->due_ns)) {
        tell_ensemble(z, p);
        tell_session(z, look);
        end(look);
        snib__zk_look_finish(z, look, SNIB_OK, NULL);
    }
}

int64_t snib__zk_examine_next(const struct snib__zk *z)
{
    const struct snib__zk_look *look = current(z);
    if (!look || !look->probe) {
        return SNIB__NEVER;
    }
    return look->probe->done ? look->due_ns : look->probe->due_ns;
}

void snib__zk_examine_end(struct snib__zk *z)
{
    for (struct snib__list *l = z->queries.after; l != &z->queries; l = l->after) {
        end(SNIB__OF(l, struct snib__zk_look, link));
    }
}

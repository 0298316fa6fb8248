/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The Redis engine: its table, its URL, and the loop that drives its connections.
 *
 *   redis://[[user][:password]@]host[:port][/db]      default port 6379
 *   unix:///path/of/redis.sock
 *
 * link.c      a connection: pipeline, time-outs          birth.c    is this server fit for locks?
 * native.c    claims: attempt, renew, release            inbox.c    the subscription
 * waiting.c   those in line: re-checks, grants           look.c     inspect, list, break
 * command.c   what goes over the wire                    scripts/   what the server does
 *
 * Nothing here blocks. The server is first contacted by the first attempt.
 */
#include "engines/redis/redis.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

extern const struct snib__engine snib__engine_redis;

#define DAY_MS (24LL * 3600 * 1000)
#define PASSWORD_MAX 1024

static const struct snib__param params[] = {
    [SNIB__REDIS_DB] = {"db", SNIB__COUNT, NULL, 0, 65535, NULL,
                        "the database; with redis: it may also be the path"},
    [SNIB__REDIS_PREFIX] = {"prefix", SNIB__TEXT, "snib", 1, 100, NULL,
                            "in front of the keys and channels"},
    [SNIB__REDIS_NAME] = {"name", SNIB__TEXT, "snib", 1, 60, NULL,
                          "the connection's name in CLIENT LIST"},
    [SNIB__REDIS_PASSFILE] = {"passfile", SNIB__TEXT, NULL, 1, 1000, NULL,
                              "a file with the password, readable by its owner only"},
    [SNIB__REDIS_EVICTION] = {"eviction", SNIB__CHOICE, "refuse", 0, 0, "refuse|allow",
                              "a server that evicts keys when memory is short"},
    [SNIB__REDIS_QUARANTINE] = {"quarantine", SNIB__FLAG, "yes", 0, 1, NULL,
                                "grant nothing on a restarted server until all leases that it "
                                "may have lost are over; no: its data survives restarts"},
    [SNIB__REDIS_STATE] = {"state", SNIB__TEXT, NULL, 1, 1000, NULL,
                           "where to remember which run of the server was seen"},
    [SNIB__REDIS_RETENTION] = {"retention", SNIB__DURATION, "1h", 1000, 30 * DAY_MS, NULL,
                               "how long a free name's last token is kept: the largest backward "
                               "step of the server's clock that tokens survive"},
    [SNIB__REDIS_PASSING] = {"passing", SNIB__FLAG, "yes", 0, 1, NULL,
                             "one grant serves several threads of a process, up to 100 and for "
                             "50 ms, before another process has its turn"},
    [SNIB__REDIS_PARAMS] = {.name = NULL},
};

/* ---- Open and close --------------------------------------------------------------------- */

/* The first line of the file. It must be ours, and nobody else's to read. */
static int read_passfile(struct snib__redis *r, const char *path, snib_error *err)
{
    struct stat about;
    char line[PASSWORD_MAX + 1];
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0 || fstat(fd, &about) < 0) {
        int sys = errno;
        if (fd >= 0) {
            close(fd);
        }
        return snib__fail(err, SNIB_EDENIED, sys, "redis: passfile %s: %s", path, strerror(sys));
    }
    if (!S_ISREG(about.st_mode) || about.st_mode & 077 ||
        (about.st_uid != geteuid() && about.st_uid != 0)) {
        close(fd);
        return snib__fail(err, SNIB_EUNSAFE, 0,
                          "redis: passfile %s must be a file of yours with mode 0600", path);
    }
    ssize_t n = read(fd, line, PASSWORD_MAX);
    close(fd);
    line[n > 0 ? n : 0] = '\0';
    line[strcspn(line, "\r\n")] = '\0';
    r->password = line[0] ? strdup(line) : NULL;
    explicit_bzero(line, sizeof line);
    if (!r->password) {
        return snib__fail(err, SNIB_EINVAL, 0, "redis: passfile %s has no password", path);
    }
    return SNIB_OK;
}

static int read_password(struct snib__redis *r, snib_error *err)
{
    const char *path = r->session->values[SNIB__REDIS_PASSFILE].text;
    const char *given = r->session->url->password;
    bool has = given && given[0];
    if (path && has) {
        return snib__fail(err, SNIB_EINVAL, 0, "redis: a password in the URL and passfile=");
    }
    if (path) {
        return read_passfile(r, path, err);
    }
    r->password = strdup(has ? given : "");
    return r->password ? SNIB_OK : snib__fail(err, SNIB_ENOMEM, 0, "out of memory");
}

static int read_db(struct snib__redis *r, const char *path, snib_error *err)
{
    int64_t number = r->session->values[SNIB__REDIS_DB].number;
    char *rest;
    if (path && path[0] == '/' && path[1]) {
        if (number >= 0) {
            return snib__fail(err, SNIB_EINVAL, 0, "redis: the database as path and as db=");
        }
        number = strtol(path + 1, &rest, 10);
        if (*rest || number < 0 || number > 65535) {
            return snib__fail(err, SNIB_EINVAL, 0, "redis: the path must be a database number");
        }
    }
    snprintf(r->db, sizeof r->db, "%d", number > 0 ? (int)number : 0);
    return SNIB_OK;
}

static int read_place(struct snib__redis *r, snib_error *err)
{
    const struct snib__url *url = r->session->url;
    if (strcmp(url->scheme, "unix") == 0) {
        if (url->host_count || !url->path || url->path[0] != '/' || !url->path[1]) {
            return snib__fail(err, SNIB_EINVAL, 0, "unix: wants a path: unix:///run/redis.sock");
        }
        r->peer.path = url->path;
        snprintf(r->where, sizeof r->where, "%.280s", url->path);
        return read_db(r, NULL, err);
    }
    if (url->host_count > 1) {
        return snib__fail(err, SNIB_EINVAL, 0, "redis: one server, not %zu", url->host_count);
    }
    r->peer.host = url->host_count ? url->hosts[0].name : "127.0.0.1";
    r->peer.port = url->host_count && url->hosts[0].port ? url->hosts[0].port : 6379;
    snprintf(r->where, sizeof r->where, "%.260s:%d", r->peer.host, r->peer.port);
    return read_db(r, url->path, err);
}

static int open_session(struct snib__session *session, snib_error *err)
{
    struct snib__redis *r = snib__redis_of(session);
    r->session = session;
    r->waiting.before = r->waiting.after = &r->waiting;
    r->tick_ns = SNIB__NEVER;
    r->peer.timeout_ms = session->timeout_ms;
    r->quarantine_ms = session->max_lease_ms * 11 / 10 + 2000;
    r->birth.uptime_s = -1;
    snprintf(r->retention, sizeof r->retention, "%lld",
             (long long)session->values[SNIB__REDIS_RETENTION].number);
    if (!session->values[SNIB__REDIS_PASSING].number) {
        session->traits &= ~(unsigned)SNIB_TRAIT_TOKEN_SPAN;
    }
    snib__link_init(&r->link, &snib__redis_calls, &r->peer, r);
    snib__inbox_init(r);
    if (strpbrk(session->values[SNIB__REDIS_PREFIX].text, " \t\r\n\v\f")) {
        return snib__fail(err, SNIB_EINVAL, 0, "redis: prefix= must not have blanks");
    }
    int rc = read_place(r, err);
    rc = rc < 0 ? rc : read_password(r, err);
    if (rc == SNIB_OK && session->url->user[0] && !r->password[0]) {
        rc = snib__fail(err, SNIB_EINVAL, 0,
                        "redis: a user without a password: USER:PASSWORD@, or passfile=");
    }
    return rc;
}

static void close_session(struct snib__session *session)
{
    struct snib__redis *r = snib__redis_of(session);
    if (!r->session) {
        return;
    }
    if (!snib__forked(session)) {
        snib__link_flush(&r->link); /* releases that nobody waited for */
        snib__look_end(r);
    }
    snib__link_close(&r->link);
    snib__link_close(&r->inbox.link);
    if (r->password) {
        explicit_bzero(r->password, strlen(r->password));
        free(r->password);
        r->password = NULL;
    }
    free(r->buckets);
    r->buckets = NULL;
    r->session = NULL;
}

/* ---- Driving ---------------------------------------------------------------------------- */

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Time-outs may be a little late, so that the timer need not be set anew for each request. */
static int64_t roughly(int64_t at_ns)
{
    return at_ns == SNIB__NEVER ? at_ns : at_ns | ((INT64_C(1) << 25) - 1);
}

static int64_t keep_time(struct snib__redis *r, int64_t now_ns)
{
    snib__link_expire(&r->link, now_ns);
    snib__link_expire(&r->inbox.link, now_ns);
    snib__inbox_tick(r, now_ns);
    snib__waiting_tick(r, now_ns);
    snib__link_flush(&r->link);
    snib__link_flush(&r->inbox.link);
    int64_t next = least(snib__link_next(&r->link), snib__link_next(&r->inbox.link));
    return least(least(roughly(next), r->tick_ns), snib__inbox_next(r));
}

static void drive(struct snib__session *session, int64_t until_ns)
{
    struct snib__redis *r = snib__redis_of(session);
    struct snib__redis_link *links[] = {&r->link, &r->inbox.link};
    for (;;) {
        struct pollfd fds[2];
        struct snib__redis_link *of[2];
        size_t n = 0;
        int64_t now_ns = snib__now().boot_ns;
        int64_t next_ns = keep_time(r, now_ns);
        if (now_ns >= until_ns) {
            return;
        }
        for (size_t i = 0; i < 2; i++) {
            if (links[i]->broken ||
                (links[i]->state == SNIB__LINK_DIALLING && !snib__link_poll(links[i], &fds[n]))) {
                next_ns = 0; /* known already */
            } else if (snib__link_poll(links[i], &fds[n])) {
                of[n++] = links[i];
            }
        }
        if (snib__sleep(session, fds, n, least(until_ns, next_ns))) {
            return;
        }
        for (size_t i = 0; i < n; i++) {
            if (fds[i].revents) {
                snib__link_step(of[i], fds[i].revents);
            }
        }
        for (size_t i = 0; i < 2; i++) {
            struct pollfd none;
            if (links[i]->broken ||
                (links[i]->state == SNIB__LINK_DIALLING && !snib__link_poll(links[i], &none))) {
                snib__link_step(links[i], 0);
            }
        }
    }
}

const struct snib__engine snib__engine_redis = {
    .abi = SNIB__ENGINE_ABI,
    .scheme = "redis",
    .aliases = "unix",
    .summary = "one Redis server: a hash per lock, scripts, direct hand-over",
    .promise = "one holder while the server keeps its data and its clock; restarts are waited out",
    .traits = SNIB_TRAIT_FAIR | SNIB_TRAIT_SHARED | SNIB_TRAIT_COUNTED | SNIB_TRAIT_LEASED |
              SNIB_TRAIT_TTL_PER_LOCK | SNIB_TRAIT_TOKEN_SPAN | SNIB_TRAIT_CROSS_HOST |
              SNIB_TRAIT_BREAKS | SNIB_TRAIT_LISTS,
    .session_size = sizeof(struct snib__redis),
    .claim_size = sizeof(struct snib__ticket),
    .query_size = sizeof(struct snib__look),
    .params = params,
    .open = open_session,
    .close = close_session,
    .attempt = snib__redis_attempt_claim,
    .renew = snib__redis_renew_claims,
    .release = snib__redis_release_claim,
    .drive = drive,
    .inspect = snib__redis_inspect,
    .evict = snib__redis_evict_query,
    .examine = snib__redis_examine,
};

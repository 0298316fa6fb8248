/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A session: opening, driving, closing. What is promised is in sql.h.
 */
#include "sql/sql.h"

#include "sql/asking.h"
#include "sql/queries.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- News of the link ------------------------------------------------------------------- */

static struct sql *of_link(struct sql_link *l)
{
    return SNIB__OF(l, struct sql, link);
}

static void joined(struct sql_link *l, const struct sql_welcome *welcome)
{
    struct sql *s = of_link(l);
    s->usable_ns = 0;
    if (welcome->usable_ms > 0 && !s->leased && l->target.quarantines) {
        s->usable_ns = snib__now().boot_ns + welcome->usable_ms * SNIB__MS;
        sql_claims_joined(s);
    }
}

static void parted(struct sql_link *l, const char *why)
{
    sql_claims_parted(of_link(l), why);
}

static void rung(struct sql_link *l, const char *owner)
{
    sql_claims_rung(of_link(l), owner);
}

/* ---- Slots ------------------------------------------------------------------------------ */

void sql_drive(struct snib__session *session, int64_t until_ns)
{
    struct sql *s = sql_of(session);
    bool returns;
    do {
        sql_link_step(&s->link);
        sql_claims_look(s);
        sql_claims_mind(s);
        int64_t next_ns = sql_claims_next(s);
        int64_t sleep_ns = next_ns < until_ns ? next_ns : until_ns;
        struct pollfd p[SQL_POLLS];
        size_t n = sql_link_poll(&s->link, p, &sleep_ns);
        session->wake_ns = next_ns == SNIB__NEVER ? 0 : next_ns;
        returns = snib__sleep(session, p, n, sleep_ns);
        sql_link_ready(&s->link, p, n);
    } while (!returns && snib__now().boot_ns < until_ns);
}

int sql_open(struct snib__session *session, const struct sql_dialect *dialect,
             const struct sql_target *target, const char *space, snib_error *err)
{
    struct sql *s = sql_of(session);
    (void)err;
    *s = (struct sql){.session = session,
                      .dialect = dialect,
                      .space = space,
                      .leased = target->leased,
                      .mode = target->leased ? "lease" : "session"};
    snib__list_init(&s->claims);
    sql_link_init(&s->link, session, dialect, target);
    s->link.joined = joined;
    s->link.parted = parted;
    s->link.rung = rung;
    session->traits &= ~(unsigned)(target->leased ? SNIB_TRAIT_AT_ONCE : SNIB_TRAIT_TTL_PER_LOCK);
    return SNIB_OK;
}

void sql_close(struct snib__session *session)
{
    struct sql *s = sql_of(session);
    if (!s->session) {
        return;
    }
    sql_claims_drop(s);
    sql_queries_drop(s);
    sql_link_close(&s->link);
}

/* ---- For those who open ----------------------------------------------------------------- */

int sql_passfile(char *out, size_t size, const char *engine, const char *path, snib_error *err)
{
    struct stat about;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0 || fstat(fd, &about) < 0) {
        int sys = errno;
        if (fd >= 0) {
            close(fd);
        }
        return snib__fail(err, SNIB_EDENIED, sys, "%s: passfile %s: %s", engine, path,
                          strerror(sys));
    }
    if (!S_ISREG(about.st_mode) || about.st_mode & 077 ||
        (about.st_uid != geteuid() && about.st_uid != 0)) {
        close(fd);
        return snib__fail(err, SNIB_EUNSAFE, 0,
                          "%s: passfile %s must be a file of yours with mode 0600", engine, path);
    }
    ssize_t n = read(fd, out, size - 1);
    close(fd);
    out[n > 0 ? n : 0] = '\0';
    out[strcspn(out, "\r\n")] = '\0';
    return out[0]
               ? SNIB_OK
               : snib__fail(err, SNIB_EINVAL, 0, "%s: passfile %s has no password", engine, path);
}

bool sql_is_loopback(const char *host)
{
    unsigned char address[16];
    return strcmp(host, "localhost") == 0 || strcmp(host, "::1") == 0 ||
           (inet_pton(AF_INET, host, address) == 1 && address[0] == 127);
}

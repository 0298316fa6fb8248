/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of the file engine share: a private place, clients, and helpers that hold. */
#ifndef SNIB_TESTS_FILE_TEST_H
#define SNIB_TESTS_FILE_TEST_H

#include "check.h"
#include "engines/file/directory.h"
#include "engines/file/lockfile.h"
#include "snib.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PATIENCE_MS = 15000 };

static inline const char *locks(void)
{
    static char path[256];
    if (!path[0]) {
        snprintf(path, sizeof path, "%s/locks", check_tmpdir());
        CHECK(mkdir(path, 0700) == 0);
    }
    return path;
}

static inline const char *locks_url(void)
{
    static char url[300];
    snprintf(url, sizeof url, "file://%s", locks());
    return url;
}

/* Where the lock file of a name is. */
static inline const char *lock_path(const char *name)
{
    static char path[600];
    char file_name[FILE_NAME_BYTES];
    snib__file_name_encode(file_name, name);
    snprintf(path, sizeof path, "%s/%s", locks(), file_name);
    return path;
}

static inline snib *client_at(const char *url)
{
    snib *client;
    snib_error error;
    CHECK_OK(snib_open(&client, url, &error), error.message);
    return client;
}

static inline snib *client_here(void)
{
    return client_at(locks_url());
}

static inline snib_options waiting(int mode, int64_t wait_ms)
{
    snib_options options = SNIB_OPTIONS;
    options.mode = mode;
    options.wait_ms = wait_ms;
    return options;
}

static inline snib_options counting(unsigned permits, int64_t wait_ms)
{
    snib_options options = waiting(SNIB_COUNTED, wait_ms);
    options.permits = permits;
    return options;
}

static inline snib_lease *take_with(snib *client, const char *name, const snib_options *options)
{
    snib_lease *lease;
    snib_error error;
    CHECK_OK(snib_acquire(&lease, client, name, options, &error), error.message);
    return lease;
}

static inline snib_lease *take(snib *client, const char *name)
{
    snib_options options = waiting(SNIB_EXCLUSIVE, PATIENCE_MS);
    return take_with(client, name, &options);
}

static inline void give(snib_lease **lease)
{
    snib_error error;
    CHECK_OK(snib_release(lease, &error), error.message);
}

/* What a try answers; a lease that comes of it is given back. */
static inline int try_with(snib *client, const char *name, snib_options options, snib_error *error)
{
    snib_lease *lease;
    options.wait_ms = 0;
    int code = snib_acquire(&lease, client, name, &options, error);
    if (code == 0) {
        give(&lease);
    }
    return code;
}

static inline int try_it(snib *client, const char *name)
{
    snib_error error;
    return try_with(client, name, waiting(SNIB_EXCLUSIVE, 0), &error);
}

static inline int64_t elapsed_ms(int64_t since_ns)
{
    return (check_now_ns() - since_ns) / 1000000;
}

/* ---- A process that holds or waits ------------------------------------------------------ */

struct helper {
    char url[300];
    char name[208];
    snib_options options;
    char label[64];
    pid_t pid;
    struct check_flag ready, held, let_go, released;
    uint64_t token;
    int code;
    int64_t held_ns;
    void (*before)(struct helper *); /* in the helper, before it acquires */
};

static inline void helper_main(void *arg)
{
    struct helper *h = arg;
    snib_error error;
    snib_lease *lease;
    snib *client = client_at(h->url);
    h->options.label = h->label;
    if (h->before) {
        h->before(h);
    }
    check_flag_set(&h->ready);
    h->code = snib_acquire(&lease, client, h->name, &h->options, &error);
    h->held_ns = check_now_ns();
    if (h->code == 0) {
        h->token = snib_token(lease);
        check_flag_set(&h->held);
        check_flag_wait(&h->let_go, 2 * PATIENCE_MS);
        give(&lease);
    } else {
        check_flag_set(&h->held);
    }
    check_flag_set(&h->released);
    snib_close(client);
}

static inline struct helper *helper_make(const char *name, snib_options options)
{
    struct helper *h = check_shared(sizeof *h);
    snprintf(h->url, sizeof h->url, "%s", locks_url());
    CHECK(strlen(name) < sizeof h->name);
    strcpy(h->name, name);
    snprintf(h->label, sizeof h->label, "helper");
    h->options = options;
    return h;
}

static inline void helper_start(struct helper *h)
{
    h->pid = check_spawn(helper_main, h);
}

/* A process that has the lock when this returns. */
static inline struct helper *holder(const char *name, int mode)
{
    struct helper *h = helper_make(name, waiting(mode, PATIENCE_MS));
    helper_start(h);
    check_flag_wait(&h->held, PATIENCE_MS);
    CHECK_INT(h->code, ==, 0);
    return h;
}

static inline void let_go(struct helper *h)
{
    check_flag_set(&h->let_go);
    check_join(h->pid, PATIENCE_MS);
}

enum { AT_ONCE_MS = 1000 }; /* less than any timer that would find it, too */

static inline void must_come_at_once(struct helper *h)
{
    int64_t start = check_now_ns();
    check_flag_wait(&h->held, PATIENCE_MS);
    CHECK_INT(h->code, ==, 0);
    CHECK_INT(elapsed_ms(start), <, check_ms(AT_ONCE_MS));
}

/* ---- A gate that stays closed ---------------------------------------------------------- */

struct keeper {
    char path[600];
    pid_t pid;
    struct check_flag closed;
};

/* As good as a process that was stopped inside the gate. */
static inline void keep_gate(void *arg)
{
    struct keeper *k = arg;
    int fd = open(k->path, O_RDWR | O_CLOEXEC);
    CHECK(fd >= 0);
    CHECK_INT(snib__file_lock_range(fd, F_WRLCK, GATE_AT, 1), ==, 0);
    check_flag_set(&k->closed);
    pause();
}

static inline struct keeper *close_gate(const char *name)
{
    struct keeper *k = check_shared(sizeof *k);
    snprintf(k->path, sizeof k->path, "%s", lock_path(name));
    k->pid = check_spawn(keep_gate, k);
    check_flag_wait(&k->closed, PATIENCE_MS);
    return k;
}

/* ---- What is seen ----------------------------------------------------------------------- */

struct seen {
    size_t holders, waiters;
    struct {
        char who[128], label[64];
        uint64_t token;
        int mode, place;
        unsigned permits;
        int64_t since_unix_ms, left_ms;
        char name[208];
    } all[64];
};

static inline int note_seen(const snib_seen *s, void *arg)
{
    struct seen *out = arg;
    size_t i = out->holders + out->waiters;
    CHECK(i < 64);
    snprintf(out->all[i].who, sizeof out->all[i].who, "%s", s->who);
    snprintf(out->all[i].label, sizeof out->all[i].label, "%s", s->label);
    snprintf(out->all[i].name, sizeof out->all[i].name, "%s", s->name);
    out->all[i].token = s->token;
    out->all[i].mode = s->mode;
    out->all[i].place = s->place;
    out->all[i].permits = s->permits;
    out->all[i].since_unix_ms = s->since_unix_ms;
    out->all[i].left_ms = s->left_ms;
    if (s->place == 0) {
        CHECK_INT(out->waiters, ==, 0);
        out->holders++;
    } else {
        out->waiters++;
        CHECK_INT(s->place, ==, out->waiters);
    }
    return 0;
}

static inline struct seen inspect(snib *client, const char *name)
{
    struct seen seen;
    snib_error error;
    memset(&seen, 0, sizeof seen);
    CHECK_OK(snib_inspect(client, name, note_seen, &seen, &error), error.message);
    return seen;
}

static inline void await_waiters(snib *client, const char *name, size_t count)
{
    int64_t start = check_now_ns();
    while (inspect(client, name).waiters != count) {
        if (elapsed_ms(start) > check_ms(PATIENCE_MS)) {
            FAIL("%zu wait for %s, expected %zu", inspect(client, name).waiters, name, count);
        }
        check_sleep_ms(1);
    }
}

/* A process in the queue when this returns. */
static inline struct helper *waiter(snib *client, const char *name, int mode)
{
    size_t before = inspect(client, name).waiters;
    struct helper *h = helper_make(name, waiting(mode, 2 * PATIENCE_MS));
    helper_start(h);
    await_waiters(client, name, before + 1);
    return h;
}

#endif

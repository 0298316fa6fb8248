/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the tests of the etcd engine share.
 */
#ifndef SNIB_TESTS_ETCD_WORLD_H
#define SNIB_TESTS_ETCD_WORLD_H

#include "check.h"
#include "etcd_gateway.h"

#include <snib.h>
#include <stdio.h>
#include <stdlib.h>

enum { LONG_MS = 20000 };

static inline snib *client_of(const char *url)
{
    snib *client;
    snib_error error;
    setenv("SNIB_MODULES", TEST_BUILD_DIR "/engines", 1);
    CHECK_OK(snib_open(&client, url, &error), error.message);
    return client;
}

static inline snib *client_at(int port, const char *parameters)
{
    char url[300];
    snprintf(url, sizeof url, "etcd://127.0.0.1:%d%s%s", port, parameters[0] ? "?" : "",
             parameters);
    return client_of(url);
}

static inline snib_lease *take(snib *client, const char *name, const snib_options *options)
{
    snib_lease *lease;
    snib_error error;
    snib_options patient = SNIB_OPTIONS;
    patient.wait_ms = check_ms(LONG_MS);
    CHECK_OK(snib_acquire(&lease, client, name, options ? options : &patient, &error),
             error.message);
    return lease;
}

static inline void give(snib_lease *lease)
{
    snib_error error;
    CHECK_OK(snib_release(&lease, &error), error.message);
}

static inline bool is_lost(void *lease)
{
    return snib_state(lease) == SNIB_LOST;
}

/* Somebody who waits when told to go, in a process of its own; spawned before any client is opened.
 */
struct waiter {
    char url[300];
    snib_options options;
    struct check_flag go, held, let_go, over;
    _Atomic uint64_t token;
    _Atomic int64_t held_ns;
};

static inline void wait_in_line(void *arg)
{
    struct waiter *w = arg;
    check_flag_wait(&w->go, 4 * LONG_MS);
    snib *client = client_of(w->url);
    snib_lease *lease = take(client, "name", &w->options);
    atomic_store(&w->held_ns, check_now_ns());
    atomic_store(&w->token, snib_token(lease));
    check_flag_set(&w->held);
    check_flag_wait(&w->let_go, 4 * LONG_MS);
    give(lease);
    snib_close(client);
    check_flag_set(&w->over);
}

static inline struct waiter *waiter_new(const char *url)
{
    struct waiter *w = check_shared(sizeof *w);
    snprintf(w->url, sizeof w->url, "%s", url);
    w->options = (snib_options)SNIB_OPTIONS;
    w->options.wait_ms = check_ms(2 * LONG_MS);
    return w;
}

#endif

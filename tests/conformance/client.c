/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The small steps most cases are made of: open, take, be refused, give back, look.
 *
 * Each step checks its own answer, so that a case reads as what happens and not as error
 * handling. A case that is about an answer calls the library itself.
 */
#include "conformance.h"

#include <poll.h>
#include <stdio.h>

/* ---- Clients and leases ----------------------------------------------------------------- */

snib *client_at(const char *url)
{
    snib *client = NULL;
    snib_error error = {0};
    CHECK_OK(snib_open(&client, url, &error), error.message);
    CHECK(client != NULL);
    return client;
}

snib *client_here(void)
{
    return client_at(place());
}

snib_lease *take(snib *client, const char *name, const snib_options *options)
{
    snib_options patient = SNIB_OPTIONS;
    patient.wait_ms = check_ms(PATIENCE_MS);
    snib_lease *lease = NULL;
    snib_error error = {0};
    CHECK_OK(snib_acquire(&lease, client, name, options != NULL ? options : &patient, &error),
             error.message);
    CHECK(lease != NULL);
    CHECK_INT(snib_state(lease), ==, SNIB_HELD);
    CHECK_UINT(snib_token(lease), >, 0);
    CHECK_INT(snib_left_ms(lease), >, 0);
    CHECK_STR(snib_name(lease), name);
    return lease;
}

int refused(snib *client, const char *name, const snib_options *options, snib_error *err)
{
    char garbage;
    snib_lease *lease = (snib_lease *)&garbage; /* must be overwritten */
    snib_error error = {0};
    int code = snib_acquire(&lease, client, name, options, &error);
    CHECK_INT(code, <, 0);
    CHECK(lease == NULL);
    CHECK_INT(error.code, ==, code);
    CHECK(error.message[0] != '\0');
    if (err != NULL) {
        *err = error;
    }
    return code;
}

void give(snib_lease **lease)
{
    snib_error error = {0};
    CHECK_OK(snib_release(lease, &error), error.message);
    CHECK(*lease == NULL);
}

snib_options trying(int mode)
{
    snib_options options = SNIB_OPTIONS;
    options.mode = mode;
    options.wait_ms = 0;
    return options;
}

snib_options owned(const void *owner, int mode)
{
    snib_options options = trying(mode);
    options.owner = owner;
    return options;
}

snib_options counted(unsigned permits, int64_t wait_ms)
{
    snib_options options = SNIB_OPTIONS;
    options.mode = SNIB_COUNTED;
    options.permits = permits;
    options.wait_ms = wait_ms;
    return options;
}

/* Whoever gave up a wait has told the server so, and nobody waits until it has arrived: for a
 * moment the lock may be handed to one who is leaving. What was forgotten would stay for much
 * longer. */
uint64_t must_be_free(snib *client, const char *name)
{
    snib_options soon = trying(SNIB_EXCLUSIVE);
    soon.wait_ms = with_leases() ? check_ms(1000) : 0;
    snib_lease *lease = take(client, name, &soon);
    uint64_t token = snib_token(lease);
    give(&lease);
    return token;
}

void must_be_held(snib *client, const char *name)
{
    snib_options at_once = trying(SNIB_EXCLUSIVE);
    CHECK_INT(refused(client, name, &at_once, NULL), ==, SNIB_EBUSY);
}

int64_t elapsed_ms(int64_t since_ns)
{
    return (check_now_ns() - since_ns) / 1000000;
}

bool readable(int fd, int timeout_ms)
{
    struct pollfd one = {.fd = fd, .events = POLLIN};
    return poll(&one, 1, check_ms(timeout_ms)) == 1 && (one.revents & POLLIN) != 0;
}

static void *end_at_once(void *arg)
{
    return arg;
}

static bool has_at_most_threads(void *arg)
{
    return check_thread_count() <= *(int *)arg;
}

int own_threads(void)
{
    int before = check_thread_count();
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, end_at_once, NULL) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    check_until(has_at_most_threads, &before, 20);
    return check_thread_count();
}

bool at_most_threads(int count)
{
    return check_until(has_at_most_threads, &count, 1000);
}

char thread_state(int tid)
{
    char path[64];
    char line[256];
    snprintf(path, sizeof path, "/proc/self/task/%d/stat", tid);
    FILE *file = fopen(path, "re");
    CHECK(file != NULL);
    CHECK(fgets(line, sizeof line, file) != NULL);
    fclose(file);
    const char *name_end = strrchr(line, ')');
    CHECK(name_end != NULL && name_end[1] == ' ');
    return name_end[2];
}

/* ---- What others see -------------------------------------------------------------------- */

static int note_sight(const snib_seen *seen, void *arg)
{
    struct sights *out = arg;
    CHECK_UINT(seen->size, >=, sizeof *seen);
    CHECK_INT(seen->place, >=, 0);
    out->waiters += seen->place > 0;
    if (out->count < sizeof out->all / sizeof out->all[0]) {
        struct sight *one = &out->all[out->count];
        snprintf(one->name, sizeof one->name, "%s", seen->name);
        snprintf(one->who, sizeof one->who, "%s", seen->who);
        snprintf(one->label, sizeof one->label, "%s", seen->label);
        one->token = seen->token;
        one->mode = seen->mode;
        one->place = seen->place;
        one->permits = seen->permits;
        one->since_unix_ms = seen->since_unix_ms;
        one->left_ms = seen->left_ms;
    }
    out->count++;
    return 0;
}

void look(snib *client, const char *name, struct sights *out)
{
    snib_error error = {0};
    memset(out, 0, sizeof *out);
    CHECK_OK(snib_inspect(client, name, note_sight, out, &error), error.message);
}

void look_all(snib *client, const char *prefix, struct sights *out)
{
    snib_error error = {0};
    memset(out, 0, sizeof *out);
    CHECK_OK(snib_list(client, prefix, note_sight, out, &error), error.message);
}

struct awaited {
    snib *client;
    const char *name;
    size_t waiters;
    size_t seen;
};

static bool has_waiters(void *arg)
{
    struct awaited *awaited = arg;
    struct sights sights;
    look(awaited->client, awaited->name, &sights);
    awaited->seen = sights.waiters;
    return sights.waiters == awaited->waiters;
}

void await_waiters(snib *client, const char *name, size_t count)
{
    struct awaited awaited = {.client = client, .name = name, .waiters = count};
    if (!check_until(has_waiters, &awaited, PATIENCE_MS)) {
        FAIL("%zu waiters of %s expected, inspect shows %zu", count, name, awaited.seen);
    }
}

static bool has_nobody(void *arg)
{
    struct awaited *awaited = arg;
    struct sights sights;
    look(awaited->client, awaited->name, &sights);
    awaited->seen = sights.count;
    return sights.count == 0;
}

void await_nobody(snib *client, const char *name)
{
    struct awaited awaited = {.client = client, .name = name};
    if (!check_until(has_nobody, &awaited, PATIENCE_MS)) {
        FAIL("nobody expected at %s, inspect shows %zu", name, awaited.seen);
    }
}

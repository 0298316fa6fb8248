/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program of the time of snib 0.1, built with the header of then and run with the library of
 * today: every struct is as short as it was, and every number means what it meant.
 *
 *     frozen URL
 */
#include <snib.h>

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef SNIB_VERSION_NUMBER
#error "this is not the header of 0.1"
#endif

#define MUST(condition)                                                                            \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "frozen.c:%d: %s\n", __LINE__, #condition);                            \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

static int lost, told;
static snib_lease *granted;

static void on_event(const snib_event *event, void *arg)
{
    MUST(event->size >= sizeof *event && arg == &lost);
    lost += event->state == SNIB_LOST && event->lease != NULL;
}

static void on_done(snib_lease *lease, const snib_error *err, void *arg)
{
    MUST(lease != NULL && err == NULL && arg == &told);
    granted = lease;
    told++;
}

static int on_seen(const snib_seen *seen, void *arg)
{
    MUST(seen->size >= sizeof *seen && strcmp(seen->name, "report") == 0);
    MUST(seen->place == 0 && seen->mode == SNIB_EXCLUSIVE && strcmp(seen->label, "frozen") == 0);
    ++*(int *)arg;
    return 0;
}

static void dispatch(snib *client, int fd, const int *until)
{
    while (!*until) {
        struct pollfd one = {.fd = fd, .events = POLLIN};
        MUST(poll(&one, 1, 20000) == 1);
        MUST(snib_dispatch(client, 0) >= 0);
    }
}

/* What stands behind the struct would be read by a library that takes it for longer. */
struct frozen_options {
    snib_options options;
    unsigned char beyond[64];
};

static void with_options(snib *client, struct frozen_options *frozen)
{
    snib_error error;
    snib_lease *lease, *again, *none;
    int seen = 0;
    frozen->options.label = "frozen";
    frozen->options.owner = snib_thread();
    MUST(snib_acquire(&lease, client, "report", &frozen->options, &error) == SNIB_OK);
    MUST(snib_acquire(&again, client, "report", &frozen->options, &error) == SNIB_OK);
    MUST(snib_token(lease) == snib_token(again) && snib_state(lease) == SNIB_HELD);
    MUST(snib_left_ms(lease) > 0 && strcmp(snib_name(lease), "report") == 0);
    MUST(snib_verify(lease, &error) == SNIB_OK);
    MUST(snib_inspect(client, "report", on_seen, &seen, &error) == SNIB_OK && seen == 1);
    MUST(snib_list(client, "rep", on_seen, &seen, &error) == SNIB_OK && seen == 2);
    frozen->options.owner = NULL;
    frozen->options.wait_ms = 0;
    MUST(snib_acquire(&none, client, "report", &frozen->options, &error) == SNIB_EBUSY);
    MUST(none == NULL && error.code == SNIB_EBUSY && error.holder_token == snib_token(lease));
    MUST(strcmp(snib_errname(error.code), "EBUSY") == 0);
    MUST(snib_release(&again, &error) == SNIB_OK && snib_release(&lease, &error) == SNIB_OK);
}

static void with_events(snib *client, int fd, struct frozen_options *frozen)
{
    snib_error error;
    snib_ticket ticket;
    frozen->options.label = NULL;
    frozen->options.max_hold_ms = 200;
    frozen->options.on_event = on_event;
    frozen->options.arg = &lost;
    MUST(snib_acquire_async(&ticket, client, "job", &frozen->options, on_done, &told, &error) ==
         SNIB_OK);
    dispatch(client, fd, &told);
    MUST(snib_cancel(client, ticket) == SNIB_ESTATE);
    dispatch(client, fd, &lost);
    MUST(snib_release(&granted, &error) == SNIB_ELOST);
}

static void with_several(snib *client)
{
    static const char *const names[] = {"two", "one"};
    snib_error error;
    snib_lease *leases[2];
    MUST(snib_acquire_all(leases, client, names, 2, NULL, &error) == SNIB_OK);
    MUST(strcmp(snib_name(leases[0]), "two") == 0 && strcmp(snib_name(leases[1]), "one") == 0);
    MUST(snib_release(&leases[0], NULL) == SNIB_OK && snib_release(&leases[1], NULL) == SNIB_OK);
}

static void with_engines(const snib *client)
{
    size_t count = 0;
    const snib_engine_info *info;
    for (; (info = snib_engine_at(count)) != NULL; count++) {
        MUST(info->size >= sizeof *info && info->scheme[0] && info->summary[0]);
        MUST(info->package != NULL && (info->built == 0 || info->built == 1));
    }
    MUST(count >= 2 && (snib_traits(client) & SNIB_TRAIT_FAIR));
    MUST(strcmp(snib_trait_name(SNIB_TRAIT_FAIR), "fair") == 0);
}

int main(int argc, char **argv)
{
    struct frozen_options frozen = {.options = SNIB_OPTIONS};
    snib *client;
    snib_error error;
    int fd;
    MUST(argc == 2);
    memset(frozen.beyond, 0xff, sizeof frozen.beyond);
    MUST(snib_open(&client, argv[1], &error) == SNIB_OK);
    MUST(snib_events(client, &fd, &error) == SNIB_OK);
    with_options(client, &frozen);
    with_events(client, fd, &frozen);
    with_several(client);
    with_engines(client);
    snib_close(client);
    return 0;
}

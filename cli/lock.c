/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Acquire, listen, release: everything `run` and `hold` want of the library.
 *
 * Acquiring is asynchronous, so that a signal ends the wait at once and leaves nothing behind at
 * the engine. It costs nothing where nobody is in the way: then the answer is there when the call
 * returns.
 *
 * Being told what happens to a lock needs a thread of the library. Where there is a lease there
 * is one anyway. Where there is none (file:) all that can come is somebody's `break`, and a
 * short job need not pay for hearing of it: lock_listen is called for a job that lasts.
 */
#include "lock.h"

#include "clock.h"
#include "command.h"
#include "paths.h"
#include "say.h"
#include "traits.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#define CONFIRM_PAUSE_MS 50
#define NOTICE_NS (1000 * CLOCK_MS)
#define EARLY_NS (10 * CLOCK_MS) /* how exactly we know the deadline */

static int status_of(const struct lock *lock, const snib_error *error)
{
    if (error->code != SNIB_EBUSY) {
        return client_fail(error);
    }
    if (error->holder_left_ms > 0 && error->holder_left_ms != SNIB_FOREVER) {
        char left[SPAN_SIZE];
        tell("%s, for %s unless it is renewed", error->message,
             span_text(left, error->holder_left_ms));
    } else {
        tell("%s", error->message);
    }
    return lock->options->busy_status;
}

/* ---- Open ------------------------------------------------------------------------------- */

int lock_open(struct lock *lock, struct options *o)
{
    *lock =
        (struct lock){.options = o, .event_fd = -1, .listen_fd = -1, .deadline_ns = CLOCK_NEVER};
    lock->leases = calloc(o->name_count, sizeof(snib_lease *));
    lock->doubted = calloc(o->name_count, sizeof(bool));
    if (!lock->leases || !lock->doubted) {
        return fail(STATUS_INTERNAL, "out of memory");
    }
    int status = client_open(&lock->client, &o->url);
    if (status != 0) {
        return status;
    }
    client_hide_url(&o->url, snib_url(lock->client));
    client_free_url(&o->url);
    status = paths_settle(o, snib_url(lock->client));
    if (status == 0) {
        status = traits_check(lock->client, o->require);
    }
    if (status == 0 && snib_events(lock->client, &lock->event_fd, &lock->error) < 0) {
        status = status_of(lock, &lock->error);
    }
    if (status == 0) {
        lock->leased = (snib_traits(lock->client) & SNIB_TRAIT_LEASED) != 0;
        lock->attended = isatty(STDERR_FILENO) && !telling();
        lock->told = lock->leased || o->lock.max_hold_ms || telling() || lock->attended;
        tell("engine %s", snib_url(lock->client));
        if (o->lock.ttl_ms && !lock->leased) {
            tell("--ttl means nothing here: this lock has no lease");
        }
    }
    return status;
}

/* ---- Events ----------------------------------------------------------------------------- */

static void tell_waiting(struct lock *lock, const snib_event *event)
{
    bool behind = strncmp(event->why, "behind ", strlen("behind ")) == 0;
    if (behind && event->left_ms > 0 && event->left_ms != SNIB_FOREVER) {
        char left[SPAN_SIZE];
        (void)snprintf(lock->why, sizeof lock->why, "%.100s, whose lease has %s left", event->why,
                       span_text(left, event->left_ms));
    } else {
        (void)snprintf(lock->why, sizeof lock->why, "%s", event->why);
    }
    tell("waiting%s%s", behind ? " " : ": ", lock->why);
}

static size_t index_of(const struct lock *lock, const snib_lease *lease)
{
    size_t i = 0;
    while (i + 1 < lock->options->name_count &&
           strcmp(lock->options->names[i], snib_name(lease)) != 0) {
        i++;
    }
    return i;
}

static void note_loss(struct lock *lock, const snib_lease *lease, const char *why)
{
    if (lock->lost) {
        return;
    }
    lock->lost = true;
    lock->lost_early = clock_now_ns() < lock->deadline_ns - EARLY_NS;
    (void)snprintf(lock->why, sizeof lock->why, "%s", why);
    lock->lost_name = lock->options->names[index_of(lock, lease)];
}

static void on_event(const snib_event *event, void *arg)
{
    struct lock *lock = arg;
    char left[SPAN_SIZE];
    if (!event->lease) {
        tell_waiting(lock, event);
        return;
    }
    const char *name = snib_name(event->lease);
    bool *doubted = &lock->doubted[index_of(lock, event->lease)];
    switch (event->state) {
    case SNIB_DOUBTFUL:
        *doubted = true;
        tell("lock '%s' in doubt: %s; ours for another %s", name, event->why,
             span_text(left, event->left_ms));
        break;
    case SNIB_HELD:
        if (*doubted) {
            tell("lock '%s' is safe again: %s", name, event->why);
            *doubted = false;
        } else { /* the engine has something to say */
            say("lock '%s': %s", name, event->why);
        }
        break;
    case SNIB_LOST:
        note_loss(lock, event->lease, event->why);
        break;
    default:
        break;
    }
}

static int64_t left_ms(const struct lock *lock)
{
    int64_t least = SNIB_FOREVER;
    for (size_t i = 0; i < lock->options->name_count; i++) {
        int64_t left = snib_left_ms(lock->leases[i]);
        least = left < least ? left : least;
    }
    return least;
}

void lock_hear(struct lock *lock)
{
    struct epoll_event seen;
    while (lock->listen_fd >= 0 && epoll_wait(lock->listen_fd, &seen, 1, 0) > 0) {
    }
    (void)snib_dispatch(lock->client, 0);
    for (size_t i = 0; i < lock->options->name_count && !lock->lost; i++) {
        if (snib_state(lock->leases[i]) == SNIB_LOST) {
            (void)snib_dispatch(lock->client, 0); /* its reason, if we are to be told */
            char why[160];
            bool known = snib_reason(lock->leases[i], why, sizeof why) == SNIB_OK && why[0];
            note_loss(lock, lock->leases[i], known ? why : "it was taken away");
        }
    }
    if (!lock->lost) {
        int64_t now = clock_now_ns(); /* before the look: rather too early than too late */
        int64_t left = left_ms(lock);
        lock->deadline_ns = left == SNIB_FOREVER ? CLOCK_NEVER : now + left * CLOCK_MS;
    }
}

int lock_fd(const struct lock *lock)
{
    return lock->listen_fd >= 0 ? lock->listen_fd : lock->event_fd;
}

bool lock_deaf(const struct lock *lock)
{
    return !lock->told && lock->listen_fd < 0;
}

static void listen_to(struct lock *lock, int fd)
{
    struct epoll_event news = {.events = EPOLLIN | EPOLLET, .data.fd = fd};
    (void)epoll_ctl(lock->listen_fd, EPOLL_CTL_ADD, fd, &news);
}

void lock_listen(struct lock *lock)
{
    lock->told = true;
    lock->listen_fd = epoll_create1(EPOLL_CLOEXEC);
    if (lock->listen_fd < 0) {
        return; /* then a break goes unheard, and says so to whoever tries it */
    }
    listen_to(lock, lock->event_fd);
    for (size_t i = 0; i < lock->options->name_count; i++) {
        listen_to(lock, snib_fd(lock->leases[i]));
    }
}

/* ---- Acquire ---------------------------------------------------------------------------- */

static void on_done(snib_lease *const leases[], size_t n, const snib_error *error, void *arg)
{
    struct lock *lock = arg;
    lock->answered = true;
    lock->granted = !error;
    for (size_t i = 0; i < n; i++) {
        lock->leases[i] = leases[i];
    }
    if (error) {
        lock->error = *error;
    }
}

/* A person at a terminal who sees nothing for a second wonders. One line, then silence. */
static int until_notice_ms(const struct lock *lock)
{
    if (!lock->attended || lock->noticed) {
        return -1;
    }
    int64_t left_ns = lock->asked_ns + NOTICE_NS - clock_now_ns();
    return left_ns > 0 ? (int)(left_ns / CLOCK_MS) + 1 : 0;
}

static void notice(struct lock *lock)
{
    if (until_notice_ms(lock) == 0) {
        lock->noticed = true;
        bool behind = strncmp(lock->why, "behind ", strlen("behind ")) == 0;
        say("waiting%s%s", !lock->why[0] ? " for an answer" : behind ? " " : ": ", lock->why);
    }
}

/* Answers the signal that ended the wait; 0: none did. */
static int await(struct lock *lock, const struct signals *signals)
{
    int ended_by = 0;
    (void)snib_dispatch(lock->client, 0);
    while (!lock->answered) {
        struct pollfd fds[] = {{.fd = lock->event_fd, .events = POLLIN},
                               {.fd = signals->fd, .events = POLLIN}};
        (void)poll(fds, 2, until_notice_ms(lock));
        notice(lock);
        for (int number; (number = signals_next(signals, NULL)) != 0;) {
            if (signals_ends(number) && !ended_by) {
                ended_by = number;
                (void)snib_cancel(lock->client, lock->ticket);
            } else if (number == SIGTSTP) {
                say("not stopped: a stopped process would keep its place in the queue");
            }
        }
        (void)snib_dispatch(lock->client, 0);
    }
    return ended_by;
}

static void tell_acquired(const struct lock *lock)
{
    char span[SPAN_SIZE], ttl[SPAN_SIZE];
    for (size_t i = 0; telling() && i < lock->options->name_count; i++) {
        int64_t ttl_ms = snib_ttl_ms(lock->leases[i]); /* which may be less than was asked for */
        tell("acquired '%s' after %s, token %" PRIu64 "%s%s", lock->options->names[i],
             span_text(span, (clock_now_ns() - lock->asked_ns) / CLOCK_MS),
             snib_token(lock->leases[i]), ttl_ms > 0 ? ", lease " : "",
             ttl_ms > 0 ? span_text(ttl, ttl_ms) : "");
    }
}

bool lock_acquire(struct lock *lock, const struct signals *signals, int *status)
{
    const struct options *o = lock->options;
    snib_options options = o->lock;
    if (lock->told) {
        options.on_event = on_event;
        options.arg = lock;
    }
    lock->asked_ns = clock_now_ns();
    if (snib_acquire_all_async(&lock->ticket, lock->client, o->names, o->name_count, &options,
                               on_done, lock, &lock->error) < 0) {
        *status = status_of(lock, &lock->error);
        return false;
    }
    int number = lock->ended_by = await(lock, signals);
    if (number == 0 && lock->granted) {
        tell_acquired(lock);
        lock->why[0] = '\0';
        lock->held_since_ns = clock_now_ns();
        return true;
    }
    (void)lock_release(lock);
    if (number == SIGNAL_ORPHANED) {
        *status = STATUS_INTERNAL; /* nobody is there to be told */
    } else if (number != 0) {
        *status = fail(STATUS_SIGNAL + number, "%s while waiting for lock '%s'",
                       signals_name(number), o->names[0]);
    } else {
        *status = status_of(lock, &lock->error);
    }
    return false;
}

int lock_confirm(struct lock *lock)
{
    for (size_t i = 0; lock->leased && i < lock->options->name_count; i++) {
        int64_t whole_ms = snib_left_ms(lock->leases[i]);
        int rc;
        do {
            rc = snib_verify(lock->leases[i], &lock->error);
        } while (rc == SNIB_EUNKNOWN && snib_left_ms(lock->leases[i]) > whole_ms / 2 &&
                 poll(NULL, 0, CONFIRM_PAUSE_MS) == 0);
        if (rc < 0) {
            return fail(STATUS_ENGINE, "lock '%s' was granted but could not be confirmed: %s",
                        lock->options->names[i], lock->error.message);
        }
    }
    lock_hear(lock);
    return 0;
}

/* ---- Release ---------------------------------------------------------------------------- */

int lock_release(struct lock *lock)
{
    int worst = SNIB_OK;
    for (size_t i = 0; lock->leases && i < lock->options->name_count; i++) {
        bool over = lock->leases[i] && snib_state(lock->leases[i]) == SNIB_LOST;
        /* The engine says so at the release, but a file is not looked at then. */
        bool gone =
            lock->leases[i] && !lock->leased && snib_verify(lock->leases[i], NULL) == SNIB_ELOST;
        int rc = snib_release(&lock->leases[i], &lock->error);
        if ((rc == SNIB_ELOST || gone) && !over) {
            worst = SNIB_ELOST;
        } else if (rc == SNIB_EUNKNOWN) {
            worst = worst == SNIB_OK ? rc : worst;
            say("%s", lock->error.message);
        }
    }
    return worst;
}

void lock_close(struct lock *lock)
{
    snib_close(lock->client);
    if (lock->listen_fd >= 0) {
        close(lock->listen_fd);
    }
    free(lock->leases);
    free(lock->doubted);
}

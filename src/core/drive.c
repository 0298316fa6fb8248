/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What makes everything go: the agenda, the timers, and who drives the engine.
 *
 * settle() performs what was decided (attempt, renew, release), fires the timers that are due,
 * and says when the next one is. It never sleeps. Sleeping is for whoever drives:
 *
 * - A thread that waits for an answer drives the engine itself, so that a thread alone pays no
 *   hand-over. If another thread drives already, it blocks until its answer is there or until
 *   the driver leaves and makes it the next one. A driver serves everybody: renewals, time-outs
 *   and answers of others happen on its back.
 * - When nobody waits but something must go on (leases to renew, asynchronous acquires), the
 *   keeper does: one thread, started when first needed. While nothing is outstanding it only
 *   sleeps until the next timer and does not drive, so that a thread that comes in to acquire
 *   or release need not push it aside. It never runs a user's code. Answers to releases that
 *   nobody wants to hear of it leaves unread for a moment: most often the thread that released
 *   comes in again before that and reads them itself, and neither wakes the other.
 *
 * All sleeping is done on a CLOCK_BOOTTIME timerfd: poll and condition variables would
 * oversleep by the time the machine was suspended. Blocked threads sleep without a limit: the
 * driver's timers wake them.
 */
#include "core/drive.h"

#include "base/descriptor.h"
#include "core/client.h"

#include <assert.h>
#include <errno.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#define BEFORE_TIMERS 1000 /* actions: an engine that goes round and round stops no deadline */
#define UNREAD_NS SNIB__MS
#define PATROL_MS 1
#define MANY 8U
#define KEPT_MOST 31
#define ASIDE_NS (100 * SNIB__MS)

/* ---- Agenda and timers ------------------------------------------------------------------ */

/* All that are due, before anything else is done: the renewals they ask for go out together. */
static int64_t fire_timers(snib *client)
{
    int64_t next = snib__timers_next(&client->timers);
    if (next == SNIB__NEVER) {
        return next;
    }
    int64_t now_ns = snib__now().boot_ns;
    struct snib__timer *timer;
    while ((timer = snib__timers_due(&client->timers, now_ns)) != NULL) {
        timer->fire(timer);
    }
    return snib__timers_next(&client->timers);
}

bool snib__unsettled(const snib *client)
{
    return !snib__list_empty(&client->agenda) || snib__renewals_ready(client);
}

/* Do the next thing that was decided. False: there is none, or it must wait. */
static bool advance(snib *client)
{
    if (!snib__unsettled(client)) {
        return false;
    }
    client->session.quiet = false;
    if (!snib__list_empty(&client->agenda)) {
        struct snib__action *action = SNIB__OF(client->agenda.after, struct snib__action, link);
        snib__action_drop(action);
        action->perform(action);
    } else {
        snib__renewals_send(client);
    }
    client->submitted |= !client->session.quiet;
    return true;
}

int64_t snib__settle(snib *client)
{
    for (;;) {
        for (int i = 0; i < BEFORE_TIMERS && advance(client); i++) {
        }
        int64_t next = fire_timers(client);
        if (!snib__unsettled(client)) {
            return next;
        }
    }
}

/* ---- Sleeping --------------------------------------------------------------------------- */

static void make_descriptors(struct snib__sleeper *s)
{
    if (!s->wake_fd) {
        int wake = snib__descriptor(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
        int timer = snib__descriptor(timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK));
        s->wake_fd = wake > 0 ? wake : -1;
        s->timer_fd = timer > 0 ? timer : -1;
        s->armed_ns = SNIB__NEVER;
    }
}

static void arm(struct snib__sleeper *s, int64_t until_ns)
{
    if (s->armed_ns == until_ns || s->timer_fd < 0) {
        return;
    }
    struct itimerspec at = {0};
    if (until_ns != SNIB__NEVER) {
        int64_t ns = until_ns > 1 ? until_ns : 1; /* 0 would disarm it */
        at.it_value.tv_sec = ns / 1000000000;
        at.it_value.tv_nsec = ns % 1000000000;
    }
    timerfd_settime(s->timer_fd, TFD_TIMER_ABSTIME, &at, NULL);
    s->armed_ns = until_ns;
}

static void nudge(struct snib__sleeper *s)
{
    uint64_t one = 1;
    if (s->asleep && !s->nudged) {
        s->nudged = true;
        ssize_t done = write(s->wake_fd, &one, sizeof one);
        (void)done;
    }
}

static void tell(snib *client, struct snib__waiter *w)
{
    client->coming += !w->coming; /* it may be told twice */
    w->coming = true;
    client->stirred = true;
    pthread_cond_signal(&w->cond);
}

/* Those whose answers came in while the driver was at work. Woken one by one at once, each would
 * find the mutex taken and go to sleep again. */
static void wake_all(snib *client)
{
    while (client->woken.after != &client->woken) {
        struct snib__waiter *w = SNIB__OF(client->woken.after, struct snib__waiter, link);
        snib__list_remove(&w->link);
        tell(client, w);
    }
}

/* A driver that has just told many of their answers will see many ask for the next thing. It looks
 * again after a millisecond, so that what they ask for can be kept until others are here too, and
 * leave together. Not again and again: only as long as they come. And not for few: a sleep with a
 * limit costs them more than they save. */
static int patrol_ms(snib *client)
{
    client->patrols = client->stirred && client->session.engine->flush &&
                      (client->coming >= MANY || snib__calls_many(client, MANY));
    client->stirred = false;
    return client->patrols ? PATROL_MS : -1;
}

/* Sleep with the mutex given up. True: nudged. */
static bool sleep_on(snib *client, struct snib__sleeper *s, struct pollfd fds[], size_t n,
                     int64_t until_ns)
{
    struct pollfd all[SNIB__SLEEP_MOST + 3];
    bool stops = s == &client->sleeper && client->stop_count > 0;
    nfds_t all_count = (nfds_t)n + 2;
    int timeout_ms = -1;
    assert(n <= SNIB__SLEEP_MOST);
    make_descriptors(s);
    if (atomic_load(&s->roused) && atomic_exchange(&s->roused, false)) {
        timeout_ms = 0;
    } else if (until_ns != SNIB__NEVER && snib__now().boot_ns >= until_ns) {
        timeout_ms = 0;
    } else {
        arm(s, until_ns);
        if (s->wake_fd < 0 || s->timer_fd < 0) {
            timeout_ms = 50; /* no descriptors to be had: look often instead */
        }
    }
    for (size_t i = 0; i < n; i++) {
        all[i] = fds[i];
    }
    all[n] = (struct pollfd){.fd = s->wake_fd, .events = POLLIN};
    all[n + 1] = (struct pollfd){.fd = s->timer_fd, .events = POLLIN};
    if (stops) {
        all[all_count++] = (struct pollfd){.fd = client->stop_set, .events = POLLIN};
    }
    wake_all(client);
    if (s == &client->sleeper && timeout_ms < 0) {
        timeout_ms = patrol_ms(client);
    }
    s->until_ns = until_ns;
    s->asleep = true;
    pthread_mutex_unlock(&client->lock);
    int ready = poll(all, all_count, timeout_ms);
    pthread_mutex_lock(&client->lock);
    s->asleep = false;
    client->patrols &= s != &client->sleeper;
    for (size_t i = 0; i < n; i++) {
        fds[i].revents = ready > 0 ? all[i].revents : 0;
    }
    bool nudged = s->nudged;
    if (nudged || (ready > 0 && all[n].revents)) {
        uint64_t count;
        ssize_t done = read(s->wake_fd, &count, sizeof count);
        (void)done;
        s->nudged = false;
    }
    if (ready > 0 && all[n + 1].revents) {
        s->armed_ns = -1; /* it has fired and stays readable until set anew */
    }
    if (stops && ready > 0 && all[n + 2].revents) {
        snib__stops_hear(client);
        return true;
    }
    return nudged;
}

/* Is snib_close about to go on? Then nobody drives any more: it wants the mutex. */
static bool closed(const snib *client)
{
    return client->closer && client->closer->ready;
}

bool snib__sleep(struct snib__session *session, struct pollfd fds[], size_t n, int64_t until_ns)
{
    snib *client = SNIB__OF(session, struct snib, session);
    if (client->closer) {
        snib__close_check(client);
    }
    if (client->answered || closed(client)) {
        return true;
    }
    return sleep_on(client, &client->sleeper, fds, n, until_ns);
}

/* The flag first, then the descriptor: who makes the descriptor looks at the flag after. */
void snib__rouse(struct snib__session *session)
{
    struct snib__sleeper *s = &SNIB__OF(session, struct snib, session)->sleeper;
    atomic_store(&s->roused, true);
    int fd = s->wake_fd;
    uint64_t one = 1;
    if (fd > 0) {
        ssize_t done = write(fd, &one, sizeof one);
        (void)done;
    }
}

void snib__close_check(snib *client)
{
    if (client->closer && !client->closer->ready && client->holds == 0 &&
        client->session.undoing == 0 && client->inside <= 1 + client->inside_for_calls) {
        snib__wake(client, client->closer);
    }
}

/* ---- Sending together ------------------------------------------------------------------- */

bool snib__may_keep(snib *client)
{
    if (!client->patrols || (client->coming == 0 && !snib__calls_follow(client))) {
        return false;
    }
    if (client->kept >= KEPT_MOST) {
        client->kept = 0; /* all of it leaves with this one */
        return false;
    }
    client->kept++;
    client->kept_here = true;
    return true;
}

void snib__send_kept(snib *client)
{
    if (client->kept > 0 && client->opened) {
        client->kept = 0;
        client->kept_here = false;
        client->session.engine->flush(&client->session);
    }
}

/* This thread goes back to its user, who may do nothing more for an hour: not with something of its
 * own unsent, unless it is in a callback and others follow. */
static void send_on_leaving(snib *client)
{
    if ((client->kept_here || client->coming == 0) && !snib__calls_follow(client)) {
        snib__send_kept(client);
    }
}

/* ---- Driving ---------------------------------------------------------------------------- */

/* When something is due by itself: a timer, or what the engine asked for. */
static int64_t next_moment(const snib *client)
{
    int64_t timer_ns = snib__timers_next(&client->timers);
    int64_t wake_ns = client->session.wake_ns;
    return wake_ns && wake_ns < timer_ns ? wake_ns : timer_ns;
}

/* Nothing is asked of the engine: only the clock, or another thread, can bring what is waited for.
 * An engine that returned at once, again and again, would keep that thread from the mutex. */
static void rest(snib *client)
{
    client->resting = true;
    snib__sleep(&client->session, NULL, 0, next_moment(client));
    client->resting = false;
}

static void drive(snib *client, const bool *ready)
{
    client->driving = true;
    client->unread_ns = 0;
    int64_t due = snib__settle(client);
    client->submitted = false;
    if (!ready || !*ready) {
        client->answered = false;
        client->driven_until_ns = due;
        if (snib__must_drive(client)) {
            client->session.wake_ns = 0; /* the engine says anew */
            client->kept = 0;
            client->kept_here = false;
            client->session.engine->drive(&client->session, due);
        } else if (ready != &client->keeper_stops) { /* the keeper has a sleep of its own */
            rest(client);
        }
    }
    client->driving = false;
    snib__settle(client);
    if (client->closer) {
        snib__close_check(client); /* the engine may have undone the last thing, and not slept */
    }
    wake_all(client);
}

void snib__waiter_init(struct snib__waiter *w)
{
    w->ready = false;
    w->blocked = false;
    w->drives = false;
    w->has_cond = false;
    w->coming = false;
}

void snib__waiter_end(struct snib__waiter *w)
{
    if (w->has_cond) {
        pthread_cond_destroy(&w->cond);
    }
}

static void block(snib *client, struct snib__waiter *w)
{
    if (!w->has_cond) {
        pthread_cond_init(&w->cond, NULL);
        w->has_cond = true;
    }
    if (client->coming == 0) {
        snib__send_kept(client);
    }
    client->kept_here = false;
    w->blocked = true;
    snib__list_append(&client->waiters, &w->link);
    pthread_cond_wait(&w->cond, &client->lock);
    snib__list_remove(&w->link);
    w->blocked = false;
    client->coming -= w->coming;
    w->coming = false;
}

/* The engine was told a time that was right when its drive began. It may sleep in shorter steps of
 * its own: how long the present one lasts says nothing. */
static void refresh_driver(snib *client)
{
    if (client->sleeper.asleep &&
        (client->submitted || snib__timers_next(&client->timers) < client->driven_until_ns ||
         (client->resting && snib__must_drive(client)))) {
        client->submitted = false;
        nudge(&client->sleeper);
    }
}

void snib__wait_for(snib *client, struct snib__waiter *w)
{
    while (!w->ready) {
        if (client->driving || closed(client)) {
            refresh_driver(client);
            block(client, w);
        } else {
            w->drives = true;
            drive(client, &w->ready);
            w->drives = false;
        }
    }
}

void snib__wake(snib *client, struct snib__waiter *w)
{
    w->ready = true;
    if (w->blocked && client->driving) {
        snib__list_remove(&w->link);
        snib__list_append(&client->woken, &w->link);
        if (client->sleeper.asleep) {
            wake_all(client);
        }
    } else if (w->blocked) {
        tell(client, w);
    } else if (w->drives) {
        nudge(&client->sleeper);
    }
}

/* ---- The keeper ------------------------------------------------------------------------- */

/* Is there nothing to be driven but releases that have left and nobody wants to hear of? */
static bool only_untold(const snib *client)
{
    const struct snib__session *s = &client->session;
    return client->untold > 0 && client->untold == client->outstanding && s->afloat &&
           s->attend == 0 && s->undoing == 0 && snib__list_empty(&client->requests);
}

/* When the keeper has something to do; 0: at once. */
static int64_t keeper_moment(const snib *client)
{
    int64_t next = next_moment(client);
    if (!snib__must_drive(client)) {
        return next;
    }
    int64_t now_ns = snib__now().boot_ns;
    if (!only_untold(client) || client->unread_ns <= now_ns || next <= now_ns) {
        return 0;
    }
    return client->unread_ns < next ? client->unread_ns : next;
}

/* The keeper sleeps until there is something to do, or until earlier if that spares others to call
 * it: by a date it was called for, although what was due then may be gone, because the next lock
 * will bring a later one; and for a moment after releases that nobody waits for, which come one
 * after the other. */
static void keeper_sleep(snib *client, int64_t until_ns)
{
    int64_t now_ns = snib__now().boot_ns;
    if (client->called_for_ns > now_ns && client->called_for_ns < until_ns) {
        until_ns = client->called_for_ns;
    }
    if (client->lingers && now_ns + UNREAD_NS < until_ns) {
        until_ns = now_ns + UNREAD_NS;
    }
    client->lingers = false;
    sleep_on(client, &client->keeper_sleeper, NULL, 0, until_ns);
}

/* While somebody else drives, the timers are the driver's, and whoever leaves calls the keeper if
 * there is anything to do before it looks again. */
static void stand_aside(snib *client)
{
    int64_t next_ns = next_moment(client);
    int64_t look_ns = snib__now().boot_ns + ASIDE_NS;
    keeper_sleep(client, next_ns > look_ns ? next_ns : look_ns);
}

static void *keep(void *arg)
{
    snib *client = arg;
    pthread_mutex_lock(&client->lock);
    while (!client->keeper_stops) {
        if (client->driving || closed(client)) {
            stand_aside(client);
        } else if (keeper_moment(client) == 0) {
            drive(client, &client->keeper_stops);
        } else {
            snib__settle(client);
            int64_t until_ns = keeper_moment(client);
            if (until_ns > 0) {
                keeper_sleep(client, until_ns);
            }
        }
    }
    client->keeper_runs = false;
    pthread_mutex_unlock(&client->lock);
    return NULL;
}

static void keeper_needed(snib *client)
{
    if (!client->keeper_runs) {
        client->keeper_stops = false;
        if (snib__thread_start(&client->keeper, keep, client) == 0) {
            client->keeper_runs = client->keeper_made = true;
        }
        return; /* without a thread, leases run out on the clock and are reported so */
    }
    int64_t moment_ns = keeper_moment(client);
    if (moment_ns < client->keeper_sleeper.until_ns) {
        client->called_for_ns = moment_ns;
        nudge(&client->keeper_sleeper);
    }
}

void snib__hand_over(snib *client)
{
    if (client->manual) {
        return;
    }
    send_on_leaving(client);
    if (client->driving) {
        refresh_driver(client);
    } else if (client->waiters.after != &client->waiters) {
        pthread_cond_signal(&SNIB__OF(client->waiters.after, struct snib__waiter, link)->cond);
    } else if (!client->closing &&
               (snib__must_drive(client) || next_moment(client) != SNIB__NEVER)) {
        if (only_untold(client)) {
            client->lingers = true;
            client->unread_ns =
                client->unread_ns ? client->unread_ns : snib__now().boot_ns + UNREAD_NS;
        }
        keeper_needed(client);
    }
}

void snib__keeper_stop(snib *client)
{
    if (!client->keeper_made) {
        return;
    }
    client->keeper_stops = true;
    nudge(&client->keeper_sleeper);
    nudge(&client->sleeper);
    pthread_mutex_unlock(&client->lock);
    pthread_join(client->keeper, NULL);
    pthread_mutex_lock(&client->lock);
    client->keeper_made = false;
}

static void free_sleeper(struct snib__sleeper *s)
{
    if (s->wake_fd > 0) {
        close(s->wake_fd);
    }
    if (s->timer_fd > 0) {
        close(s->timer_fd);
    }
}

void snib__sleepers_free(snib *client)
{
    free_sleeper(&client->sleeper);
    free_sleeper(&client->keeper_sleeper);
}

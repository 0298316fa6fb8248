/* SPDX-License-Identifier: Apache-2.0 */
/*
 * First contact. A wrong port, a mute server, a firewall that swallows everything: who waits for a
 * lock there would wait for ever without a word. So as long as the service has never given this
 * client a sensible answer, its silence is an error after `connect=`. Once it has, it is known to
 * be the right one, and a wait outlasts what happens to it.
 *
 * When the timer fires an answer may be there, unread: this process may have been stopped until
 * just now, or its machine. So there is a short time more in which it is read; and if the timer
 * itself is late, so that a request was not even sent in its time, as much as in the beginning.
 *
 * What to do when the time is over is the client's business: it gave the timer its function.
 */
#include "core/contact.h"

#include "core/client.h"

#include <stdio.h>

#define LATE_NS (500 * SNIB__MS)
#define READ_MS 300

void snib__contact_await(snib *client)
{
    struct snib__contact *c = &client->contact;
    if (c->made || c->awaited || !snib__timers_join(&client->timers)) {
        return; /* without memory for a timer, the engine's own time-outs must do */
    }
    c->awaited = true;
    snib__contact_wait(client, snib__later(snib__now().boot_ns, c->limit_ms * SNIB__MS));
}

void snib__contact_wait(snib *client, int64_t due_ns)
{
    client->contact.due_ns = due_ns;
    snib__timer_set(&client->timers, &client->contact.timer, due_ns);
}

bool snib__contact_excuses(snib *client, int64_t now_ns)
{
    struct snib__contact *c = &client->contact;
    int64_t more_ms = now_ns - c->due_ns < LATE_NS ? READ_MS : c->limit_ms;
    if (c->excused) {
        return false;
    }
    c->excused = true;
    snib__contact_wait(client, snib__later(now_ns, more_ms * SNIB__MS));
    return true;
}

void snib__contact_end(snib *client)
{
    struct snib__contact *c = &client->contact;
    if (c->awaited) {
        c->awaited = false;
        snib__timers_leave(&client->timers, &c->timer);
    }
}

void snib__contact_judge(snib *client, const struct snib__result *result)
{
    struct snib__contact *c = &client->contact;
    bool silent = result->status == SNIB__UNKNOWN;
    if (silent || (result->status == SNIB__FAILED && !c->made)) {
        if (result->reason) {
            snprintf(c->why, sizeof c->why, "%s", result->reason);
        }
        return;
    }
    c->why[0] = '\0';
    if (!c->made) {
        c->made = true;
        snib__contact_end(client);
    }
}

int snib__contact_fail(const snib *client, const char *name, snib_error *err)
{
    const struct snib__contact *c = &client->contact;
    return snib__fail(
        err, SNIB_EUNREACH, 0,
        "%s: lock '%s': no answer from %.120s within %.1f s%s%s; is it the right server?",
        client->session.engine->scheme, name, client->shown_url, (double)c->limit_ms / 1000,
        c->why[0] ? ": " : "", c->why);
}

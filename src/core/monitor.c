/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A client is a monitor: every call enters it by one mutex, and leaves it with nothing undone.
 *
 * Its memory lives as long as somebody refers to it: the user until snib_close, every hold until
 * its last lease is released, whoever dispatches or releases meanwhile.
 */
#include "core/client.h"

#include "base/process.h"

bool snib__forked(const struct snib__session *session)
{
    return SNIB__OF(session, const struct snib, session)->pid != snib__pid();
}

bool snib__usable(const snib *client, snib_error *err)
{
    if (snib__forked(&client->session)) {
        snib__fail(err, SNIB_ESTATE, 0, "this client belongs to the process that opened it");
        return false;
    }
    return true;
}

void snib__enter(snib *client)
{
    pthread_mutex_lock(&client->lock);
    client->inside++;
}

static void end_call(snib *client)
{
    if (snib__unsettled(client)) {
        snib__settle(client);
    }
    client->inside--;
    if (client->closer) {
        snib__close_check(client);
    }
    bool idle = !client->driving && snib__list_empty(&client->waiters) &&
                !snib__must_drive(client) && !client->session.wake_ns && client->timers.count == 0;
    if (!idle) {
        snib__hand_over(client);
    }
}

/* Give up the mutex, and so many references. What snib_close left to the threads that were still
 * in a call is given up by the last of them. */
static void unlock(snib *client, unsigned refs)
{
    if (client->left_behind && client->inside == 0) {
        client->left_behind = false;
        refs++;
    }
    client->refs -= refs;
    bool last = client->refs == 0;
    pthread_mutex_unlock(&client->lock);
    if (last) {
        client->destroy(client);
    }
}

void snib__leave(snib *client)
{
    end_call(client);
    unlock(client, 0);
}

void snib__leave_unref(snib *client)
{
    end_call(client);
    unlock(client, 1);
}

void snib__leave_closed(snib *client)
{
    client->inside--;
    client->left_behind = true;
    unlock(client, 0);
}

void snib__unref(snib *client)
{
    if (--client->refs == 0) {
        client->destroy(client);
    }
}

void snib__unlock_unref(snib *client)
{
    unlock(client, 1);
}

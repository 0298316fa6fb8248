/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Undoing: a release that got no answer may have been lost, and what was to be released is still
 * at the server. The engine has told the core so and the claim is gone; from a record of its own
 * it repeats the release, a few times, and counts that in session->undoing.
 */
#include "sim.h"

enum { TRIES = 4 };

static void send(struct machine *m, struct undo *u)
{
    const struct record *r = world.records[u->record];
    struct message message = {
        .kind = RELEASE,
        .machine = m->index,
        .life = m->life,
        .record = u->record,
        .request = u->request = ++world.last_request,
        .owner = r->owner,
        .name = r->name,
        .sent = sim_clock(m),
    };
    sim_note(NOTE_UNDOES, m->index, (int64_t)u->record, u->tries);
    u->tries++;
    u->due_ns = m->boot_ns + world.config.timeout_ms * MS;
    sim_send(&message); /* may be answered at once: u is not to be touched any more */
}

void sim_undo(struct machine *m, size_t record)
{
    if (m->undoing_count == UNDOING) {
        return;
    }
    struct undo *u = &m->undoing[m->undoing_count++];
    *u = (struct undo){.record = record};
    m->client->session.undoing = m->undoing_count;
    send(m, u);
}

static void end(struct machine *m, struct undo *u)
{
    *u = m->undoing[--m->undoing_count];
    m->client->session.undoing = m->undoing_count;
}

bool sim_undone(struct machine *m, const struct message *answer)
{
    for (int i = 0; i < m->undoing_count; i++) {
        if (m->undoing[i].request == answer->request && m->undoing[i].record == answer->record) {
            sim_reach(PATH_UNDONE);
            end(m, &m->undoing[i]);
            return true;
        }
    }
    return false;
}

int64_t sim_undo_due(const struct machine *m)
{
    int64_t due = SNIB__NEVER;
    for (int i = 0; i < m->undoing_count; i++) {
        due = m->undoing[i].due_ns < due ? m->undoing[i].due_ns : due;
    }
    return due;
}

void sim_undo_again(struct machine *m)
{
    for (int i = m->undoing_count - 1; i >= 0; i--) {
        struct undo *u = &m->undoing[i];
        if (u->due_ns > m->boot_ns) {
            continue;
        }
        if (u->tries < TRIES) {
            send(m, u);
        } else { /* what is left ends with its lease */
            sim_reach(PATH_UNDOING_GIVEN_UP);
            end(m, u);
        }
    }
}

void sim_undo_forget(struct machine *m)
{
    m->undoing_count = 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_FILE_RECORD_H
#define SNIB_FILE_RECORD_H

#include "engines/file/claim.h"

/* What its record shall be; in the session's draft, until the next one. */
const struct record *snib__file_record_draft(const struct file_claim *, enum record_state);
int snib__file_record_write(struct lock *, uint32_t index, const struct record *); /* errno */
int snib__file_record_write_token(struct lock *, uint64_t token);                  /* of record 0 */
/* Ours, free again. */
void snib__file_record_drop(struct lock *, uint32_t index);
/* The same for who has the slot now: its alive byte goes with the slot. */
void snib__file_record_retire(struct lock *, uint32_t index);
/* The holder's record says from now on that it listens. */
void snib__file_record_publish(struct file_claim *);

bool snib__file_record_alive(const struct lock *, uint32_t index);
/* Whose slot lock is this? Record 0 if the lock's length proves it, else NULL. */
const struct record *snib__file_record_proved(const struct record *holder, const struct flock *);

/* Was the waiter rung a second ago without having come? */
bool snib__file_record_stalled(const struct lock *, const struct record *);
void snib__file_record_mark_rung(struct lock *, uint32_t index, struct record *);
void snib__file_record_clear_rung(struct lock *, uint32_t index, struct record *);

/* Room for that many in session->records. */
bool snib__file_record_make_room(struct file_session *, size_t records);

void snib__file_rival_name(struct rival *out, const struct record *);

static inline struct bell_address snib__file_record_bell(const struct record *r)
{
    return (struct bell_address){.pid = r->pid, .session = r->session};
}

#endif

/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_SQL_STRANDS_H
#define SNIB_SQL_STRANDS_H

#include "engines/sql/session.h"

/* What those on strands are told. */
struct sql_strand_upcalls {
    void (*opened)(struct sql_strand *);
    void (*failed)(struct sql_strand *); /* it never opened: sql->code, ->why */
    void (*lost)(struct sql_strand *);   /* it was open: link.why */
    void (*rung)(struct sql_strand *, const char *text);
};

/* The main one, ready; NULL: not now, and it is being opened, or will be after a pause. */
struct sql_strand *sql_strand_main(struct sql *);

/* One that is nobody's: ready, or being opened. NULL: there are as many as there may be. */
struct sql_strand *sql_strand_extra(struct sql *);

/* Close it as soon as nobody is inside. */
void sql_strand_doom(struct sql_strand *);

/* The same, and the next one is dialled after a pause: the server has no use for us. */
void sql_strand_refuse(struct sql_strand *);

/* Close it now: from a slot, where nobody is inside. */
void sql_strand_end(struct sql_strand *);

/* For how long nothing is granted on it; 0: it is. */
int64_t sql_strand_quarantine_ms(const struct sql_strand *);

int64_t sql_strands_keep_time(struct sql *, int64_t now_ns);
size_t sql_strands_poll(const struct sql *, struct pollfd *out, size_t most);
void sql_strands_step(struct sql *, const struct pollfd *fds, size_t n);
void sql_strands_close(struct sql *, bool forked);

#endif

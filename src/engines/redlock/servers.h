/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_REDLOCK_SERVERS_H
#define SNIB_REDLOCK_SERVERS_H

#include "engines/redlock/session.h"

/* May this server vote, as far as is known? If not, its `trouble` says why. */
bool snib__server_votes(struct snib__server *);

/* How long it may not; 0: it may, or that is no question of time. */
int64_t snib__server_waits_ms(struct snib__server *);

/* Another address of the same server; NULL: none. */
struct snib__server *snib__server_twin(struct snib__server *);
void snib__server_twin_text(char *out, size_t size, const struct snib__server *,
                            const struct snib__server *twin);

/* An answer brought its time along. True: its clock jumped, and it does not vote for a while. */
bool snib__server_learn_time(struct snib__server *, const struct snib__redis_call *,
                             int64_t server_ms);

/* It let a question pass; it said something. */
void snib__server_unheard(struct snib__server *, const char *why);
void snib__server_heard(struct snib__server *);

/* Has it been silent for so long that who renews need not wait for it? */
bool snib__server_is_gone(const struct snib__server *, int64_t after_ns);

/* Do so many not answer that those must be waited for? */
bool snib__servers_scarce(const struct snib__redlock *);

/* Which servers did not vote, and why: "a:1 (Connection refused), b:2 (...)". */
void snib__servers_explain(char *out, size_t size, const struct snib__redlock *,
                           const bool missing[SNIB__SERVERS_MOST]);

#endif

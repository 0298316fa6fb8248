/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_ZOOKEEPER_STEPS_H
#define SNIB_ZOOKEEPER_STEPS_H

#include "engines/zookeeper/contender.h"

/* Do what comes next for it, if anything can be done now. It may be gone when this returns. */
void snib__contender_step(struct snib__contender *);

/* An answer to one of its requests, and a request that was lost with the connection. */
void snib__contender_reply(struct snib__contender *, const struct snib__zk_call *,
                           struct snib__zk_answer *);
void snib__contender_lost(struct snib__contender *, const struct snib__zk_call *);

/* What it watches has changed. */
void snib__contender_event(struct snib__contender *, const struct snib__zk_event *);

/* The connection is gone, and its watches with it. The session is gone, and its node. */
void snib__contender_cut(struct snib__contender *);
void snib__contender_bereave(struct snib__contender *);

/* It is proved anew: the node goes when that lease is over. */
void snib__contender_lease(struct snib__contender *);

/* Somebody wants it to be given up: tell the holder, and let the node go when its lease is over. */
void snib__contender_break(struct snib__contender *, const struct snib__zk_owner *, bool renewing);

/* Its attempt ends here: nothing may be left of it first. */
void snib__contender_refuse(struct snib__contender *, enum snib__status, int code,
                            const char *format, ...) __attribute__((format(printf, 4, 5)));

#endif

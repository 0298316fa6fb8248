/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A crowd: many asynchronous acquires of one client, and what became of each.
 *
 * Every member counts its own calls of `done`, so "exactly once" is checked for each and not by
 * a sum. A member that is granted gives the lease back inside of the callback.
 */
#ifndef SNIB_TESTS_CROWD_H
#define SNIB_TESTS_CROWD_H

#include "conformance.h"

struct crowd;

struct member {
    struct crowd *crowd;
    snib_ticket ticket;
    _Atomic int calls;
    _Atomic int code;
    _Atomic uint64_t token;
    char name[24];
};

struct crowd {
    snib *client;
    int fd; /* of snib_events; -1: callbacks come by themselves */
    int count;
    pthread_t dispatcher;
    _Atomic int inside; /* callbacks running: never two */
    _Atomic int answered;
    struct member *members;
};

/* A client at place() and `count` members without a name yet. */
struct crowd *crowd_new(int count, bool events);

void crowd_submit(struct crowd *crowd, int index, const char *name, const snib_options *options);

/* Until so many have an answer; dispatches if that is the caller's part. */
void crowd_await(struct crowd *crowd, int answered);

/* Each member was answered exactly once; answers how many with this code. */
int crowd_count(const struct crowd *crowd, int code);

/* Closes the client, and looks for late second answers. */
void crowd_end(struct crowd *crowd);

#endif

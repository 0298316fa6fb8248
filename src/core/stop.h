/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_STOP_H
#define SNIB_STOP_H

/* Descriptors of the user's whose readability ends a wait. */

#include "base/list.h"

struct snib;

/* Zeroed and with fd -1 it watches nothing. */
struct snib__stop {
    int fd; /* our copy; -1: none */
    void (*fire)(struct snib__stop *);
};

/* 0, or an errno: EPERM for what cannot be polled. */
int snib__stop_watch(struct snib *, struct snib__stop *, int fd);
void snib__stop_end(struct snib *, struct snib__stop *);

/* Some of them are readable: fire those. */
void snib__stops_hear(struct snib *);

#endif

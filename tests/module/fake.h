/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_TESTS_FAKE_H
#define SNIB_TESTS_FAKE_H

/*
 * What all processes on one fake:///PATH share: PATH is a file, this is what is in it.
 *
 * A test maps it too (see stage.h) and makes things go wrong by setting what is below "orders".
 */

#include <stdatomic.h>
#include <stdint.h>

enum { FAKE_LOCKS = 8 };

struct fake_lock {
    char name[208]; /* "": this place is free */
    uint64_t token; /* 0: nobody holds it */
    unsigned char owner[16];
    char who[120];
    int64_t since_unix_ms;
    int64_t expires_ns; /* CLOCK_BOOTTIME: the engine keeps it exactly until then */
};

struct fake_state {
    atomic_int gate; /* the process that is inside */
    uint64_t last_token;
    struct fake_lock locks[FAKE_LOCKS];

    /* Orders. */
    atomic_int mute_renewals; /* are not carried out, and never answered but by a time-out */
    atomic_int mute_attempts;
    atomic_int mute_releases;
    atomic_int say_gone;     /* a renewal finds that the lock was deleted */
    atomic_int refuse;       /* attempts fail with this code */
    atomic_int delay_ms;     /* before every answer; what was asked for is done at once */
    atomic_int hand_over_ms; /* a grant's first lease is only this long; 0: the ttl */

    /* What was seen. */
    atomic_int attempts, renewals, releases;
};

#endif

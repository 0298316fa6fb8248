/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_FILE_BELL_H
#define SNIB_FILE_BELL_H

#include "engines/file/waking.h"

/* Where a session's bell is: both stand in every record of the session. */
struct bell_address {
    uint32_t pid;
    uint64_t session;
};

struct bell {
    struct waking *waking;
    struct source source;
    int fd; /* -1: none yet */
    struct bell_address address;

    /* Set by whoever answers it. */
    void (*rung)(struct bell *, uint64_t cookie);
    void (*overflowed)(struct bell *); /* more was rung than was heard */
    void (*asked)(struct bell *, uint64_t cookie, uint64_t token, const char *who);
};

void snib__file_bell_init(struct bell *, struct waking *, struct bell_address);
int snib__file_bell_open(struct bell *); /* idempotent; errno */
void snib__file_bell_close(struct bell *);

enum rung { RUNG, UNSURE, NOBODY }; /* UNSURE: it was full, or there was no way to try */
enum rung snib__file_bell_ring(const struct bell *, struct bell_address to, uint64_t cookie);
/* Ask the holder with that cookie to give up. False: nobody is there. */
bool snib__file_bell_ask(const struct bell *, struct bell_address to, uint64_t cookie,
                         uint64_t token, const char *who);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_CLI_ANNOUNCE_H
#define SNIB_CLI_ANNOUNCE_H

#include "json.h"

#include <poll.h>

/* Events on their way to stdout. Zeroed memory is one that has none. */
struct announcer {
    char *text; /* what could not be written yet */
    size_t used;
    bool gone; /* nobody reads any more, or nobody can be told: it is over */

    struct json json; /* the event being made */
    char *line;
    size_t size;
};

/* One event: announce, then any json_... on what it answers, then announce_end, which writes as
 * much as there is room for. NULL: out of memory, and then it is `gone`. */
struct json *announce(struct announcer *announcer, const char *event);
void announce_end(struct announcer *announcer);

/* Milliseconds left; null where there is no deadline or nobody knows it. */
void announce_left(struct json *json, int64_t left_ms);

/* What to poll stdout for, and what to do after it. */
void announce_watch(const struct announcer *announcer, struct pollfd *out);
void announce_write(struct announcer *announcer);

/* So much waits for its reader that no more should be asked for. */
bool announce_is_full(const struct announcer *announcer);

/* Writes the rest, if the reader takes it within this time. */
void announce_close(struct announcer *announcer, int timeout_ms);

#endif

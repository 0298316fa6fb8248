/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_CLI_SHOW_H
#define SNIB_CLI_SHOW_H

#include "json.h"

#include <snib.h>

/* A holder or waiter, kept. */
struct party {
    char *name, *who, *label;
    uint64_t token;
    int mode;
    int place;
    unsigned permits;
    int64_t since_unix_ms, age_ms; /* 0 and -1: unknown */
    int64_t left_ms;
    bool stopped; /* a process of this host that is stopped; false: not known to be */
    size_t seen;  /* how many came before */
};

/* What was seen, names together, holders first, then waiters in order. */
struct parties {
    struct party *all;
    size_t count, room;
    size_t holders;
};

/* For snib_inspect and snib_list; `arg` is a struct parties. */
snib_seen_fn show_keep;
void show_free(struct parties *);

/* The part from `from` on that is about one name: where it ends, and how many of it hold. */
size_t show_same_name(const struct parties *, size_t from, size_t *holders);

void show_sort(struct parties *); /* by name */

const char *show_mode(int mode);                 /* "exclusive" */
void show_table(const struct parties *, FILE *); /* all of them, of one name */

/* The holders and the waiters among [from, to); with what is said of the lock itself. */
void show_json(struct json *, const struct parties *, size_t from, size_t to);
void show_json_lock(struct json *, const char *name, const struct parties *, size_t from,
                    size_t to);

#endif

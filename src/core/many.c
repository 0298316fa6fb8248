/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Several names at once. Everybody takes them in the same order, by bytes, so no two callers can
 * wait for each other; one deadline covers all; if one is not to be had, none is kept.
 */
#include "core/client.h"

#include <stdlib.h>
#include <string.h>

struct named {
    const char *name;
    size_t index;
};

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct named *)a)->name, ((const struct named *)b)->name);
}

static int sort_names(struct named *sorted, const char *const names[], size_t n, snib_error *err)
{
    for (size_t i = 0; i < n; i++) {
        int rc = snib__name_check(names[i], err);
        if (rc < 0) {
            return rc;
        }
        sorted[i] = (struct named){names[i], i};
    }
    qsort(sorted, n, sizeof *sorted, by_name);
    for (size_t i = 1; i < n; i++) {
        if (strcmp(sorted[i - 1].name, sorted[i].name) == 0) {
            return snib__fail(err, SNIB_EINVAL, 0, "lock '%s' is given twice", sorted[i].name);
        }
    }
    return SNIB_OK;
}

int snib_acquire_all(snib_lease *out[], snib *client, const char *const names[], size_t n,
                     const snib_options *options, snib_error *err)
{
    if (!out || !names || n == 0 || n > 1000 || !client) {
        return snib__fail(err, SNIB_EINVAL, 0, "1 to 1000 names, a client, a place for the leases");
    }
    for (size_t i = 0; i < n; i++) {
        out[i] = NULL;
    }
    snib_options each = SNIB_OPTIONS;
    int rc = snib__options_read(&each, client, options, err);
    struct named *sorted = rc == 0 ? calloc(n, sizeof *sorted) : NULL;
    if (rc == 0) {
        rc = sorted ? sort_names(sorted, names, n, err)
                    : snib__fail(err, SNIB_ENOMEM, 0, "out of memory");
    }
    struct snib__instant started = snib__now();
    int64_t wait_ms = each.wait_ms;
    for (size_t i = 0; rc == 0 && sorted && i < n; i++) {
        if (wait_ms > 0) {
            int64_t left = wait_ms - snib__elapsed_ns(started, snib__now()) / SNIB__MS;
            each.wait_ms = left > 0 ? left : 0;
        }
        rc = snib_acquire(&out[sorted[i].index], client, sorted[i].name, &each, err);
    }
    for (size_t i = 0; rc == 0 && i < n; i++) { /* while the last was waited for */
        if (snib_state(out[i]) == SNIB_LOST) {
            rc = snib__fail(err, SNIB_ELOST, 0, "lock '%s' was lost before all were there",
                            names[i]);
        }
    }
    if (rc < 0) {
        for (size_t i = 0; i < n; i++) {
            snib_release(&out[i], NULL);
        }
    }
    free(sorted);
    return rc;
}

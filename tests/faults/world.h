/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the tests of all engines with a server share.
 */
#ifndef SNIB_TESTS_WORLD_H
#define SNIB_TESTS_WORLD_H

#include "check.h"
#include "overlap.h"
#include "proxy.h"
#include "snib.h"

#include <stdio.h>
#include <stdlib.h>

#define MAY_BE_UNUSED __attribute__((unused))

enum { PATIENCE_MS = 15000 };

MAY_BE_UNUSED static snib *client_of(const char *url)
{
    snib *client = NULL;
    snib_error error = {0};
    CHECK_OK(snib_open(&client, url, &error), error.message);
    return client;
}

MAY_BE_UNUSED static snib_options waiting(int64_t wait_ms)
{
    snib_options options = SNIB_OPTIONS;
    options.wait_ms = wait_ms;
    return options;
}

MAY_BE_UNUSED static void give(snib_lease **lease)
{
    snib_error error = {0};
    CHECK_OK(snib_release(lease, &error), error.message);
}

/* For snib_inspect and snib_list; `arg` is an int. */
MAY_BE_UNUSED static int count_seen(const snib_seen *seen, void *arg)
{
    (void)seen;
    ++*(int *)arg;
    return 0;
}

#endif

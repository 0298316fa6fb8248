/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random bytes that no other process has, and pauses that no two processes share.
 *
 * Bytes are drawn in small stocks per thread, because a system call for each lock would be a third
 * of the cost of an uncontended file lock. A stock remembers the process it belongs to.
 */
#include "base/random.h"

#include "base/process.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

static void (*random_source)(void *, size_t);

void snib__random_replace(void (*source)(void *out, size_t size))
{
    random_source = source;
}

static void from_kernel(unsigned char *out, size_t size)
{
    while (size > 0) {
        ssize_t n = getrandom(out, size, 0);
        if (n < 0) {
            if (errno == EINTR) {
                continue;
            }
            abort(); /* a lock with a guessable owner is worse than no program */
        }
        out += n;
        size -= (size_t)n;
    }
}

void snib__random(void *out, size_t size)
{
    static _Thread_local struct {
        pid_t pid;
        size_t left;
        unsigned char bytes[256];
    } stock;

    if (random_source) {
        random_source(out, size);
        return;
    }
    if (size > sizeof stock.bytes) {
        from_kernel(out, size);
        return;
    }
    if (stock.left < size || stock.pid != snib__pid()) {
        from_kernel(stock.bytes, sizeof stock.bytes);
        stock.left = sizeof stock.bytes;
        stock.pid = snib__pid();
    }
    stock.left -= size;
    memcpy(out, stock.bytes + stock.left, size);
    memset(stock.bytes + stock.left, 0, size);
}

int64_t snib__jitter(int64_t span)
{
    uint32_t dice;
    snib__random(&dice, sizeof dice);
    return span - span / 4 + (int64_t)((double)span / 2 * dice / UINT32_MAX);
}

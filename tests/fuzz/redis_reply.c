/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whatever a server sends, the reader of replies stays within its memory and its limits. The first
 * byte says in pieces of which size the rest arrives.
 */
#include "engines/redis/reply.h"

#include <assert.h>
#include <string.h>

static void walk(const struct snib__reply *reply, int depth)
{
    assert(depth < 12 && reply->text != NULL && reply->text[reply->size] == '\0');
    for (size_t i = 0; i < reply->count; i++) {
        if (reply->items[i]) {
            walk(reply->items[i], depth + 1);
        }
        (void)snib__reply_number(reply, i);
        assert(snib__reply_text(reply, i) != NULL);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2) {
        return 0;
    }
    size_t step = data[0] ? data[0] : 4096;
    struct snib__reader *reader = snib__reader_new();
    for (size_t at = 1; reader && at < size; at += step) {
        const struct snib__reply *reply = NULL;
        size_t part = size - at < step ? size - at : step;
        if (!snib__reader_feed(reader, (const char *)data + at, part)) {
            break;
        }
        int rc;
        while ((rc = snib__reader_next(reader, &reply)) == 1) {
            walk(reply, 0);
        }
        if (rc < 0) {
            break;
        }
    }
    snib__reader_free(reader);
    return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whatever a server says about its cluster: a map that is read names owners that are in it, and a
 * redirection names a slot and a port that exist. Each line is tried as a redirection and as a key.
 */
#include "engines/redis/slots.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

static const struct snib__place here = {.host = "10.0.0.1", .port = 6379};

static void read_text(const char *text)
{
    struct snib__redirect there;
    assert(snib__slot_of(text) < SNIB__SLOTS);
    if (snib__redirect_read(&there, text, &here)) {
        assert(there.slot < SNIB__SLOTS && there.to.port > 0 && there.to.port < 65536);
        assert(there.to.host[0] && memchr(there.to.host, '\0', sizeof there.to.host));
    }
}

static void read_map(const struct snib__reply *reply)
{
    static struct snib__slot_map map;
    memset(&map, 0, sizeof map);
    if (!snib__slots_read(&map, reply, &here)) {
        return;
    }
    assert(map.count <= SNIB__PLACES && snib__slots_covered(&map) <= SNIB__SLOTS);
    for (size_t i = 0; i < SNIB__SLOTS; i++) {
        assert(map.owner[i] <= map.count);
        assert(map.owner[i] == 0 || map.places[map.owner[i] - 1].master);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct snib__reply *reply = NULL;
    struct snib__reader *reader = snib__reader_new();
    char *text = malloc(size + 1), *line, *rest = text;
    if (reader && snib__reader_feed(reader, (const char *)data, size)) {
        while (snib__reader_next(reader, &reply) == 1) {
            read_map(reply);
        }
    }
    snib__reader_free(reader);
    if (text) {
        memcpy(text, data, size);
        text[size] = '\0';
        while ((line = strtok_r(rest, "\n", &rest)) != NULL) {
            read_text(line);
        }
    }
    free(text);
    return 0;
}

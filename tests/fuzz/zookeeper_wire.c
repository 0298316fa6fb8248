/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whatever a server sends, reading it stays within the bytes that came. The first byte says what
 * the rest is taken for.
 */
#include "engines/zookeeper/contender.h"

#include <assert.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void read_names(struct snib__zk_reader *r)
{
    int32_t count;
    char name[201], again[SNIB__ZK_LOCK_MOST + 1];
    snib__zk_get_count(r, &count);
    for (int32_t i = 0; i < count; i++) {
        struct snib__zk_text node;
        if (!snib__zk_get_text(r, &node)) {
            break;
        }
        (void)snib__zk_parse(node);
        if (snib__zk_decode(node, false, name)) {
            snib__zk_encode(name, false, again);
            assert(strlen(again) == node.size && memcmp(again, node.at, node.size) == 0);
        }
    }
}

static void read_place(struct snib__zk_reader *r, int mode)
{
    struct snib__zk_self self = {
        .node = "a-lock-0000000005", .sequence = 5, .mode = mode, .permits = 2};
    struct snib__zk_place place;
    if (snib__zk_place(r, &self, &place)) {
        assert(!place.held || place.listed);
        assert(place.in_the_way <= place.before);
        assert(place.before == 0 || place.first.size > 0);
    }
}

static void read_data(struct snib__zk_reader *r)
{
    struct snib__zk_text text;
    struct snib__zk_stat stat;
    struct snib__zk_owner owner;
    struct snib__zk_record record;
    char marked[SNIB__ZK_DATA_ROOM];
    if (snib__zk_get_data(r, &text, &stat)) {
        snib__zk_owner_read(&owner, text);
        if (snib__zk_owner_mark(text, "host:1", marked)) {
            assert(strlen(marked) < sizeof marked);
        }
        (void)snib__zk_record_read(&record, text);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct snib__zk_welcome welcome;
    struct snib__zk_event event;
    struct snib__zk_header header;
    struct snib__zk_text text;
    struct snib__zk_stat stat;
    size_t frame;
    if (size < 1) {
        return 0;
    }
    struct snib__zk_reader r = {.at = (const char *)data + 1, .left = size - 1};
    if (snib__zk_frame(r.at, r.left, &frame) == 1) {
        assert(frame <= r.left - 4);
    }
    int32_t error;
    int part;
    switch (data[0] % 8) {
    case 0:
        (void)snib__zk_get_welcome(&r, &welcome);
        break;
    case 1:
        (void)(snib__zk_get_header(&r, &header) && snib__zk_get_event(&r, &event));
        break;
    case 2:
        (void)snib__zk_get_created(&r, &text, &stat);
        break;
    case 3:
        read_names(&r);
        break;
    case 4:
        read_place(&r, data[0] / 8 % 3);
        break;
    case 5:
        read_data(&r);
        break;
    case 6:
        (void)snib__zk_get_multi(&r, &error, &part);
        break;
    default:
        (void)snib__zk_find(&r, "a-lock-", &text);
        break;
    }
    return 0;
}

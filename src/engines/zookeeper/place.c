/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who is in the way.
 *
 * The number decides, nothing else. An exclusive contender has everybody with a smaller number in
 * its way, a shared one the exclusive ones among them, a counted one nobody as long as fewer than
 * there are permits have smaller numbers. Contenders of every dialect count. Numbers are compared
 * as numbers; one that equals ours is in the way.
 */
#include "engines/zookeeper/place.h"

#include "snib.h"

#include <string.h>

static bool same(struct snib__zk_text text, const char *name)
{
    size_t size = strlen(name);
    return text.size == size && memcmp(text.at, name, size) == 0;
}

/* A reader of snib's, which sees every name: its UUID is of version 8, Curator's are of 4. */
static bool our_reader(struct snib__zk_text node, enum snib__zk_sort sort)
{
    enum { VERSION_AT = 3 + 14 };
    return sort == SNIB__ZK_READER && node.size > 3 + SNIB__ZK_GUID_SIZE &&
           memcmp(node.at, "_c_", 3) == 0 && node.at[VERSION_AT] == '8';
}

/* Does this one, which is before us, use the lock as another kind? */
static bool clashes(const struct snib__zk_contender_name *other, const struct snib__zk_self *self)
{
    if (self->mode == SNIB_COUNTED) {
        return other->sort != SNIB__ZK_PERMIT || other->permits != self->permits;
    }
    return other->sort == SNIB__ZK_PERMIT;
}

static bool blocks(const struct snib__zk_contender_name *other, const struct snib__zk_self *self)
{
    return self->mode != SNIB_SHARED || !snib__zk_reads(other->sort);
}

static void note_before(struct snib__zk_place *out, const struct snib__zk_contender_name *other,
                        struct snib__zk_text node, const struct snib__zk_self *self,
                        int64_t *nearest, int64_t *farthest)
{
    out->before++;
    if (clashes(other, self)) {
        out->clash = true;
        out->clash_permits = other->permits;
    }
    if (blocks(other, self)) {
        out->in_the_way++;
        if (out->in_the_way == 1 || other->sequence > *nearest) {
            *nearest = other->sequence;
            out->next = node;
            out->next_sort = other->sort;
        }
    }
    if (out->before == 1 || other->sequence < *farthest) {
        *farthest = other->sequence;
        out->first = node;
        out->first_sort = other->sort;
    }
}

/* How many hold, of those before us: readers up to the first writer, or one writer. */
static unsigned count_holders(struct snib__zk_reader r, int64_t first_writer)
{
    int32_t count;
    unsigned readers = 0;
    snib__zk_get_count(&r, &count);
    for (int32_t i = 0; i < count && !r.bad; i++) {
        struct snib__zk_text node;
        snib__zk_get_text(&r, &node);
        struct snib__zk_contender_name other = snib__zk_parse(node);
        readers += snib__zk_reads(other.sort) && other.sequence < first_writer ? 1 : 0;
    }
    return readers > 0 ? readers : 1;
}

bool snib__zk_place(struct snib__zk_reader *r, const struct snib__zk_self *self,
                    struct snib__zk_place *out)
{
    int32_t count;
    int64_t nearest = 0, farthest = 0;
    int64_t first_writer = self->sequence;
    const struct snib__zk_reader start = *r;
    *out = (struct snib__zk_place){.first_reader = -1};
    snib__zk_get_count(r, &count);
    for (int32_t i = 0; i < count && !r->bad; i++) {
        struct snib__zk_text node;
        snib__zk_get_text(r, &node);
        struct snib__zk_contender_name other = snib__zk_parse(node);
        if (other.sort == SNIB__ZK_STRANGER) {
            continue;
        }
        if (snib__zk_reads(other.sort) &&
            (out->first_reader < 0 || other.sequence < out->first_reader)) {
            out->first_reader = other.sequence;
        }
        if (same(node, self->node)) {
            out->listed = true;
            continue;
        }
        if (!our_reader(node, other.sort)) {
            out->sorts |= 1U << other.sort;
        }
        if (!snib__zk_reads(other.sort) && other.sequence < first_writer) {
            first_writer = other.sequence;
        }
        if (other.sequence <= self->sequence) {
            note_before(out, &other, node, self, &nearest, &farthest);
        }
    }
    snib__zk_get_stat(r, &out->parent);
    unsigned room = self->mode == SNIB_COUNTED ? self->permits : 1;
    out->held = out->listed && !out->clash && out->in_the_way < room;
    out->holders = self->mode == SNIB_COUNTED ? room : 1;
    if (!r->bad && !out->held && out->before > 1 && snib__zk_reads(out->first_sort)) {
        out->holders = count_holders(start, first_writer);
    }
    return !r->bad;
}

bool snib__zk_find(struct snib__zk_reader *r, const char *stem, struct snib__zk_text *out)
{
    int32_t count;
    size_t size = strlen(stem);
    snib__zk_get_count(r, &count);
    for (int32_t i = 0; i < count && !r->bad; i++) {
        if (snib__zk_get_text(r, out) && out->size > size && memcmp(out->at, stem, size) == 0) {
            return true;
        }
    }
    return false;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names in this process: who may go to the engine, and in which order.
 *
 * A thousand threads that want one exclusive lock are one claim at the engine: the first in line
 * asks, and when it is granted the second asks, so that it is in the engine's queue while the
 * first still holds. Shared and counted requests at the head of the line go together, a few at
 * a time. A request that only tries does not stand in line: the engine says busy or not.
 */
#include "core/line.h"

#include "base/hash.h"

#include "core/client.h"
#include "core/passing.h"

#include <stdlib.h>
#include <string.h>

#define TOGETHER 16U /* shared or counted claims of one name asked for at the same time */

static struct snib__line *look_up(snib *client, const char *name, uint64_t hash)
{
    struct snib__entry *e = snib__table_first(&client->lines, hash);
    for (; e; e = snib__entry_next(e)) {
        struct snib__line *p = SNIB__OF(e, struct snib__line, entry);
        if (strcmp(p->name, name) == 0) {
            return p;
        }
    }
    return NULL;
}

struct snib__line *snib__line_find(snib *client, const char *name)
{
    return look_up(client, name, snib__hash_text(name));
}

struct snib__line *snib__line_get(snib *client, const char *name)
{
    if (client->last_line && strcmp(client->last_line->name, name) == 0) {
        return client->last_line;
    }
    uint64_t hash = snib__hash_text(name);
    struct snib__line *p = look_up(client, name, hash);
    if (p) {
        return p;
    }
    size_t size = strlen(name) + 1;
    p = malloc(sizeof *p + size);
    if (!p) {
        return NULL;
    }
    *p = (struct snib__line){.users = 0};
    if (!snib__table_add(&client->lines, &p->entry, hash)) {
        free(p);
        return NULL;
    }
    memcpy(p->name, name, size);
    snib__list_init(&p->waiting);
    snib__list_init(&p->holds);
    return p;
}

static bool unused(const struct snib__line *line)
{
    return snib__list_empty(&line->waiting) && line->users == 0;
}

static void forget(snib *client, struct snib__line *line)
{
    snib__table_remove(&client->lines, &line->entry);
    free(line);
}

/* The one used last stays: most programs come back to the name they had. */
void snib__line_put(snib *client, struct snib__line *line)
{
    if (!unused(line) || line == client->last_line) {
        return;
    }
    struct snib__line *old = client->last_line;
    client->last_line = line;
    if (old && unused(old)) {
        forget(client, old);
    }
}

static bool may_go(const struct snib__line *line, const struct snib__request *r)
{
    if (snib__passing_awaited(line, r)) {
        return false;
    }
    if (line->asking == 0) {
        return true;
    }
    return r->options.mode != SNIB_EXCLUSIVE && r->options.mode == line->asking_mode &&
           line->asking < TOGETHER;
}

void snib__line_admit(snib *client, struct snib__line *line)
{
    if (snib__list_empty(&line->waiting)) {
        snib__line_put(client, line);
        return;
    }
    line->users++; /* who is out of memory leaves at once: the line must not go with it */
    while (!snib__list_empty(&line->waiting)) {
        struct snib__request *r = SNIB__OF(line->waiting.after, struct snib__request, in_line);
        if (client->closing || line->closed || !may_go(line, r)) {
            break;
        }
        snib__list_remove(&r->in_line);
        snib__request_again(r);
    }
    line->users--;
    snib__line_put(client, line);
}

void snib__lines_free(snib *client)
{
    struct snib__entry *e;
    while ((e = snib__table_next(&client->lines, NULL)) != NULL) {
        forget(client, SNIB__OF(e, struct snib__line, entry));
    }
    snib__table_free(&client->lines);
}

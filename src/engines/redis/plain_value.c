/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is in the string of a lock: snib:ID:TOKEN WHO LABEL if snib holds it, and whatever another
 * program likes if that does.
 *
 * Another program's holder draws no token. A number made from what is in the key stands for it
 * where one has to say which holder is meant; it is below 2^45 and grows with nothing.
 */
#include "engines/redis/plain.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char head[] = "snib:";

void snib__plain_id(char out[SNIB__PLAIN_ID + 1], const unsigned char id[SNIB__ID_SIZE])
{
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < SNIB__ID_SIZE; i++) {
        out[2 * i] = digits[id[i] >> 4];
        out[2 * i + 1] = digits[id[i] & 15];
    }
    out[SNIB__PLAIN_ID] = '\0';
}

/* As scripts/plain/evict.lua does it. */
uint64_t snib__plain_number(const char *text, size_t size)
{
    uint64_t number = 0;
    for (size_t i = 0; i < size && i < 64; i++) {
        number = (number * 131 + (unsigned char)text[i]) % (UINT64_C(1) << 45);
    }
    return number + 1;
}

void snib__plain_read(struct snib__plain_value *v, const char *text, size_t size)
{
    const size_t before = sizeof head - 1;
    const char *token = text + before + SNIB__PLAIN_ID + 1;
    *v = (struct snib__plain_value){.info = "another-program "};
    if (size > before + SNIB__PLAIN_ID + 2 && strncmp(text, head, before) == 0 &&
        strspn(text + before, "0123456789abcdef") == SNIB__PLAIN_ID && token[-1] == ':') {
        char *rest;
        v->token = strtoull(token, &rest, 10);
        v->id = text + before;
        v->ours = rest > token && *rest == ' ' && v->token > 0 && v->token <= INT64_MAX;
        v->info = v->ours ? rest + 1 : v->info;
    }
    if (!v->ours) {
        v->token = snib__plain_number(text, size);
    }
}

/* What is left of it, and then the string: two commands, because there may be no scripts. */
void snib__plain_inspect(struct snib__command *c, const struct snib__wish *wish, unsigned look)
{
    char key[SNIB__KEY_MAX];
    snib__plain_key(key, wish->prefix, wish->name);
    snib__command_begin(c);
    snib__command_text(c, look == 0 ? "PTTL" : "GET");
    snib__command_format(c, "%s", key);
}

int snib__plain_show(const struct snib__reply *reply, const int64_t numbers[SNIB__LOOKS],
                     const char *name, const struct snib__server_clock *clock,
                     snib__layout_show *show, void *arg)
{
    struct snib__plain_value v;
    char who[128];
    int64_t now_ms = snib__server_clock_about_ms(clock);
    if (reply->type != REDIS_REPLY_STRING) {
        return 0; /* nobody has it */
    }
    snib__plain_read(&v, reply->text, reply->size);
    const char *space = strchr(v.info, ' ');
    snprintf(who, sizeof who, "%.*s", space ? (int)(space - v.info) : 127, v.info);
    snib_seen seen = {
        .size = sizeof seen,
        .name = name,
        .who = who,
        .label = space ? space + 1 : "",
        .token = v.token,
        .mode = SNIB_EXCLUSIVE,
        .permits = 1,
        .left_ms = numbers[0] == -1 ? SNIB_FOREVER
                   : numbers[0] > 0 ? numbers[0]
                                    : 1,
    };
    if (v.ours) { /* tokens are times, or soon after */
        int64_t since_ms = (int64_t)(v.token / 1000);
        seen.since_unix_ms = since_ms < now_ms ? since_ms : now_ms;
    }
    show(arg, &seen);
    return 0;
}

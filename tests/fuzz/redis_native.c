/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whatever a server sends, what is made of it stays within its bounds: answers, holders and
 * waiters, messages, names, errors and INFO.
 */
#include "engines/redis/errors.h"
#include "engines/redis/fitness.h"
#include "engines/redis/native.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

static void show(void *arg, const snib_seen *seen)
{
    (void)arg;
    assert(seen->who && seen->label && strlen(seen->who) < 128);
    assert(seen->left_ms >= -1 && seen->left_ms < INT64_MAX / 1000000);
    assert(seen->place >= 0);
}

static void read_reply(const struct snib__reply *reply)
{
    static const struct snib__server_clock clock = {.known = true};
    struct snib__layout_answer answer;
    if (snib__native_answer(&answer, reply)) {
        assert(answer.word != SNIB__ANSWER_HELD || answer.token > 0);
        assert(answer.word != SNIB__ANSWER_HELD ||
               (answer.left_ms >= 0 && answer.left_ms < INT64_MAX / 1000000));
    }
    if (reply->type == REDIS_REPLY_ARRAY) {
        (void)snib__native_show(reply, (const int64_t[SNIB__LOOKS]){0}, "name", &clock, show, NULL);
    }
}

static void read_text(const char *text, size_t size)
{
    struct snib__layout_grant grant;
    struct snib__fitness fitness = {.uptime_s = -1};
    char name[SNIB__KEY_MAX], why[200];
    if (snib__native_grant(&grant, "snib", text, size)) {
        assert(grant.token > 0 && grant.left_ms > 0 && strlen(grant.name) < sizeof grant.name);
    }
    if (snib__native_name_of(name, "snib", text)) {
        assert(strlen(name) == strlen(text) - strlen("snib:{}"));
    }
    assert(strlen(snib__error_read(text).word) > 0);
    snib__fitness_info(&fitness, text);
    snib__fitness_setting(&fitness, "save", text);
    (void)snib__fitness_judge(&fitness, false, why, sizeof why);
    assert(snib__fitness_version(&fitness) >= 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct snib__reply *reply = NULL;
    struct snib__reader *reader = snib__reader_new();
    char *text = malloc(size + 1);
    if (text) {
        memcpy(text, data, size);
        text[size] = '\0';
        read_text(text, size);
    }
    free(text);
    if (reader && snib__reader_feed(reader, (const char *)data, size)) {
        while (snib__reader_next(reader, &reply) == 1) {
            read_reply(reply);
        }
    }
    snib__reader_free(reader);
    return 0;
}

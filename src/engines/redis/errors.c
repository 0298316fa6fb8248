/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the server's errors mean. All of them say that nothing was executed, but for a script that
 * failed half-way: ours write before they tell, so that such a one has told nobody.
 */
#include "engines/redis/redis.h"

#include <string.h>

enum snib__error_kind snib__redis_error(const char *error, int *code)
{
    static const struct {
        const char *word;
        enum snib__error_kind kind;
        int code;
    } known[] = {
        {"NOSCRIPT", SNIB__NO_SCRIPT, SNIB_EPROTO},  {"LOADING", SNIB__LATER, SNIB_EUNREACH},
        {"BUSY", SNIB__LATER, SNIB_EUNREACH},        {"MASTERDOWN", SNIB__LATER, SNIB_EUNREACH},
        {"TRYAGAIN", SNIB__LATER, SNIB_EUNREACH},    {"CLUSTERDOWN", SNIB__LATER, SNIB_EUNREACH},
        {"NOAUTH", SNIB__REFUSED, SNIB_EDENIED},     {"WRONGPASS", SNIB__REFUSED, SNIB_EDENIED},
        {"NOPERM", SNIB__REFUSED, SNIB_EDENIED},     {"READONLY", SNIB__REFUSED, SNIB_EUNSAFE},
        {"OOM", SNIB__REFUSED, SNIB_EUNSAFE},        {"MISCONF", SNIB__REFUSED, SNIB_EUNSAFE},
        {"NOREPLICAS", SNIB__REFUSED, SNIB_EUNSAFE}, {"MOVED", SNIB__REFUSED, SNIB_ENOTSUP},
        {"ASK", SNIB__REFUSED, SNIB_ENOTSUP},        {"CROSSSLOT", SNIB__REFUSED, SNIB_ENOTSUP},
    };
    /* And some have only "ERR". */
    static const struct {
        const char *words;
        int code;
    } phrases[] = {
        {"unauthenticated", SNIB_EDENIED}, /* may not even send that many arguments */
        {"without any password", SNIB_EDENIED},  {"DB index is out of range", SNIB_EINVAL},
        {"SELECT is not allowed", SNIB_ENOTSUP}, {"unknown command", SNIB_ENOTSUP},
    };
    size_t size = strcspn(error, " ");
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        if (strlen(known[i].word) == size && memcmp(known[i].word, error, size) == 0) {
            *code = known[i].code;
            return known[i].kind;
        }
    }
    /* Errors of commands inside a script carry their own word further back. */
    for (size_t i = 7; i < sizeof known / sizeof known[0]; i++) {
        if (strstr(error, known[i].word)) {
            *code = known[i].code;
            return known[i].kind;
        }
    }
    for (size_t i = 0; i < sizeof phrases / sizeof phrases[0]; i++) {
        if (strstr(error, phrases[i].words)) {
            *code = phrases[i].code;
            return SNIB__REFUSED;
        }
    }
    *code = SNIB_EPROTO;
    return SNIB__REFUSED;
}

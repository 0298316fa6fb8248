/* SPDX-License-Identifier: Apache-2.0 */
/*
 * URLs without their secrets.
 *
 * The redactor must be safe on what the parser refuses, because such text is what goes into error
 * messages. So it does not parse. It hides from the first ':' behind the scheme up to the last
 * '@' of the whole text, because a password may hold '@', '/', '?' and '#' that somebody forgot to
 * encode; a port that is not a number, and all behind it, may be the rest of one; and it
 * hides the values of query keys that end like "password". This hides more than a parser would,
 * so the parser refuses every URL about which the two disagree: a URL that is accepted is shown
 * exact but for its secrets, and a mistyped one does not send half a password to a name server.
 *
 * What can go wrong: a password that is all digits, with the '@' and the host forgotten, looks
 * like a port and is shown. A secret that stands in the path or is used as a user is not known to
 * be one. A password with something like "&token=" in it hides the hosts too.
 */
#include "core/url.h"

#include "core/url_text.h"

#include <stdlib.h>

#define STARS "***"
#define HIDDEN '\x01' /* in a copy that has no other control characters */

#define LOWER "abcdefghijklmnopqrstuvwxyz"
#define UPPER "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
#define DIGITS "0123456789"

/* How many bytes at `p` stand for the character `c`: 1 plain, 3 as an escape, 0 if none do. */
static size_t stands_for(const char *p, char c)
{
    if (*p == c) {
        return 1;
    }
    return snib__escaped(p, p + strnlen(p, 3)) == c ? 3 : 0;
}

/* Behind the first ':', escaped or not; NULL if there is none. */
static const char *behind_colon(const char *p)
{
    for (; *p != '\0'; p++) {
        size_t size = stands_for(p, ':');
        if (size > 0) {
            return p + size;
        }
    }
    return NULL;
}

/* Behind "scheme:" or "scheme://"; NULL if the text does not start as a URL does. */
static const char *body_of(const char *text)
{
    size_t scheme = strspn(text, LOWER UPPER DIGITS "+.-");
    if (scheme == 0 || text[scheme] != ':') {
        return NULL;
    }
    const char *rest = text + scheme + 1;
    if (rest[0] == '/' && rest[1] == '/') {
        return rest + 2;
    }
    return *rest == '\0' || *rest == '?' ? rest : NULL;
}

/* The first thing among these hosts that stands where a port stands, and is none. */
static const char *first_odd_port(const char *from, const char *to)
{
    const char *p = from;
    while (p < to) {
        if (*p == '[' && (p == from || p[-1] == ',')) {
            size_t inside = strspn(p + 1, DIGITS "abcdefABCDEF:.");
            if (p[1 + inside] == ']') {
                p += inside + 2;
                continue;
            }
        }
        size_t colon = stands_for(p, ':');
        if (colon == 0) {
            p++;
            continue;
        }
        p += colon;
        size_t digits = strspn(p, DIGITS);
        if (digits == 0 || digits > 5 || (p + digits < to && p[digits] != ',')) {
            return p;
        }
        p += digits;
    }
    return NULL;
}

/* What has to be hidden before the query. */
struct snib__span snib__url_secret(const char *text)
{
    const char *end = text + strlen(text);
    const char *at = strrchr(text, '@');
    const char *body = body_of(text);
    const char *colon = behind_colon(body != NULL ? body : text);
    if (at != NULL && colon != NULL && colon <= at) {
        /* The password may go on behind an '@' of its own: `:p@q:REST`. */
        bool odd = first_odd_port(at + 1, at + 1 + strcspn(at + 1, "/?#")) != NULL;
        return (struct snib__span){colon, odd ? end : at};
    }
    if (body == NULL) { /* anything may be anything */
        return at != NULL ? (struct snib__span){text, end} : (struct snib__span){colon, end};
    }
    const char *hosts_end = body + strcspn(body, "/?#");
    const char *hosts = at != NULL && at < hosts_end ? at + 1 : body;
    return (struct snib__span){first_odd_port(hosts, hosts_end), end};
}

/* Does a key end like that of a secret? "redis-password" does, "passfile" does not. */
bool snib__url_secret_key(struct snib__span key)
{
    static const char *const words[] = {"password", "passwd", "pass",  "passphrase",
                                        "pwd",      "secret", "token", "auth"};
    char tail[16]; /* the last characters, decoded, in lower case */
    size_t used = 0;

    for (const char *p = key.from; p < key.to; p++) {
        int c = snib__escaped(p, key.to);
        if (c >= 0) {
            p += 2;
        } else {
            c = (unsigned char)*p;
        }
        if (c >= 'A' && c <= 'Z') {
            c += 'a' - 'A';
        } else if (!(c >= 'a' && c <= 'z') && !(c >= '0' && c <= '9')) {
            continue; /* "pass_word" and "password " are no disguise */
        }
        if (used == sizeof tail) {
            memmove(tail, tail + 1, --used);
        }
        tail[used++] = (char)c;
    }
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        size_t size = strlen(words[i]);
        if (used >= size && memcmp(tail + used - size, words[i], size) == 0) {
            return true;
        }
    }
    return false;
}

/* The end of a secret value: an '&' that starts the next key=value. An '&' that does not is
 * rather part of the secret. */
static const char *value_end(const char *p)
{
    for (; *p != '\0'; p++) {
        if (*p == '&') {
            size_t key = strspn(p + 1, LOWER UPPER DIGITS "-_.");
            if (key > 0 && p[1 + key] == '=') {
                break;
            }
        }
    }
    return p;
}

/* Hide the values of secret keys of `text` in its copy. Each '=' may end a key, also one inside of
 * a value. */
static void hide_values(char *copy, const char *text)
{
    const char *key = text;
    const char *p = text;
    while (*p != '\0') {
        size_t equals = stands_for(p, '=');
        const char *next = p + (equals > 0 ? equals : 1);
        if (equals > 0 && snib__url_secret_key((struct snib__span){key, p})) {
            const char *end = value_end(next);
            memset(copy + (next - text), HIDDEN, (size_t)(end - next));
            next = end;
        }
        if (strchr("?&;#/@:,", *p) != NULL) {
            key = next;
        }
        p = next;
    }
}

char *snib__url_redact(const char *text)
{
    size_t size = strlen(text);
    char *copy = malloc(size + 1);
    char *out = malloc(size * strlen(STARS) + 1);
    if (copy == NULL || out == NULL) {
        free(copy);
        free(out);
        return NULL;
    }
    for (size_t i = 0; i <= size; i++) {
        bool plain = i == size || (text[i] >= 0x20 && text[i] <= 0x7e);
        copy[i] = plain ? text[i] : '_'; /* means nothing to a terminal, nor in a URL */
    }

    /* A query starts with '?', or in mistyped text with '&', or behind what is hidden. */
    size_t query = strcspn(text, "?&");
    struct snib__span secret = snib__url_secret(text);
    if (secret.from != NULL) {
        size_t behind = (size_t)(secret.to - text);
        memset(copy + (secret.from - text), HIDDEN, snib__span_length(secret));
        query = query < behind ? query : behind;
    }
    hide_values(copy + query, text + query);

    char *end = out;
    for (size_t i = 0; i < size; i++) {
        if (copy[i] != HIDDEN) {
            *end++ = copy[i];
        } else if (i == 0 || copy[i - 1] != HIDDEN) {
            end = stpcpy(end, STARS);
        }
    }
    *end = '\0';
    explicit_bzero(copy, size);
    free(copy);
    return out;
}

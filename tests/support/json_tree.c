/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A strict reader of JSON: recursive descent over a text, a tree of nodes behind it.
 */
#include "json_tree.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEPTH_MAX 64

struct reader {
    const char *at;
    const char *why; /* the first complaint */
    int depth;
};

static struct json_node *value(struct reader *r);

static void *complain(struct reader *r, const char *why)
{
    r->why = r->why ? r->why : why;
    return NULL;
}

static void skip_blanks(struct reader *r)
{
    r->at += strspn(r->at, " \t\r\n");
}

static struct json_node *node(enum json_type type)
{
    struct json_node *made = calloc(1, sizeof *made);
    if (!made) {
        abort();
    }
    made->type = type;
    return made;
}

void json_free(struct json_node *n)
{
    while (n) {
        struct json_node *next = n->next;
        json_free(n->first);
        free(n->text);
        free(n->key);
        free(n);
        n = next;
    }
}

/* ---- Strings ---------------------------------------------------------------------------- */

static bool hex4(struct reader *r, uint32_t *out)
{
    *out = 0;
    for (int i = 0; i < 4; i++) {
        const char *digits = "0123456789abcdef0123456789ABCDEF";
        const char *found = *r->at ? strchr(digits, *r->at) : NULL;
        if (!found) {
            return false;
        }
        *out = *out << 4 | (uint32_t)((found - digits) % 16);
        r->at++;
    }
    return true;
}

static size_t encode(char *out, uint32_t c)
{
    if (c < 0x80) {
        out[0] = (char)c;
        return 1;
    }
    if (c < 0x800) {
        out[0] = (char)(0xc0 | c >> 6);
        out[1] = (char)(0x80 | (c & 0x3f));
        return 2;
    }
    if (c < 0x10000) {
        out[0] = (char)(0xe0 | c >> 12);
        out[1] = (char)(0x80 | (c >> 6 & 0x3f));
        out[2] = (char)(0x80 | (c & 0x3f));
        return 3;
    }
    out[0] = (char)(0xf0 | c >> 18);
    out[1] = (char)(0x80 | (c >> 12 & 0x3f));
    out[2] = (char)(0x80 | (c >> 6 & 0x3f));
    out[3] = (char)(0x80 | (c & 0x3f));
    return 4;
}

/* Behind a backslash. Answers how many bytes it stands for; 0: bad. */
static size_t escape(struct reader *r, char *out)
{
    static const char letters[] = "\"\\/bfnrt", means[] = "\"\\/\b\f\n\r\t";
    uint32_t c, low;
    const char *found = *r->at ? strchr(letters, *r->at) : NULL;
    if (found) {
        r->at++;
        *out = means[found - letters];
        return 1;
    }
    if (*r->at != 'u') {
        return 0;
    }
    r->at++;
    if (!hex4(r, &c) || c == 0 || (c >= 0xdc00 && c <= 0xdfff)) {
        return 0;
    }
    if (c >= 0xd800 && c <= 0xdbff) {
        if (strncmp(r->at, "\\u", 2) != 0) {
            return 0;
        }
        r->at += 2;
        if (!hex4(r, &low) || low < 0xdc00 || low > 0xdfff) {
            return 0;
        }
        c = 0x10000 + ((c & 0x3ff) << 10 | (low & 0x3ff));
    }
    return encode(out, c);
}

/* How long the character is; 0: not UTF-8, or a bare control character. */
static size_t plain(const unsigned char *s)
{
    if (s[0] < 0x20) {
        return 0;
    }
    if (s[0] < 0x80) {
        return 1;
    }
    size_t length = s[0] >= 0xc2 && s[0] <= 0xdf ? 2 : s[0] >= 0xe0 && s[0] <= 0xef ? 3 : 4;
    if (s[0] < 0xc2 || s[0] > 0xf4) {
        return 0;
    }
    for (size_t i = 1; i < length; i++) {
        if ((s[i] & 0xc0) != 0x80) {
            return 0;
        }
    }
    bool bad = (s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xed && s[1] > 0x9f) ||
               (s[0] == 0xf0 && s[1] < 0x90) || (s[0] == 0xf4 && s[1] > 0x8f);
    return bad ? 0 : length;
}

static char *string(struct reader *r)
{
    if (*r->at != '"') {
        return complain(r, "a string should be here");
    }
    char *out = malloc(strlen(r->at) + 1);
    size_t used = 0;
    if (!out) {
        abort();
    }
    for (r->at++; *r->at != '"';) {
        size_t n;
        if (*r->at == '\\') {
            r->at++;
            n = escape(r, out + used);
        } else {
            n = plain((const unsigned char *)r->at);
            memcpy(out + used, r->at, n);
            r->at += n;
        }
        if (n == 0) {
            free(out);
            return complain(r, "a bad escape, control character or byte in a string");
        }
        used += n;
    }
    r->at++;
    out[used] = '\0';
    return out;
}

/* ---- The rest --------------------------------------------------------------------------- */

static struct json_node *number(struct reader *r)
{
    const char *start = r->at;
    size_t digits;
    bool integer = true;
    r->at += *r->at == '-' ? 1 : 0;
    digits = strspn(r->at, "0123456789");
    if (digits == 0 || (digits > 1 && *r->at == '0')) {
        return complain(r, "a bad number");
    }
    r->at += digits;
    if (*r->at == '.') {
        integer = false;
        digits = strspn(r->at + 1, "0123456789");
        if (digits == 0) {
            return complain(r, "a bad fraction");
        }
        r->at += 1 + digits;
    }
    if (*r->at == 'e' || *r->at == 'E') {
        integer = false;
        r->at += r->at[1] == '+' || r->at[1] == '-' ? 2 : 1;
        digits = strspn(r->at, "0123456789");
        if (digits == 0) {
            return complain(r, "a bad exponent");
        }
        r->at += digits;
    }
    struct json_node *n = node(JSON_NUMBER);
    n->integer = integer;
    n->text = strndup(start, (size_t)(r->at - start));
    n->number = strtod(start, NULL);
    return n;
}

static struct json_node *word(struct reader *r)
{
    static const struct {
        const char *text;
        enum json_type type;
        bool boolean;
    } words[] = {
        {"null", JSON_NULL, false},
        {"true", JSON_BOOLEAN, true},
        {"false", JSON_BOOLEAN, false},
    };
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        if (strncmp(r->at, words[i].text, strlen(words[i].text)) == 0) {
            struct json_node *n = node(words[i].type);
            r->at += strlen(words[i].text);
            n->boolean = words[i].boolean;
            return n;
        }
    }
    return complain(r, "a value should be here");
}

static bool twice(const struct json_node *object, const char *key)
{
    for (const struct json_node *n = object->first; n; n = n->next) {
        if (strcmp(n->key, key) == 0) {
            return true;
        }
    }
    return false;
}

/* One element, with its key if it is a member. */
static struct json_node *element(struct reader *r, const struct json_node *parent)
{
    char *key = NULL;
    if (parent->type == JSON_OBJECT) {
        skip_blanks(r);
        key = string(r);
        if (!key) {
            return NULL;
        }
        skip_blanks(r);
        if (twice(parent, key) || *r->at != ':') {
            free(key);
            return complain(r, "a key twice, or without a colon");
        }
        r->at++;
    }
    struct json_node *n = value(r);
    if (n) {
        n->key = key;
    } else {
        free(key);
    }
    return n;
}

static struct json_node *container(struct reader *r, enum json_type type, char end)
{
    struct json_node *parent = node(type), **last = &parent->first;
    r->at++;
    skip_blanks(r);
    if (*r->at == end) {
        r->at++;
        return parent;
    }
    for (;;) {
        *last = element(r, parent);
        if (!*last) {
            break;
        }
        last = &(*last)->next;
        skip_blanks(r);
        if (*r->at == end) {
            r->at++;
            return parent;
        }
        if (*r->at != ',') {
            complain(r, "a comma or the end should be here");
            break;
        }
        r->at++;
    }
    json_free(parent);
    return NULL;
}

static struct json_node *value(struct reader *r)
{
    struct json_node *n;
    skip_blanks(r);
    if (++r->depth > DEPTH_MAX) {
        return complain(r, "too deep");
    }
    switch (*r->at) {
    case '{':
        n = container(r, JSON_OBJECT, '}');
        break;
    case '[':
        n = container(r, JSON_ARRAY, ']');
        break;
    case '"':
        n = node(JSON_STRING);
        n->text = string(r);
        if (!n->text) {
            json_free(n);
            n = NULL;
        }
        break;
    default:
        n = *r->at == '-' || (*r->at >= '0' && *r->at <= '9') ? number(r) : word(r);
    }
    r->depth--;
    return n;
}

struct json_node *json_parse(const char *text, const char **why)
{
    static char story[160];
    struct reader r = {.at = text};
    struct json_node *n = value(&r);
    skip_blanks(&r);
    if (n && *r.at) {
        complain(&r, "something behind the end");
        json_free(n);
        n = NULL;
    }
    if (!n) {
        snprintf(story, sizeof story, "at byte %zu: %s", (size_t)(r.at - text), r.why);
    }
    *why = n ? NULL : story;
    return n;
}

const struct json_node *json_find(const struct json_node *n, const char *path)
{
    while (n && *path) {
        size_t length = strcspn(path, ".");
        const struct json_node *child = n->first;
        if (n->type == JSON_ARRAY) {
            for (long i = strtol(path, NULL, 10); child && i > 0; i--) {
                child = child->next;
            }
        } else {
            while (child && (!child->key || strlen(child->key) != length ||
                             strncmp(child->key, path, length) != 0)) {
                child = child->next;
            }
        }
        n = child;
        path += length + (path[length] == '.' ? 1 : 0);
    }
    return n;
}

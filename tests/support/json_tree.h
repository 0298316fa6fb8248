/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_TESTS_JSON_TREE_H
#define SNIB_TESTS_JSON_TREE_H

/*
 * JSON, read strictly by RFC 8259 and checked against a schema.
 *
 * Of JSON Schema there is what docs/status.schema.json uses: type, const, enum, required,
 * properties, items, oneOf, minimum, minLength, minItems, pattern, $ref to "#/...". Any other
 * keyword fails the check, so that a schema cannot ask for what nobody looks at.
 */

#include <stdbool.h>
#include <stddef.h>

enum json_type { JSON_NULL, JSON_BOOLEAN, JSON_NUMBER, JSON_STRING, JSON_ARRAY, JSON_OBJECT };

struct json_node {
    enum json_type type;
    bool boolean;
    bool integer; /* a number without fraction and exponent */
    double number;
    char *text; /* of a string: UTF-8; of a number: as written */
    char *key;  /* of a member of an object */
    struct json_node *first, *next;
};

/* NULL: not JSON; `*why` says where and what. */
struct json_node *json_parse(const char *text, const char **why);
void json_free(struct json_node *);

/* The member of an object; NULL: none. "a.b.0.c" walks on through members and places. */
const struct json_node *json_find(const struct json_node *, const char *path);

/* NULL: valid; else what is wrong, valid until the next call. */
const char *json_invalid(const struct json_node *document, const struct json_node *schema);

#endif

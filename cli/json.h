/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_CLI_JSON_H
#define SNIB_CLI_JSON_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* A JSON document on its way to a stream. `key` is NULL inside of arrays and at the top. */
struct json {
    FILE *out;
    unsigned depth;
    bool inside;  /* something was written at this depth */
    bool compact; /* the whole document on one line */
};

void json_open(struct json *, const char *key, char bracket); /* '{' or '[' */
void json_close(struct json *, char bracket); /* '}' or ']'; ends the line at the top */

void json_text(struct json *, const char *key, const char *value); /* NULL: null */
void json_integer(struct json *, const char *key, int64_t value);
void json_boolean(struct json *, const char *key, bool value);
void json_null(struct json *, const char *key);

/* As a string, because many readers of JSON round numbers above 2^53. 0: null. */
void json_token(struct json *, const char *key, uint64_t value);

#endif

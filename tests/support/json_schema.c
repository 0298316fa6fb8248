/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A JSON document against a JSON schema: one function per keyword, a table of them, and a complaint
 * about every keyword that is not in it.
 */
#include "json_tree.h"

#include <regex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct check {
    const struct json_node *root; /* of the schema */
    char why[300];
};

static bool valid(struct check *, const struct json_node *n, const struct json_node *schema);

static bool complain(struct check *c, const struct json_node *n, const char *keyword,
                     const char *what)
{
    snprintf(c->why, sizeof c->why, "'%s': %s %s", n->key ? n->key : "(no key)", keyword, what);
    return false;
}

static bool equal(const struct json_node *a, const struct json_node *b)
{
    if (a->type != b->type) {
        return false;
    }
    switch (a->type) {
    case JSON_BOOLEAN:
        return a->boolean == b->boolean;
    case JSON_NUMBER:
    case JSON_STRING:
        return strcmp(a->text, b->text) == 0;
    default:
        return a->type == JSON_NULL;
    }
}

/* ---- Keywords --------------------------------------------------------------------------- */

typedef bool keyword_fn(struct check *, const struct json_node *n, const struct json_node *rule);

static bool of_type(const struct json_node *n, const char *name)
{
    static const char *const names[] = {"null", "boolean", "number", "string", "array", "object"};
    return strcmp(names[n->type], name) == 0 ||
           (strcmp(name, "integer") == 0 && n->type == JSON_NUMBER && n->integer);
}

static bool check_type(struct check *c, const struct json_node *n, const struct json_node *rule)
{
    if (rule->type == JSON_STRING) {
        return of_type(n, rule->text) || complain(c, n, "type", rule->text);
    }
    for (const struct json_node *one = rule->first; one; one = one->next) {
        if (of_type(n, one->text)) {
            return true;
        }
    }
    return complain(c, n, "type", "is none of them");
}

static bool check_const(struct check *c, const struct json_node *n, const struct json_node *rule)
{
    return equal(n, rule) || complain(c, n, "const", rule->text ? rule->text : "");
}

static bool check_enum(struct check *c, const struct json_node *n, const struct json_node *rule)
{
    for (const struct json_node *one = rule->first; one; one = one->next) {
        if (equal(n, one)) {
            return true;
        }
    }
    return complain(c, n, "enum", "is none of them");
}

static bool check_required(struct check *c, const struct json_node *n, const struct json_node *rule)
{
    for (const struct json_node *one = rule->first; n->type == JSON_OBJECT && one;
         one = one->next) {
        if (!json_find(n, one->text)) {
            return complain(c, n, "required", one->text);
        }
    }
    return true;
}

static bool check_properties(struct check *c, const struct json_node *n,
                             const struct json_node *rule)
{
    for (const struct json_node *one = rule->first; n->type == JSON_OBJECT && one;
         one = one->next) {
        const struct json_node *member = json_find(n, one->key);
        if (member && !valid(c, member, one)) {
            return false;
        }
    }
    return true;
}

static bool check_items(struct check *c, const struct json_node *n, const struct json_node *rule)
{
    for (const struct json_node *one = n->first; n->type == JSON_ARRAY && one; one = one->next) {
        if (!valid(c, one, rule)) {
            return false;
        }
    }
    return true;
}

static bool check_one_of(struct check *c, const struct json_node *n, const struct json_node *rule)
{
    char stories[200] = "";
    int matches = 0;
    for (const struct json_node *one = rule->first; one; one = one->next) {
        if (valid(c, n, one)) {
            matches++;
        } else {
            size_t used = strlen(stories);
            snprintf(stories + used, sizeof stories - used, "[%.40s] ", c->why);
        }
    }
    return matches == 1 || complain(c, n, "oneOf", matches ? "several match" : stories);
}

static bool check_minimum(struct check *c, const struct json_node *n, const struct json_node *rule)
{
    return n->type != JSON_NUMBER || n->number >= rule->number ||
           complain(c, n, "minimum", n->text);
}

static bool check_min_length(struct check *c, const struct json_node *n,
                             const struct json_node *rule)
{
    return n->type != JSON_STRING || (double)strlen(n->text) >= rule->number ||
           complain(c, n, "minLength", n->text);
}

static bool check_min_items(struct check *c, const struct json_node *n,
                            const struct json_node *rule)
{
    double count = 0;
    for (const struct json_node *one = n->first; one; one = one->next) {
        count += 1;
    }
    return n->type != JSON_ARRAY || count >= rule->number || complain(c, n, "minItems", "");
}

static bool check_pattern(struct check *c, const struct json_node *n, const struct json_node *rule)
{
    regex_t pattern;
    if (n->type != JSON_STRING) {
        return true;
    }
    if (regcomp(&pattern, rule->text, REG_EXTENDED | REG_NOSUB) != 0) {
        return complain(c, n, "pattern", "cannot be read");
    }
    bool found = regexec(&pattern, n->text, 0, NULL, 0) == 0;
    regfree(&pattern);
    return found || complain(c, n, "pattern", n->text);
}

static bool check_ref(struct check *c, const struct json_node *n, const struct json_node *rule)
{
    char path[100];
    snprintf(path, sizeof path, "%s", strncmp(rule->text, "#/", 2) == 0 ? rule->text + 2 : "?");
    for (char *p = path; *p; p++) {
        *p = *p == '/' ? '.' : *p;
    }
    const struct json_node *target = json_find(c->root, path);
    return target ? valid(c, n, target) : complain(c, n, "$ref leads nowhere:", rule->text);
}

static bool check_nothing(struct check *c, const struct json_node *n, const struct json_node *rule)
{
    (void)c;
    (void)n;
    (void)rule;
    return true;
}

static const struct {
    const char *name;
    keyword_fn *check;
} keywords[] = {
    {"$schema", check_nothing},
    {"title", check_nothing},
    {"description", check_nothing},
    {"$defs", check_nothing},
    {"$ref", check_ref},
    {"type", check_type},
    {"const", check_const},
    {"enum", check_enum},
    {"required", check_required},
    {"properties", check_properties},
    {"items", check_items},
    {"oneOf", check_one_of},
    {"minimum", check_minimum},
    {"minLength", check_min_length},
    {"minItems", check_min_items},
    {"pattern", check_pattern},
};

static keyword_fn *find_keyword(const char *name)
{
    for (size_t i = 0; i < sizeof keywords / sizeof keywords[0]; i++) {
        if (strcmp(keywords[i].name, name) == 0) {
            return keywords[i].check;
        }
    }
    return NULL;
}

static bool valid(struct check *c, const struct json_node *n, const struct json_node *schema)
{
    if (schema->type != JSON_OBJECT) {
        return complain(c, n, "schema", "is not an object");
    }
    for (const struct json_node *rule = schema->first; rule; rule = rule->next) {
        keyword_fn *check = find_keyword(rule->key);
        if (!check) {
            return complain(c, n, "schema has an unknown keyword", rule->key);
        }
        if (!check(c, n, rule)) {
            return false;
        }
    }
    return true;
}

const char *json_invalid(const struct json_node *document, const struct json_node *schema)
{
    static struct check c;
    c = (struct check){.root = schema};
    return valid(&c, document, schema) ? NULL : c.why;
}

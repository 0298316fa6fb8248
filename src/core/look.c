/* SPDX-License-Identifier: Apache-2.0 */
/*
 * inspect, list and break: one question to the engine, several answers.
 *
 * What the engine sees is kept until it has finished, and only then shown to the caller's
 * function, outside the mutex: it may take its time, and call snib.
 */
#include "core/client.h"

#include <stdlib.h>
#include <string.h>

struct sight {
    snib_seen seen;
    struct sight *next;
    char text[]; /* name, who, label */
};

/* A finding, likewise. */
struct found {
    snib_finding finding;
    struct found *next;
    char text[]; /* about, text, remedy */
};

struct look {
    struct snib__query query;
    snib *client;
    struct sight *first, **last;
    struct found *findings, **last_finding;
    bool short_of_memory;
    int code;
    snib_error *err;
    struct snib__waiter waiter;
};

static const char *keep(char **at, const char *text)
{
    const char *kept = *at;
    *at = stpcpy(*at, text ? text : "") + 1;
    return kept;
}

void snib__seen(struct snib__query *query, const snib_seen *seen)
{
    struct look *look = SNIB__OF(query, struct look, query);
    size_t size = strlen(seen->name) + (seen->who ? strlen(seen->who) : 0) +
                  (seen->label ? strlen(seen->label) : 0) + 3;
    struct sight *sight = malloc(sizeof *sight + size);
    if (!sight) {
        look->short_of_memory = true;
        return;
    }
    char *at = sight->text;
    sight->seen = *seen;
    sight->seen.size = sizeof sight->seen;
    sight->seen.name = keep(&at, seen->name);
    sight->seen.who = keep(&at, seen->who);
    sight->seen.label = keep(&at, seen->label);
    sight->next = NULL;
    *look->last = sight;
    look->last = &sight->next;
}

static size_t size_of(const char *text)
{
    return (text ? strlen(text) : 0) + 1;
}

void snib__found(struct snib__query *query, const snib_finding *finding)
{
    struct look *look = SNIB__OF(query, struct look, query);
    struct found *found = malloc(sizeof *found + size_of(finding->about) + size_of(finding->text) +
                                 size_of(finding->remedy));
    if (!found) {
        look->short_of_memory = true;
        return;
    }
    char *at = found->text;
    found->finding = *finding;
    found->finding.size = sizeof found->finding;
    found->finding.about = keep(&at, finding->about);
    found->finding.text = keep(&at, finding->text);
    found->finding.remedy = finding->remedy ? keep(&at, finding->remedy) : NULL;
    found->next = NULL;
    *look->last_finding = found;
    look->last_finding = &found->next;
}

void snib__finish(struct snib__query *query, int code, int sys, const char *reason)
{
    struct look *look = SNIB__OF(query, struct look, query);
    look->code = code;
    if (code < 0) {
        snib__fail(look->err, code, sys, "%s: '%s': %s", query->session->engine->scheme,
                   query->name, reason ? reason : snib_strerror(code));
    }
    look->client->answered = true;
    look->client->outstanding--;
    snib__wake(look->client, &look->waiter);
}

static void ask(struct look *look, void (*slot)(struct snib__query *))
{
    snib *client = look->client;
    look->last = &look->first;
    look->last_finding = &look->findings;
    look->query.session = &client->session;
    look->query.state = calloc(1, client->session.engine->query_size + 1);
    if (!look->query.state) {
        look->code = snib__fail(look->err, SNIB_ENOMEM, 0, "out of memory");
        return;
    }
    snib__waiter_init(&look->waiter);
    snib__enter(client);
    client->outstanding++;
    client->submitted = true;
    slot(&look->query);
    snib__settle(client);
    snib__wait(client, &look->waiter);
    snib__leave(client);
    snib__waiter_end(&look->waiter);
    free(look->query.state);
    if (look->code == 0 && look->short_of_memory) {
        look->code = snib__fail(look->err, SNIB_ENOMEM, 0, "out of memory");
    }
}

/* Show what was seen, and forget it. */
static void show(struct look *look, snib_seen_fn *each, void *arg)
{
    bool more = look->code == 0 && each != NULL;
    while (look->first) {
        struct sight *sight = look->first;
        look->first = sight->next;
        if (more && each(&sight->seen, arg) != 0) {
            more = false;
        }
        free(sight);
    }
}

static int inspect(snib *client, const char *name, bool prefix, snib_seen_fn *each, void *arg,
                   snib_error *err)
{
    struct look look = {.client = client, .err = err, .query = {.name = name, .prefix = prefix}};
    if (!client) {
        return snib__fail(err, SNIB_EINVAL, 0, "no client");
    }
    int rc = prefix && !name[0] ? SNIB_OK : snib__name_check(name, err);
    if (rc < 0) {
        return rc;
    }
    if (!snib__usable(client, err)) {
        return SNIB_ESTATE;
    }
    ask(&look, client->session.engine->inspect);
    show(&look, each, arg);
    return look.code;
}

int snib_inspect(snib *client, const char *name, snib_seen_fn *each, void *arg, snib_error *err)
{
    return inspect(client, name, false, each, arg, err);
}

int snib_list(snib *client, const char *prefix, snib_seen_fn *each, void *arg, snib_error *err)
{
    return inspect(client, prefix ? prefix : "", true, each, arg, err);
}

int snib_break(snib *client, const char *name, uint64_t token, snib_error *err)
{
    struct look look = {.client = client, .err = err, .query = {.name = name, .token = token}};
    if (!client || token == 0) {
        return snib__fail(err, SNIB_EINVAL, 0, "break wants the token that snib_inspect showed");
    }
    int rc = snib__name_check(name, err);
    if (rc < 0) {
        return rc;
    }
    if (!snib__usable(client, err)) {
        return SNIB_ESTATE;
    }
    ask(&look, client->session.engine->evict);
    show(&look, NULL, NULL);
    return look.code;
}

int snib_examine(snib *client, snib_finding_fn *each, void *arg, snib_error *err)
{
    struct look look = {.client = client, .err = err, .query = {.name = ""}};
    if (!client || !each) {
        return snib__fail(err, SNIB_EINVAL, 0, "no client, or nobody to tell");
    }
    if (!snib__usable(client, err)) {
        return SNIB_ESTATE;
    }
    ask(&look, client->session.engine->examine);
    bool more = look.code == 0;
    while (look.findings) {
        struct found *found = look.findings;
        look.findings = found->next;
        if (more && each(&found->finding, arg) != 0) {
            more = false;
        }
        free(found);
    }
    return look.code;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * inspect, list, break, seize and examine: one question to the engine, several answers.
 *
 * What the engine sees is kept until it has finished, and only then shown to the caller's
 * function, outside the mutex: it may take its time, and call snib.
 */
#include "core/client.h"
#include "core/name.h"

#include <stdlib.h>
#include <string.h>

struct kept {
    snib_seen seen;
    struct kept *next;
    char text[]; /* name, who, label */
};

/* A finding, likewise. */
struct found {
    snib_finding finding;
    struct found *next;
    char text[]; /* about, text, remedy */
};

struct inquiry {
    struct snib__query query;
    struct snib__list link; /* in the client's list until it is finished */
    snib *client;
    struct kept *first, **last;
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
    struct inquiry *inquiry = SNIB__OF(query, struct inquiry, query);
    size_t size = strlen(seen->name) + (seen->who ? strlen(seen->who) : 0) +
                  (seen->label ? strlen(seen->label) : 0) + 3;
    struct kept *kept = malloc(sizeof *kept + size);
    if (!kept) {
        inquiry->short_of_memory = true;
        return;
    }
    char *at = kept->text;
    kept->seen = *seen;
    kept->seen.size = sizeof kept->seen;
    kept->seen.name = keep(&at, seen->name);
    kept->seen.who = keep(&at, seen->who);
    kept->seen.label = keep(&at, seen->label);
    kept->next = NULL;
    *inquiry->last = kept;
    inquiry->last = &kept->next;
}

static size_t size_of(const char *text)
{
    return (text ? strlen(text) : 0) + 1;
}

void snib__found(struct snib__query *query, const snib_finding *finding)
{
    struct inquiry *inquiry = SNIB__OF(query, struct inquiry, query);
    struct found *found = malloc(sizeof *found + size_of(finding->about) + size_of(finding->text) +
                                 size_of(finding->remedy));
    if (!found) {
        inquiry->short_of_memory = true;
        return;
    }
    char *at = found->text;
    found->finding = *finding;
    found->finding.size = sizeof found->finding;
    found->finding.about = keep(&at, finding->about);
    found->finding.text = keep(&at, finding->text);
    found->finding.remedy = finding->remedy ? keep(&at, finding->remedy) : NULL;
    found->next = NULL;
    *inquiry->last_finding = found;
    inquiry->last_finding = &found->next;
}

void snib__finish(struct snib__query *query, int code, int sys, const char *reason)
{
    struct inquiry *inquiry = SNIB__OF(query, struct inquiry, query);
    inquiry->code = code;
    if (code < 0) {
        bool named = query->name[0] != '\0'; /* a list of everything has none */
        snib__fail(inquiry->err, code, sys, "%s: %s%s%s%s", query->session->engine->scheme,
                   named ? "'" : "", query->name, named ? "': " : "",
                   reason ? reason : snib_strerror(code));
    }
    snib__list_remove(&inquiry->link);
    inquiry->client->answered = true;
    inquiry->client->outstanding--;
    snib__wake(inquiry->client, &inquiry->waiter);
}

void snib__inquiries_end(snib *client)
{
    while (!snib__list_empty(&client->inquiries)) {
        struct inquiry *i = SNIB__OF(client->inquiries.after, struct inquiry, link);
        snib__finish(&i->query, SNIB_ECANCELED, 0, "the client was closed");
    }
}

static void ask(struct inquiry *inquiry, void (*slot)(struct snib__query *))
{
    snib *client = inquiry->client;
    inquiry->last = &inquiry->first;
    inquiry->last_finding = &inquiry->findings;
    inquiry->query.session = &client->session;
    inquiry->query.state = calloc(1, client->session.engine->query_size + 1);
    if (!inquiry->query.state) {
        inquiry->code = snib__fail(inquiry->err, SNIB_ENOMEM, 0, "out of memory");
        return;
    }
    snib__waiter_init(&inquiry->waiter);
    snib__enter(client);
    if (client->closing) {
        inquiry->code = snib__fail(inquiry->err, SNIB_ESTATE, 0, "the client is closed");
    } else {
        client->outstanding++;
        client->submitted = true;
        snib__list_append(&client->inquiries, &inquiry->link);
        slot(&inquiry->query);
        snib__settle(client);
        snib__wait(client, &inquiry->waiter);
    }
    snib__leave(client);
    snib__waiter_end(&inquiry->waiter);
    free(inquiry->query.state);
    if (inquiry->code == 0 && inquiry->short_of_memory) {
        inquiry->code = snib__fail(inquiry->err, SNIB_ENOMEM, 0, "out of memory");
    }
}

/* Show what was seen, and forget it. */
static void show(struct inquiry *inquiry, snib_seen_fn *each, void *arg)
{
    bool more = inquiry->code == 0 && each != NULL;
    while (inquiry->first) {
        struct kept *kept = inquiry->first;
        inquiry->first = kept->next;
        if (more && each(&kept->seen, arg) != 0) {
            more = false;
        }
        free(kept);
    }
}

static int inspect(snib *client, const char *name, bool prefix, snib_seen_fn *each, void *arg,
                   snib_error *err)
{
    struct inquiry inquiry = {
        .client = client, .err = err, .query = {.name = name, .prefix = prefix}};
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
    if (prefix && !(snib__traits_now(client) & SNIB_TRAIT_LISTS)) {
        return snib__fail(err, SNIB_ENOTSUP, 0, "%s: names cannot be listed",
                          client->session.engine->scheme);
    }
    ask(&inquiry, client->session.engine->inspect);
    show(&inquiry, each, arg);
    return inquiry.code;
}

int snib_inspect(snib *client, const char *name, snib_seen_fn *each, void *arg, snib_error *err)
{
    return inspect(client, name, false, each, arg, err);
}

int snib_list(snib *client, const char *prefix, snib_seen_fn *each, void *arg, snib_error *err)
{
    return inspect(client, prefix ? prefix : "", true, each, arg, err);
}

int snib_notice(snib *client, char *out, size_t size)
{
    if (!client || !out || size == 0) {
        return SNIB_EINVAL;
    }
    out[0] = '\0';
    if (!snib__usable(client, NULL)) {
        return SNIB_ESTATE;
    }
    snib__enter(client);
    strncat(out, client->session.notice, size - 1);
    snib__leave(client);
    return SNIB_OK;
}

static int evict(snib *client, const char *name, uint64_t token, bool force, snib_error *err)
{
    struct inquiry inquiry = {
        .client = client,
        .err = err,
        .query = {.name = name, .token = token, .force = force},
    };
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
    ask(&inquiry, client->session.engine->evict);
    show(&inquiry, NULL, NULL);
    return inquiry.code;
}

int snib_break(snib *client, const char *name, uint64_t token, snib_error *err)
{
    return evict(client, name, token, false, err);
}

int snib_seize(snib *client, const char *name, uint64_t token, snib_error *err)
{
    return evict(client, name, token, true, err);
}

int snib_examine(snib *client, snib_finding_fn *each, void *arg, snib_error *err)
{
    struct inquiry inquiry = {.client = client, .err = err, .query = {.name = ""}};
    if (!client || !each) {
        return snib__fail(err, SNIB_EINVAL, 0, "no client, or nobody to tell");
    }
    if (!snib__usable(client, err)) {
        return SNIB_ESTATE;
    }
    ask(&inquiry, client->session.engine->examine);
    bool more = inquiry.code == 0;
    while (inquiry.findings) {
        struct found *found = inquiry.findings;
        inquiry.findings = found->next;
        if (more && each(&found->finding, arg) != 0) {
            more = false;
        }
        free(found);
    }
    return inquiry.code;
}

int snib_rights(snib *client, char *out, size_t size, snib_error *err)
{
    if (!client || !out || size == 0) {
        return snib__fail(err, SNIB_EINVAL, 0, "no client, or nowhere to put the line");
    }
    const struct snib__engine *engine = client->session.engine;
    out[0] = '\0';
    if (!snib__usable(client, err)) {
        return SNIB_ESTATE;
    }
    if (!engine->rights) {
        return snib__fail(
            err, SNIB_ENOTSUP, 0,
            "%s: no such line for this engine; snib doctor says if rights are missing",
            engine->scheme);
    }
    int length = engine->rights(&client->session, out, size);
    if (length < 0 || (size_t)length >= size) {
        out[0] = '\0';
        return snib__fail(err, SNIB_EINVAL, 0, "no room for a line of %d bytes", length + 1);
    }
    return SNIB_OK;
}

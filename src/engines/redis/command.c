/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Commands: what goes over the wire for each thing we ask.
 *
 * A script is called by its SHA-1; when the server does not know it (after a restart, a failover,
 * SCRIPT FLUSH), the same request is repeated once with the text, which also makes it known.
 * Every script has one key. Attempts carry a not-after time by the server's clock, as soon as that
 * is known: one that was held up on its way is refused instead of leaving a lock nobody wants.
 */
#include "engines/redis/redis.h"

#include <stdio.h>
#include <string.h>

#define ARGS_MAX 18
#define RECHECK_MS 1000
#define TICKET_MS 5000    /* several re-checks: one that is late does not cost the place */
#define HAND_OVER_MS 2500 /* more than a re-check and its jitter: a lost message is noticed */

struct call {
    const struct snib__redis_script *script;
    int argc;
    const char *argv[ARGS_MAX];
    size_t sizes[ARGS_MAX];
    char key[SNIB__KEY_MAX];
    char id[SNIB__ID_MAX];
};

static void add(struct call *c, const char *text)
{
    c->argv[c->argc] = text;
    c->sizes[c->argc++] = strlen(text);
}

static void begin(struct call *c, struct snib__redis *r, const struct snib__redis_script *script,
                  bool by_text)
{
    c->script = script;
    c->argc = 0;
    add(c, by_text ? "EVAL" : "EVALSHA");
    c->argv[c->argc] = by_text ? script->text : script->sha1;
    c->sizes[c->argc++] = by_text ? script->size : sizeof script->sha1 - 1;
    add(c, "1");
    add(c, c->key);
    add(c, c->id);
    add(c, r->retention);
}

void snib__redis_key(const struct snib__redis *r, const char *name, char out[SNIB__KEY_MAX])
{
    const char *prefix = r->session->values[SNIB__REDIS_PREFIX].text;
    size_t before = strlen(prefix), size = strlen(name); /* at most 100 and 200: checked */
    memcpy(out, prefix, before);
    memcpy(out + before, ":{", 2);
    memcpy(out + before + 2, name, size);
    memcpy(out + before + 2 + size, "}", 2);
}

static struct snib__redis_request request_of(const struct snib__redis *r,
                                             enum snib__redis_kind kind, void *subject,
                                             const struct snib__redis_request *before)
{
    struct snib__redis_request request = {
        .kind = (int)kind, .subject = subject, .sent = snib__now()};
    request.due_ns = request.sent.boot_ns + r->session->timeout_ms * SNIB__MS;
    if (before) {
        request.by_text = before->by_text;
        request.trials = before->trials;
        request.due_ns = before->due_ns;
    }
    return request;
}

static bool ask(struct snib__redis *r, const struct snib__redis_request *request, struct call *c)
{
    return snib__link_ask(&r->link, request, c->argc, c->argv, c->sizes);
}

bool snib__redis_command(struct snib__redis *r, enum snib__redis_kind kind, void *subject, int argc,
                         const char **argv)
{
    struct snib__redis_request request = request_of(r, kind, subject, NULL);
    size_t sizes[ARGS_MAX];
    for (int i = 0; i < argc; i++) {
        sizes[i] = strlen(argv[i]);
    }
    return snib__link_ask(&r->link, &request, argc, argv, sizes);
}

int64_t snib__recheck_ms(const struct snib__claim *claim)
{
    int64_t third = claim->ttl_ms / 3;
    return third < RECHECK_MS ? third : RECHECK_MS;
}

bool snib__ask_attempt(struct snib__redis *r, struct snib__ticket *t,
                       const struct snib__redis_request *before)
{
    static const char *const modes[] = {"x", "s", "c"};
    const struct snib__claim *claim = t->claim;
    struct call c;
    char permits[12], ttl[24], lease[24], grant[24], not_after[24], span[12], info[256];
    struct snib__redis_request request = request_of(r, SNIB__ASK_ATTEMPT, t, before);
    bool queue = claim->may_queue && r->inbox.state == SNIB__INBOX_READY;

    request.not_after_ms = snib__clock_not_after(r, request.sent);
    snib__redis_key(r, claim->name, c.key);
    snib__ticket_id(t, c.id);
    snprintf(permits, sizeof permits, "%u", claim->mode == SNIB_COUNTED ? claim->permits : 0);
    snprintf(ttl, sizeof ttl, "%lld", (long long)claim->ttl_ms);
    snprintf(lease, sizeof lease, "%d", TICKET_MS);
    snprintf(grant, sizeof grant, "%lld",
             (long long)(claim->ttl_ms < HAND_OVER_MS ? claim->ttl_ms : HAND_OVER_MS));
    snprintf(not_after, sizeof not_after, "%lld", (long long)request.not_after_ms);
    snprintf(span, sizeof span, "%u", claim->span > 1 ? claim->span : 1);
    snprintf(info, sizeof info, "%s %s", r->session->who, claim->label);
    begin(&c, r, &snib__redis_attempt, request.by_text);
    add(&c, modes[claim->mode]);
    add(&c, permits);
    add(&c, ttl);
    add(&c, queue ? r->inbox.name : "");
    add(&c, lease);
    add(&c, grant);
    add(&c, not_after);
    add(&c, span);
    add(&c, info);
    if (!ask(r, &request, &c)) {
        return false;
    }
    t->under_way++;
    if (queue && t->asked.boot_ns == 0) {
        t->asked = request.sent; /* no grant can be older than the first request for it */
    }
    return true;
}

bool snib__ask_renew(struct snib__redis *r, struct snib__ticket *t,
                     const struct snib__redis_request *before)
{
    struct call c;
    char ttl[24];
    struct snib__redis_request request = request_of(r, SNIB__ASK_RENEW, t, before);
    snib__redis_key(r, t->claim->name, c.key);
    snib__ticket_id(t, c.id);
    snprintf(ttl, sizeof ttl, "%lld", (long long)t->claim->ttl_ms);
    begin(&c, r, &snib__redis_renew, request.by_text);
    add(&c, ttl);
    if (!ask(r, &request, &c)) {
        return false;
    }
    t->renewing = true;
    t->under_way++;
    return true;
}

bool snib__ask_release(struct snib__redis *r, struct snib__ticket *t,
                       const struct snib__redis_request *before)
{
    struct call c;
    char loose[24];
    struct snib__redis_request request = request_of(r, SNIB__ASK_RELEASE, t, before);
    snib__redis_key(r, t->claim->name, c.key);
    snib__ticket_id(t, c.id);
    snprintf(loose, sizeof loose, "%lld", (long long)t->loose_ms);
    begin(&c, r, &snib__redis_release, request.by_text);
    add(&c, loose);
    if (!ask(r, &request, &c)) {
        return false;
    }
    t->under_way++;
    return true;
}

bool snib__ask_clean_up(struct snib__redis *r, const char *key, const char *id, int64_t loose_ms)
{
    struct call c;
    char loose[24];
    struct snib__redis_request request = request_of(r, SNIB__ASK_CLEAN_UP, NULL, NULL);
    if (strlen(key) >= sizeof c.key || strlen(id) >= sizeof c.id) {
        return false;
    }
    strcpy(c.key, key);
    strcpy(c.id, id);
    snprintf(loose, sizeof loose, "%lld", (long long)loose_ms);
    /* By text: nobody is there to repeat it. */
    begin(&c, r, &snib__redis_release, true);
    add(&c, loose);
    return ask(r, &request, &c);
}

bool snib__ask_evict(struct snib__redis *r, struct snib__query *query,
                     const struct snib__redis_request *before)
{
    struct call c;
    char token[24];
    struct snib__redis_request request = request_of(r, SNIB__ASK_EVICT, query, before);
    snib__redis_key(r, query->name, c.key);
    c.id[0] = '\0';
    snprintf(token, sizeof token, "%llu", (unsigned long long)query->token);
    begin(&c, r, &snib__redis_evict, request.by_text);
    add(&c, token);
    return ask(r, &request, &c);
}

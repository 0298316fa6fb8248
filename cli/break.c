/* SPDX-License-Identifier: Apache-2.0 */
/*
 * snib break NAME: get a lock back from whoever holds it.
 *
 * A request: the holder is told, and nobody else enters before it has gone or its lease is over, so
 * that no two jobs run side by side. With --force it is taken away now, and what that means is
 * said.
 *
 * Shows whom it is about, and does it only with --yes, to those it has shown: each is named to the
 * engine by its token, so a holder that came meanwhile is spared. --token narrows that to what was
 * seen in an earlier call.
 */
#include "command.h"
#include "inquiry.h"
#include "say.h"

#include <inttypes.h>
#include <poll.h>
#include <string.h>

#define YOUNG_MS 300

static const char help[] =
    "usage: snib break [OPTIONS] NAME\n"
    "Asks the holder of the lock NAME to give it up. Without --yes: shows who it is.\n"
    "\n"
    "      --yes       do it\n"
    "      --force     take it away now, though its job may still run; says how long\n"
    "      --token N   only if N is the token it is held with\n"
    "  -U, --url URL   the engine: file:, redis://HOST, ... ($SNIB_URL, snib.conf)\n"
    "      --json      for programs; see docs/json.md\n"
    "\n"
    "A holder learns of it at once or at its next renewal; `snib run` then stops its\n"
    "command and gives the lock back. The next one gets it then, or when the lease is\n"
    "over. With file: the kernel keeps the lock for its process: one that does not\n"
    "listen is named, and you end it yourself; --force cannot change that.\n"
    "\n"
    "Status: 0 broken; 1 not held (any more), or not with that token; 75 not done;\n"
    "64 usage, 69 engine, 70 internal.\n";

enum outcome { BROKEN, GONE, ASKED, PENDING, REFUSED, FAILED };

static const char *const outcome_names[] = {
    [BROKEN] = "broken",   [GONE] = "gone",       [ASKED] = "asked",
    [PENDING] = "pending", [REFUSED] = "refused",
};

static const int outcome_statuses[] = {
    [BROKEN] = 0,
    [GONE] = 1,
    [ASKED] = STATUS_BUSY,
    [PENDING] = STATUS_BUSY,
    [REFUSED] = STATUS_BUSY,
};

static bool meant(const struct inquiry *inquiry, const struct party *party)
{
    return party->place == 0 && (inquiry->token == 0 || inquiry->token == party->token);
}

/* Shared holders have one token between them: one word to the engine is for all. */
static bool first_of_token(const struct parties *parties, size_t index)
{
    for (size_t i = 0; i < index; i++) {
        if (parties->all[i].place == 0 && parties->all[i].token == parties->all[index].token) {
            return false;
        }
    }
    return true;
}

/* Whoever holds a path by flock(2) alone has no token, and nothing that could be asked. */
static enum outcome refuse(const struct party *party, snib_error *error)
{
    (void)snprintf(error->message, sizeof error->message,
                   "not broken: %s holds it, not a snib; end that process", party->who);
    return REFUSED;
}

static int ask(const struct inquiry *inquiry, const struct party *party, snib_error *why)
{
    return inquiry->force ? snib_seize(inquiry->client, inquiry->subject, party->token, why)
                          : snib_break(inquiry->client, inquiry->subject, party->token, why);
}

/* `snib run` listens when its command has lasted a tenth of a second: of a holder that has just
 * come, "does not listen" would be wrong, and "kill it" bad advice. */
static int take_from(const struct inquiry *inquiry, const struct party *party, snib_error *why)
{
    int code = ask(inquiry, party, why);
    if (code != SNIB_EBUSY || inquiry->force || party->age_ms < 0 || party->age_ms >= YOUNG_MS) {
        return code;
    }
    (void)poll(NULL, 0, YOUNG_MS);
    return ask(inquiry, party, why);
}

/* Whoever was robbed may not know it yet. Where leases cannot be seen, the engine says what it
 * knows. */
static void say_still(const struct inquiry *inquiry, const struct party *party, snib_error *error)
{
    char span[SPAN_SIZE], notice[240] = "";
    bool endless = party->left_ms == SNIB_FOREVER;
    if (!inquiry->force || (endless && !(snib_traits(inquiry->client) & SNIB_TRAIT_LEASED))) {
        return; /* where a process has it, it has gone */
    }
    if (endless) {
        (void)snprintf(error->message, sizeof error->message,
                       "taken away; it had no lease: whoever had it (%.60s) is not told, and may "
                       "go on for ever; make sure that it has ended",
                       party->who);
    } else if (party->left_ms > 0) {
        (void)snprintf(error->message, sizeof error->message,
                       "taken away; the job of %s may still run for %s", party->who,
                       span_text(span, party->left_ms));
    } else if (party->left_ms < 0) {
        (void)snib_notice(inquiry->client, notice, sizeof notice);
        (void)snprintf(error->message, sizeof error->message,
                       "taken away; the job of %.60s may still run%s%s", party->who,
                       notice[0] ? ": " : "", notice);
    }
}

/* A lease ends by itself, and this one is not renewed any more; a process's lock does not. */
static enum outcome say_pending(const struct inquiry *inquiry, const struct party *party,
                                snib_error *why)
{
    char span[SPAN_SIZE];
    if (inquiry->force || party->left_ms <= 0 || party->left_ms == SNIB_FOREVER) {
        return REFUSED;
    }
    (void)snprintf(
        why->message, sizeof why->message,
        "%s was asked, and stops at its next renewal; nobody else has it before, and it is "
        "free in %s at the latest (--force takes it now)",
        party->who, span_text(span, party->left_ms));
    return PENDING;
}

/* FAILED: the engine could not be asked; `error` says why. */
static enum outcome break_all(const struct inquiry *inquiry, const struct parties *parties,
                              snib_error *error)
{
    enum outcome outcome = GONE;
    for (size_t i = 0; i < parties->count; i++) {
        if (!meant(inquiry, &parties->all[i]) || !first_of_token(parties, i)) {
            continue;
        }
        if (parties->all[i].token == 0) {
            outcome = refuse(&parties->all[i], error);
            continue;
        }
        snib_error why;
        switch (take_from(inquiry, &parties->all[i], &why)) {
        case SNIB_OK:
            outcome = outcome == GONE ? BROKEN : outcome;
            say_still(inquiry, &parties->all[i], error);
            break;
        case SNIB_ELOST:
            break;
        case SNIB_EBUSY:
            outcome = say_pending(inquiry, &parties->all[i], &why);
            *error = why;
            break;
        case SNIB_ENOTSUP: /* not a snib: the engine says so, and what to do */
            outcome = REFUSED;
            *error = why;
            break;
        default:
            *error = why;
            return FAILED;
        }
    }
    return outcome;
}

static enum outcome decide(const struct inquiry *inquiry, const struct parties *parties,
                           snib_error *error)
{
    size_t count = 0;
    const struct party *one = NULL;
    for (size_t i = 0; i < parties->count; i++) {
        if (meant(inquiry, &parties->all[i])) {
            count++;
            one = one ? one : &parties->all[i];
        }
    }
    if (count == 0 && inquiry->token && parties->holders) {
        (void)snprintf(error->message, sizeof error->message, "token %" PRIu64 " does not hold it",
                       inquiry->token);
    }
    if (count == 0) {
        return GONE;
    }
    if (inquiry->yes) {
        return break_all(inquiry, parties, error);
    }
    if (one->token == 0) {
        return refuse(one, error);
    }
    (void)snprintf(error->message, sizeof error->message,
                   "not broken; to %s %s%s%s, say --yes (--token %" PRIu64 ")",
                   inquiry->force ? "take it from" : "ask", one->who,
                   count > 1 ? " and others" : "",
                   inquiry->force ? ", who may still act under it" : " to give it up", one->token);
    return ASKED;
}

static void print_json(const struct inquiry *inquiry, const struct parties *parties,
                       enum outcome outcome, const char *reason)
{
    struct json j = {.out = stdout};
    inquiry_json(&j, inquiry, "break");
    json_text(&j, "name", inquiry->subject);
    json_text(&j, "outcome", outcome_names[outcome]);
    json_text(&j, "reason", reason[0] ? reason : NULL);
    show_json(&j, parties, 0, parties->count);
    json_close(&j, '}');
}

static int conclude(const struct inquiry *inquiry, const struct parties *parties,
                    enum outcome outcome, const char *reason)
{
    if (inquiry->json) {
        print_json(inquiry, parties, outcome, reason);
    } else if (outcome == BROKEN) {
        puts("broken");
        fflush(stdout);
        if (reason[0]) {
            say("%s", reason);
        }
    } else if (outcome == GONE && parties->holders && !reason[0]) {
        puts("they let go by themselves meanwhile");
    } else if (reason[0]) {
        fflush(stdout); /* the table comes before the reason */
        say("%s", reason);
    }
    return outcome_statuses[outcome];
}

int command_break(int argc, char *argv[])
{
    struct inquiry inquiry = {0};
    struct parties parties = {0};
    snib_error error = {0};
    int status = inquiry_read(&inquiry, argc, argv,
                              INQUIRY_URL | INQUIRY_YES | INQUIRY_SUBJECT | INQUIRY_NEEDS, help);
    status = status < 0 ? inquiry_open(&inquiry) : status;
    if (status >= 0) {
        return inquiry_end(&inquiry, status);
    }
    if (snib_inspect(inquiry.client, inquiry.subject, show_keep, &parties, &error) < 0) {
        status = client_fail(&error);
    } else {
        if (!inquiry.json) {
            inquiry_print(&inquiry, &parties);
            fflush(stdout); /* before the engine is asked: that may take its time */
        }
        enum outcome outcome = decide(&inquiry, &parties, &error);
        status = outcome == FAILED ? client_fail(&error)
                                   : conclude(&inquiry, &parties, outcome, error.message);
    }
    show_free(&parties);
    return inquiry_end(&inquiry, status);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * snib break NAME: take a lock away from whoever holds it.
 *
 * Shows whom it is about, and does it only with --yes, to those it has shown: each is named to the
 * engine by its token, so a holder that came meanwhile is spared. --token narrows that to what was
 * seen in an earlier call.
 */
#include "command.h"
#include "look.h"
#include "say.h"

#include <inttypes.h>
#include <string.h>

static const char help[] =
    "usage: snib break [OPTIONS] NAME\n"
    "Takes the lock NAME away from its holder. Without --yes: shows who that is.\n"
    "\n"
    "      --yes       do it\n"
    "      --token N   only if N is the token it is held with\n"
    "  -U, --url URL   the engine: file:, redis://HOST, ... ($SNIB_URL, snib.conf)\n"
    "      --json      for programs; see docs/json.md\n"
    "\n"
    "A holder learns of it at its next renewal and may work on until then; `snib run`\n"
    "then stops its command. With file: the kernel keeps the lock for the process:\n"
    "one that listens (`snib run`, `snib hold`) is asked to give up, any other is\n"
    "named, and you end it yourself.\n"
    "\n"
    "Status: 0 broken; 1 not held (any more), or not with that token; 75 not done;\n"
    "64 usage, 69 engine, 70 internal.\n";

enum outcome { BROKEN, GONE, ASKED, REFUSED, FAILED };

static const char *const outcome_names[] = {
    [BROKEN] = "broken",
    [GONE] = "gone",
    [ASKED] = "asked",
    [REFUSED] = "refused",
};

static const int outcome_statuses[] = {
    [BROKEN] = 0,
    [GONE] = 1,
    [ASKED] = STATUS_BUSY,
    [REFUSED] = STATUS_BUSY,
};

static bool meant(const struct look *look, const struct sight *sight)
{
    return sight->place == 0 && (look->token == 0 || look->token == sight->token);
}

/* Shared holders have one token between them: one word to the engine is for all. */
static bool first_of_token(const struct sights *sights, size_t index)
{
    for (size_t i = 0; i < index; i++) {
        if (sights->all[i].place == 0 && sights->all[i].token == sights->all[index].token) {
            return false;
        }
    }
    return true;
}

/* Whoever holds a path by flock(2) alone has no token, and nothing that could be asked. */
static enum outcome refuse(const struct sight *sight, snib_error *error)
{
    (void)snprintf(error->message, sizeof error->message,
                   "not broken: %s holds it, not a snib; end that process", sight->who);
    return REFUSED;
}

/* FAILED: the engine could not be asked; `error` says why. */
static enum outcome break_all(const struct look *look, const struct sights *sights,
                              snib_error *error)
{
    enum outcome outcome = GONE;
    for (size_t i = 0; i < sights->count; i++) {
        if (!meant(look, &sights->all[i]) || !first_of_token(sights, i)) {
            continue;
        }
        if (sights->all[i].token == 0) {
            outcome = refuse(&sights->all[i], error);
            continue;
        }
        snib_error why;
        switch (snib_break(look->client, look->subject, sights->all[i].token, &why)) {
        case SNIB_OK:
            outcome = outcome == GONE ? BROKEN : outcome;
            break;
        case SNIB_ELOST:
            break;
        case SNIB_EBUSY:
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

static enum outcome decide(const struct look *look, const struct sights *sights, snib_error *error)
{
    size_t count = 0;
    const struct sight *one = NULL;
    for (size_t i = 0; i < sights->count; i++) {
        if (meant(look, &sights->all[i])) {
            count++;
            one = one ? one : &sights->all[i];
        }
    }
    if (count == 0 && look->token && sights->holders) {
        (void)snprintf(error->message, sizeof error->message, "token %" PRIu64 " holds no longer",
                       look->token);
    }
    if (count == 0) {
        return GONE;
    }
    if (look->yes) {
        return break_all(look, sights, error);
    }
    if (one->token == 0) {
        return refuse(one, error);
    }
    (void)snprintf(error->message, sizeof error->message,
                   "not broken; to take it from %s%s, say --yes (--token %" PRIu64 ")", one->who,
                   count > 1 ? " and others" : "", one->token);
    return ASKED;
}

static void print_json(const struct look *look, const struct sights *sights, enum outcome outcome,
                       const char *reason)
{
    struct json j = {.out = stdout};
    look_json(&j, look, "break");
    json_text(&j, "name", look->subject);
    json_text(&j, "outcome", outcome_names[outcome]);
    json_text(&j, "reason", reason[0] ? reason : NULL);
    show_json(&j, sights, 0, sights->count);
    json_close(&j, '}');
}

static int conclude(const struct look *look, const struct sights *sights, enum outcome outcome,
                    const char *reason)
{
    if (look->json) {
        print_json(look, sights, outcome, reason);
    } else if (outcome == BROKEN) {
        puts("broken");
    } else if (outcome == GONE && sights->holders && !reason[0]) {
        puts("they let go by themselves meanwhile");
    } else if (reason[0]) {
        fflush(stdout); /* the table comes before the reason */
        say("%s", reason);
    }
    return outcome_statuses[outcome];
}

int command_break(int argc, char *argv[])
{
    struct look look = {0};
    struct sights sights = {0};
    snib_error error = {0};
    int status =
        look_read(&look, argc, argv, LOOK_URL | LOOK_YES | LOOK_SUBJECT | LOOK_NEEDS, help);
    status = status < 0 ? look_open(&look) : status;
    if (status >= 0) {
        return look_end(&look, status);
    }
    if (snib_inspect(look.client, look.subject, show_keep, &sights, &error) < 0) {
        status = look_failed(&error);
    } else {
        if (!look.json) {
            look_print(&look, &sights);
            fflush(stdout); /* before the engine is asked: that may take its time */
        }
        enum outcome outcome = decide(&look, &sights, &error);
        status = outcome == FAILED ? look_failed(&error)
                                   : conclude(&look, &sights, outcome, error.message);
    }
    show_free(&sights);
    return look_end(&look, status);
}

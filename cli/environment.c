/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The environment of the job, and what it tells of the runs around us.
 *
 *   SNIB_NAME     the lock
 *   SNIB_TOKEN    its token
 *   SNIB_TOKENS   with --also: the tokens of all, that of SNIB_NAME first
 *   SNIB_URL      the engine, without secrets
 *   SNIB_HELD     for snib itself: what this run and those around it hold
 *
 * A run inside of a run that waits for the outer one's lock would wait for ever, since the outer
 * one waits for it. SNIB_HELD tells: one line for each lock with the process that holds it, mode,
 * permits, name and URL, between tabs, which no name can hold. A variable outlives the process
 * that set it (a daemon may have been started from there), so a line counts only if its process
 * is above us. A command that hides its environment (sudo, ssh) hides this too, and then waits.
 */
#include "environment.h"

#include "command.h"
#include "paths.h"
#include "process.h"
#include "say.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *const ours[] = {"SNIB_NAME", "SNIB_TOKEN", "SNIB_TOKENS", "SNIB_URL",
                                   "SNIB_HELD"};
enum { OURS = sizeof ours / sizeof ours[0] };

static bool is_ours(const char *variable)
{
    for (size_t i = 0; i < OURS; i++) {
        size_t length = strlen(ours[i]);
        if (strncmp(variable, ours[i], length) == 0 && variable[length] == '=') {
            return true;
        }
    }
    return false;
}

/* ---- What this run holds ---------------------------------------------------------------- */

static void write_held(FILE *out, const struct lock *lock)
{
    const char *outer = getenv("SNIB_HELD");
    const struct options *o = lock->options;
    (void)fprintf(out, "SNIB_HELD=%s", outer ? outer : "");
    for (size_t i = 0; i < o->name_count; i++) {
        (void)fprintf(out, "%d\t%d\t%u\t%s\t%s\n", (int)getpid(), o->lock.mode, o->lock.permits,
                      o->names[i], snib_url(lock->client));
    }
}

static void write_tokens(FILE *out, const struct lock *lock)
{
    (void)fputs("SNIB_TOKENS=", out);
    for (size_t i = 0; i < lock->options->name_count; i++) {
        (void)fprintf(out, "%s%" PRIu64, i ? " " : "", snib_token(lock->leases[i]));
    }
}

static void write_name(FILE *out, const struct lock *lock)
{
    (void)fprintf(out, "SNIB_NAME=%s", lock->options->names[0]);
}

static void write_token(FILE *out, const struct lock *lock)
{
    (void)fprintf(out, "SNIB_TOKEN=%" PRIu64, snib_token(lock->leases[0]));
}

static void write_url(FILE *out, const struct lock *lock)
{
    (void)fprintf(out, "SNIB_URL=%s", snib_url(lock->client));
}

static char *written(void (*write_it)(FILE *, const struct lock *), const struct lock *lock)
{
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    if (!out) {
        return NULL;
    }
    write_it(out, lock);
    if (fclose(out) != 0) {
        free(text);
        return NULL;
    }
    return text;
}

/* The last OURS places belong to us and are freed; the others are the process's own. */
char **environment_make(const struct lock *lock)
{
    static void (*const writers[OURS])(FILE *, const struct lock *) = {
        write_name, write_token, write_url, write_held, write_tokens};
    size_t n = 0, kept = OURS;
    while (environ && environ[n]) {
        n++;
    }
    char **all = calloc(n + OURS + 1, sizeof *all);
    if (!all) {
        return NULL;
    }
    size_t count = lock->options->name_count > 1 ? OURS : OURS - 1;
    for (size_t i = 0; i < count; i++) {
        all[i] = written(writers[i], lock);
        if (!all[i]) {
            environment_free(all);
            return NULL;
        }
    }
    kept = count;
    for (size_t i = 0; i < n; i++) {
        if (!is_ours(environ[i])) {
            all[kept++] = environ[i];
        }
    }
    return all;
}

void environment_free(char **all)
{
    for (size_t i = 0; all && all[i] && is_ours(all[i]); i++) {
        free(all[i]);
    }
    free(all);
}

/* ---- The runs around us ----------------------------------------------------------------- */

struct held {
    int pid, mode;
    unsigned permits;
    char name[256], url[4096];
};

/* One line; answers the next. */
static const char *read_line(const char *line, struct held *out)
{
    *out = (struct held){0};
    if (sscanf(line, "%d\t%d\t%u\t%255[^\t\n]\t%4095[^\t\n]", &out->pid, &out->mode, &out->permits,
               out->name, out->url) != 5) {
        out->pid = 0;
    }
    const char *end = strchr(line, '\n');
    return end ? end + 1 : line + strlen(line);
}

/* How many permits of this name are held above us; an exclusive lock counts as all of them. */
static unsigned taken_above(const struct lock *lock, const char *name, int *by)
{
    const struct options *o = lock->options;
    unsigned taken = 0;
    struct held held;
    for (const char *line = getenv("SNIB_HELD"); line && *line;) {
        line = read_line(line, &held);
        if (held.pid <= 0 || strcmp(held.name, name) != 0 ||
            !paths_same_place(held.url, snib_url(lock->client)) || held.pid == getpid() ||
            !process_is_above(held.pid)) {
            continue;
        }
        bool compatible = held.mode == o->lock.mode && held.mode != SNIB_EXCLUSIVE;
        unsigned weight = !compatible ? o->lock.permits : held.mode == SNIB_COUNTED ? 1 : 0;
        taken += weight;
        *by = held.pid;
    }
    return taken;
}

int environment_check_nested(const struct lock *lock)
{
    const struct options *o = lock->options;
    int by = 0;
    if (o->lock.wait_ms == 0) {
        return 0; /* it will be busy, and say so */
    }
    for (size_t i = 0; i < o->name_count; i++) {
        if (taken_above(lock, o->names[i], &by) >= o->lock.permits) {
            return fail(STATUS_USAGE,
                        "lock '%s' is held by the snib run around this one (process %d), "
                        "which would be waited for for ever",
                        o->names[i], by);
        }
    }
    return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the commands that look have in common: their options, the client, the first line.
 *
 * Unlike with `run`, options may also follow the name: there is no command they could belong to.
 * The first line names the URL that was asked, so that nobody looks in one place for a lock that
 * was taken in another.
 */
#include "look.h"

#include "command.h"
#include "options.h"
#include "say.h"
#include "secret.h"
#include "table.h"
#include "token.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { JSON = 256, NAMES, YES, TOKEN, HELP };

static const struct known {
    struct option option;
    unsigned needs;
} known[] = {
    {{"json", no_argument, NULL, JSON}, 0},
    {{"help", no_argument, NULL, HELP}, 0},
    {{"url", required_argument, NULL, 'U'}, LOOK_URL},
    {{"names", no_argument, NULL, NAMES}, LOOK_NAMES},
    {{"yes", no_argument, NULL, YES}, LOOK_YES},
    {{"token", required_argument, NULL, TOKEN}, LOOK_YES},
};

#define KNOWN (sizeof known / sizeof known[0])

static void table_for(struct option table[KNOWN + 1], unsigned which)
{
    size_t n = 0;
    for (size_t i = 0; i < KNOWN; i++) {
        if ((known[i].needs & which) == known[i].needs) {
            table[n++] = known[i].option;
        }
    }
    table[n] = (struct option){0};
}

static int take_url(struct look *look)
{
    secret_free(look->url);
    look->url_argument = optarg;
    look->url = secret_take(optarg);
    return look->url ? -1 : fail(STATUS_INTERNAL, "out of memory");
}

static int one_option(struct look *look, int answer, const char *help)
{
    switch (answer) {
    case JSON:
        look->json = true;
        return -1;
    case NAMES:
        look->names = true;
        return -1;
    case YES:
        look->yes = true;
        return -1;
    case TOKEN:
        return token_read(&look->token, optarg)
                   ? -1
                   : fail(STATUS_USAGE, "--token: '%s' is not a token", optarg);
    case 'U':
        return take_url(look);
    default:
        fputs(help, stdout);
        return look_end(look, 0);
    }
}

static int read_subject(struct look *look, int argc, char *argv[], unsigned which)
{
    if (optind < argc && which & LOOK_SUBJECT) {
        look->subject = argv[optind++];
    }
    if (optind < argc) {
        return fail(STATUS_USAGE, "'%s' is too much; see snib %s --help", argv[optind], argv[0]);
    }
    if (!look->subject && which & LOOK_NEEDS) {
        return fail(STATUS_USAGE, "no lock named; see snib %s --help", argv[0]);
    }
    if (look->json && look->names) {
        return fail(STATUS_USAGE, "--names and --json exclude each other");
    }
    return -1;
}

int look_read(struct look *look, int argc, char *argv[], unsigned which, const char *help)
{
    struct option table[KNOWN + 1];
    int answer, status = -1;
    table_for(table, which);
    opterr = 0;
    while (status < 0 && (answer = getopt_long(argc, argv, which & LOOK_URL ? ":hU:" : ":h", table,
                                               NULL)) != -1) {
        status = answer == '?' || answer == ':' ? options_complain(answer, argv, table)
                                                : one_option(look, answer, help);
    }
    return status < 0 ? read_subject(look, argc, argv, which) : status;
}

/* Inside of a `snib run`, SNIB_URL has stars for its secrets. The configuration may have them; then
 * it must lead to the same place, or the answer would be about another one. */
static int open_starred(struct look *look, const char *starred)
{
    snib_error error;
    char *outer = strdup(starred);
    if (!outer) {
        return fail(STATUS_INTERNAL, "out of memory");
    }
    unsetenv("SNIB_URL");
    int status = -1;
    if (snib_open(&look->client, NULL, &error) < 0) {
        status = look_failed(&error);
    } else if (strcmp(snib_url(look->client), outer) != 0) {
        status = fail(STATUS_USAGE, "SNIB_URL is %s, without its password; give --url", outer);
    }
    free(outer);
    return status;
}

int look_open(struct look *look)
{
    snib_error error;
    const char *variable = getenv("SNIB_URL");
    if (!look->url && variable && strstr(variable, "***")) {
        return open_starred(look, variable);
    }
    if (snib_open(&look->client, look->url, &error) < 0) {
        return look_failed(&error);
    }
    if (look->url_argument) {
        secret_show(look->url_argument, snib_url(look->client));
    }
    return -1;
}

int look_end(struct look *look, int status)
{
    snib_close(look->client);
    secret_free(look->url);
    *look = (struct look){0};
    if (fflush(stdout) != 0 || ferror(stdout)) {
        return fail(STATUS_INTERNAL, "cannot write the answer: %s", strerror(errno));
    }
    return status;
}

int look_failed(const snib_error *error)
{
    switch (error->code) {
    case SNIB_EINVAL:
    case SNIB_EKIND:
        return fail(STATUS_USAGE, "%s", error->message);
    case SNIB_ENOMEM:
    case SNIB_ESTATE:
    case SNIB_ESYS:
        return fail(STATUS_INTERNAL, "%s", error->message);
    default:
        return fail(STATUS_ENGINE, "%s", error->message);
    }
}

void look_json(struct json *j, const struct look *look, const char *kind)
{
    json_open(j, NULL, '{');
    json_text(j, "kind", kind);
    json_integer(j, "version", 1);
    if (look->client) {
        json_text(j, "url", snib_url(look->client));
    }
}

void look_print(const struct look *look, const struct sights *sights)
{
    size_t waiting = sights->count - sights->holders;
    print_safe(stdout, look->subject);
    fputs(": ", stdout);
    paint(stdout, sights->holders ? PAINT_WARN : PAINT_GOOD, sights->holders ? "held" : "free");
    if (sights->holders && sights->all[0].mode == SNIB_COUNTED) {
        printf(", %zu of %u permits", sights->holders, sights->all[0].permits);
    } else if (sights->holders > 1) {
        printf(" by %zu", sights->holders);
    }
    if (waiting) {
        printf(", %zu waiting", waiting);
    }
    fputs(" (", stdout);
    print_safe(stdout, snib_url(look->client));
    fputs(")\n", stdout);
    if (sights->count) {
        show_table(sights, stdout);
    }
}

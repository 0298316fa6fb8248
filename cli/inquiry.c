/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the commands that only ask have in common: their options, the client, the first line.
 *
 * Unlike with `run`, options may also follow the name: there is no command they could belong to.
 * The first line names the URL that was asked, so that nobody looks in one place for a lock that
 * was taken in another.
 */
#include "inquiry.h"

#include "command.h"
#include "options.h"
#include "say.h"
#include "table.h"
#include "token.h"

#include <errno.h>
#include <string.h>

enum { JSON = 256, NAMES, YES, FORCE, TOKEN, ACL, HELP };

static const struct known {
    struct option option;
    unsigned needs;
} known[] = {
    {{"json", no_argument, NULL, JSON}, 0},
    {{"help", no_argument, NULL, HELP}, 0},
    {{"url", required_argument, NULL, 'U'}, INQUIRY_URL},
    {{"names", no_argument, NULL, NAMES}, INQUIRY_NAMES},
    {{"yes", no_argument, NULL, YES}, INQUIRY_YES},
    {{"force", no_argument, NULL, FORCE}, INQUIRY_YES},
    {{"token", required_argument, NULL, TOKEN}, INQUIRY_YES},
    {{"acl", no_argument, NULL, ACL}, INQUIRY_ACL},
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

static int one_option(struct inquiry *inquiry, int answer, const char *help)
{
    int status;
    switch (answer) {
    case JSON:
        inquiry->json = true;
        return -1;
    case NAMES:
        inquiry->names = true;
        return -1;
    case YES:
        inquiry->yes = true;
        return -1;
    case FORCE:
        inquiry->force = true;
        return -1;
    case ACL:
        inquiry->acl = true;
        return -1;
    case TOKEN:
        return token_read(&inquiry->token, optarg)
                   ? -1
                   : fail(STATUS_USAGE, "--token: '%s' is not a token", optarg);
    case 'U':
        status = client_take_url(&inquiry->url, optarg);
        return status == 0 ? -1 : status;
    default:
        fputs(help, stdout);
        return inquiry_end(inquiry, 0);
    }
}

static int read_subject(struct inquiry *inquiry, int argc, char *argv[], unsigned which)
{
    if (optind < argc && which & INQUIRY_PLACE) {
        if (inquiry->url.secret) {
            return fail(STATUS_USAGE, "a second URL; snib %s takes one", argv[0]);
        }
        int status = client_take_url(&inquiry->url, argv[optind++]);
        inquiry->url.option = argv[0];
        if (status != 0) {
            return status;
        }
    }
    if (optind < argc && which & INQUIRY_SUBJECT) {
        inquiry->subject = argv[optind++];
    }
    if (optind < argc) {
        return fail(STATUS_USAGE, "'%s' is too much; see snib %s --help", argv[optind], argv[0]);
    }
    if (!inquiry->subject && which & INQUIRY_NEEDS) {
        return fail(STATUS_USAGE, "no lock named; see snib %s --help", argv[0]);
    }
    if (inquiry->json && inquiry->acl) {
        return fail(STATUS_USAGE, "--acl and --json exclude each other");
    }
    if (inquiry->json && inquiry->names) {
        return fail(STATUS_USAGE, "--names and --json exclude each other");
    }
    return -1;
}

int inquiry_read(struct inquiry *inquiry, int argc, char *argv[], unsigned which, const char *help)
{
    struct option table[KNOWN + 1];
    int answer, status = -1;
    table_for(table, which);
    opterr = 0;
    while (status < 0 && (answer = getopt_long(argc, argv, which & INQUIRY_URL ? ":hU:" : ":h",
                                               table, NULL)) != -1) {
        status = answer == '?' || answer == ':' ? options_complain(answer, argv, table)
                                                : one_option(inquiry, answer, help);
    }
    return status < 0 ? read_subject(inquiry, argc, argv, which) : status;
}

int inquiry_open(struct inquiry *inquiry)
{
    int status = client_open(&inquiry->client, &inquiry->url);
    if (status != 0) {
        return status;
    }
    client_hide_url(&inquiry->url, snib_url(inquiry->client));
    return -1;
}

int inquiry_end(struct inquiry *inquiry, int status)
{
    snib_close(inquiry->client);
    client_free_url(&inquiry->url);
    *inquiry = (struct inquiry){0};
    if (fflush(stdout) != 0 || ferror(stdout)) {
        return fail(STATUS_INTERNAL, "cannot write the answer: %s", strerror(errno));
    }
    return status;
}

void inquiry_json(struct json *j, const struct inquiry *inquiry, const char *kind)
{
    json_open(j, NULL, '{');
    json_text(j, "kind", kind);
    json_integer(j, "version", 1);
    if (inquiry->client) {
        char notice[256];
        json_text(j, "url", snib_url(inquiry->client));
        if (snib_notice(inquiry->client, notice, sizeof notice) == SNIB_OK && notice[0]) {
            json_text(j, "notice", notice);
        }
    }
}

void inquiry_print(const struct inquiry *inquiry, const struct parties *parties)
{
    size_t waiting = parties->count - parties->holders;
    print_safe(stdout, inquiry->subject);
    fputs(": ", stdout);
    paint(stdout, parties->holders ? PAINT_WARN : PAINT_GOOD, parties->holders ? "held" : "free");
    if (parties->holders && parties->all[0].mode == SNIB_COUNTED) {
        printf(", %zu of %u permits", parties->holders, parties->all[0].permits);
    } else if (parties->holders > 1) {
        printf(" by %zu", parties->holders);
    }
    if (waiting) {
        printf(", %zu waiting", waiting);
    }
    fputs(" (", stdout);
    print_safe(stdout, snib_url(inquiry->client));
    fputs(")\n", stdout);
    if (parties->count) {
        show_table(parties, stdout);
    }
    inquiry_notice(inquiry);
}

void inquiry_notice(const struct inquiry *inquiry)
{
    char notice[256];
    if (snib_notice(inquiry->client, notice, sizeof notice) == SNIB_OK && notice[0]) {
        fflush(stdout);
        say("%s", notice);
    }
}

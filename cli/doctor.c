/* SPDX-License-Identifier: Apache-2.0 */
/*
 * snib doctor: look at everything that decides what is promised here, and say what to do about it.
 *
 * The engine finds; this shows. One line per thing that was looked at, a remedy below it, and at
 * the end what holds with this engine and what breaks it. The exit status is for scripts: a bad
 * finding is 69, as a lock that cannot be had would be.
 */
#include "command.h"
#include "inquiry.h"
#include "say.h"
#include "table.h"

#include <string.h>

static const char help[] =
    "usage: snib doctor [OPTIONS] [URL]\n"
    "Looks at the engine: reach, rights, settings, clocks; what is promised here,\n"
    "what is not, and what to change. Takes no lock of yours, disturbs nobody.\n"
    "\n"
    "  -U, --url URL   the engine: file:, redis://HOST, ... ($SNIB_URL, snib.conf)\n"
    "      --json      for programs; see docs/json.md\n"
    "      --acl       only print the line that gives a user of the server the rights\n"
    "                  this URL needs, and no others; contacts nobody\n"
    "\n"
    "Status: 0 all good, 1 something to think about, 69 something to be mended;\n"
    "64 usage, 70 internal.\n";

static const char *const verdicts[] = {
    [SNIB_GOOD] = "good", [SNIB_WARNING] = "warning", [SNIB_BAD] = "bad"};

struct findings {
    struct json *j; /* NULL: for people */
    int worst;
};

static void print(const snib_finding *finding)
{
    paint(stdout, finding->verdict == SNIB_GOOD ? PAINT_GOOD : PAINT_WARN,
          verdicts[finding->verdict]);
    printf("%*s", (int)(9 - strlen(verdicts[finding->verdict])), "");
    print_safe(stdout, finding->about);
    fputs(": ", stdout);
    print_safe(stdout, finding->text);
    putchar('\n');
    if (finding->remedy) {
        fputs("         -> ", stdout);
        print_safe(stdout, finding->remedy);
        putchar('\n');
    }
}

static int each(const snib_finding *finding, void *arg)
{
    struct findings *all = arg;
    all->worst = finding->verdict > all->worst ? finding->verdict : all->worst;
    if (!all->j) {
        print(finding);
        return 0;
    }
    json_open(all->j, NULL, '{');
    json_text(all->j, "verdict", verdicts[finding->verdict]);
    json_text(all->j, "about", finding->about);
    json_text(all->j, "text", finding->text);
    json_text(all->j, "remedy", finding->remedy);
    json_close(all->j, '}');
    return 0;
}

static const snib_engine_info *engine_of(const char *url)
{
    const snib_engine_info *info;
    size_t length = strcspn(url, ":");
    for (size_t i = 0; (info = snib_engine_at(i)) != NULL; i++) {
        if (strlen(info->scheme) == length && strncmp(info->scheme, url, length) == 0) {
            return info;
        }
    }
    return NULL;
}

/* The traits that are there, or those that are not. */
static void print_traits(unsigned traits, bool there, const char *head)
{
    fputs(head, stdout);
    for (unsigned bit = 0; bit < 32; bit++) {
        const char *name = snib_trait_name(1U << bit);
        if (name && (traits & 1U << bit) == (there ? 1U << bit : 0)) {
            printf(" %s", name);
        }
    }
    putchar('\n');
}

static void print_promise(const struct inquiry *inquiry)
{
    const snib_engine_info *info = engine_of(snib_url(inquiry->client));
    if (info) {
        printf("promise  %s\n", info->promise);
    }
    print_traits(snib_traits(inquiry->client), true, "here    ");
    print_traits(snib_traits(inquiry->client), false, "not here");
}

static void json_promise(struct json *j, const struct inquiry *inquiry)
{
    const snib_engine_info *info = engine_of(snib_url(inquiry->client));
    unsigned traits = snib_traits(inquiry->client);
    json_text(j, "promise", info ? info->promise : NULL);
    json_open(j, "traits", '[');
    for (unsigned bit = 0; bit < 32; bit++) {
        const char *name = snib_trait_name(traits & 1U << bit);
        if (name) {
            json_text(j, NULL, name);
        }
    }
    json_close(j, ']');
}

static int examine(struct inquiry *inquiry)
{
    static const int statuses[] = {[SNIB_GOOD] = 0, [SNIB_WARNING] = 1, [SNIB_BAD] = STATUS_ENGINE};
    struct json j = {.out = stdout};
    struct findings all = {.j = inquiry->json ? &j : NULL, .worst = SNIB_GOOD};
    snib_error error;
    if (inquiry->json) {
        inquiry_json(&j, inquiry, "doctor");
        json_text(&j, "origin", snib_origin(inquiry->client));
        json_open(&j, "findings", '[');
    } else {
        fputs("url      ", stdout);
        print_safe(stdout, snib_url(inquiry->client));
        printf(" (%s)\n", snib_origin(inquiry->client));
    }
    fflush(stdout); /* what follows may take its time */
    int rc = snib_examine(inquiry->client, each, &all, &error);
    if (inquiry->json) {
        json_close(&j, ']');
        json_promise(&j, inquiry);
        json_close(&j, '}');
    } else if (rc == 0 && all.worst != SNIB_BAD) {
        print_promise(inquiry);
    } else if (rc == 0) {
        puts("promise  nothing, until that is mended");
    }
    return rc < 0 ? client_fail(&error) : statuses[all.worst];
}

static int print_rights(const struct inquiry *inquiry)
{
    char line[SNIB_RIGHTS_SIZE];
    snib_error error;
    if (snib_rights(inquiry->client, line, sizeof line, &error) < 0) {
        return client_fail(&error);
    }
    puts(line);
    return 0;
}

int command_doctor(int argc, char *argv[])
{
    struct inquiry inquiry = {0};
    int status =
        inquiry_read(&inquiry, argc, argv, INQUIRY_URL | INQUIRY_PLACE | INQUIRY_ACL, help);
    status = status < 0 ? inquiry_open(&inquiry) : status;
    if (status < 0) {
        status = inquiry.acl ? print_rights(&inquiry) : examine(&inquiry);
    }
    return inquiry_end(&inquiry, status);
}

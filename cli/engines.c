/* SPDX-License-Identifier: Apache-2.0 */
/*
 * snib engines: which engines there are, which of them are installed, what each one promises.
 *
 * Asks nobody and opens nothing: it works where no engine does.
 */
#include "command.h"
#include "inquiry.h"
#include "table.h"

#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

static const char help[] =
    "usage: snib engines [OPTIONS]\n"
    "The engines, by the scheme of their URLs: installed or what to install, what\n"
    "each promises, and the traits that `snib run --require` understands.\n"
    "\n"
    "      --json      for programs; see docs/json.md\n"
    "\n"
    "Status: 0; 64 usage, 70 internal.\n";

static void print_json(const struct inquiry *inquiry)
{
    struct json j = {.out = stdout};
    const snib_engine_info *info;
    inquiry_json(&j, inquiry, "engines");
    json_open(&j, "engines", '[');
    for (size_t i = 0; (info = snib_engine_at(i)) != NULL; i++) {
        json_open(&j, NULL, '{');
        json_text(&j, "scheme", info->scheme);
        json_boolean(&j, "installed", info->built != 0);
        json_text(&j, "missing", info->missing);
        json_text(&j, "summary", info->summary);
        json_text(&j, "promise", info->promise);
        json_open(&j, "traits", '[');
        for (unsigned bit = 0; bit < 32; bit++) {
            const char *name = snib_trait_name(info->traits & 1U << bit);
            if (name) {
                json_text(&j, NULL, name);
            }
        }
        json_close(&j, ']');
        json_text(&j, "variants", info->variants);
        json_close(&j, '}');
    }
    json_close(&j, ']');
    json_close(&j, '}');
}

/* On a terminal, lines end between words and go on below; elsewhere a line is a line. */
static void print_line(const char *head, const char *text)
{
    enum { INDENT = 12 };
    struct winsize size = {0};
    size_t room = SIZE_MAX, column = INDENT;
    if (isatty(STDOUT_FILENO) && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 &&
        size.ws_col > 2 * INDENT) {
        room = size.ws_col;
    }
    printf("  %-*s", INDENT - 2, head);
    for (size_t word; *text; text += word + strspn(text + word, " ")) {
        word = strcspn(text, " ");
        if (column > INDENT && column + 1 + word >= room) {
            printf("\n%*s", INDENT, "");
            column = INDENT;
        } else if (column > INDENT) {
            putchar(' ');
            column++;
        }
        printf("%.*s", (int)word, text);
        column += word;
    }
    putchar('\n');
}

static void print_engine(const snib_engine_info *info)
{
    char traits[512] = "";
    size_t length = strlen(info->scheme) + 1;
    printf("%s:%*s", info->scheme, length < 12 ? (int)(12 - length) : 1, "");
    if (info->built) {
        paint(stdout, PAINT_GOOD, "installed");
        putchar('\n');
    } else {
        paint(stdout, PAINT_WARN, "not installed");
        printf("; %s\n", info->missing);
    }
    for (unsigned bit = 0; bit < 32; bit++) {
        const char *name = snib_trait_name(info->traits & 1U << bit);
        if (name) {
            size_t used = strlen(traits);
            (void)snprintf(traits + used, sizeof traits - used, "%s%s", used ? " " : "", name);
        }
    }
    print_line("how", info->summary);
    print_line("promise", info->promise);
    print_line("traits", traits);
    for (const char *at = info->variants; *at;) {
        char line[400];
        int size = (int)strcspn(at, "\n");
        (void)snprintf(line, sizeof line, "%.*s", size, at);
        print_line("or", line);
        at += size + (at[size] == '\n');
    }
}

int command_engines(int argc, char *argv[])
{
    struct inquiry inquiry = {0};
    const snib_engine_info *info;
    int status = inquiry_read(&inquiry, argc, argv, 0, help);
    if (status >= 0) {
        return inquiry_end(&inquiry, status);
    }
    if (inquiry.json) {
        print_json(&inquiry);
    }
    for (size_t i = 0; !inquiry.json && (info = snib_engine_at(i)) != NULL; i++) {
        print_engine(info);
    }
    return inquiry_end(&inquiry, 0);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * snib list [PREFIX]: every name that is held or waited for, one line each.
 *
 * --names is for scripts and completion: names have no control characters, so a line is a name.
 */
#include "command.h"
#include "inquiry.h"
#include "say.h"
#include "table.h"

static const char help[] =
    "usage: snib list [OPTIONS] [PREFIX]\n"
    "All locks whose names start with PREFIX and that are held or waited for.\n"
    "\n"
    "  -U, --url URL   the engine: file:, redis://HOST, ... ($SNIB_URL, snib.conf)\n"
    "      --names     the names alone, one per line\n"
    "      --json      for programs; see docs/json.md\n"
    "\n"
    "More about one of them: snib status NAME.\n"
    "\n"
    "Status: 0, also if there are none; 64 usage, 69 engine, 70 internal.\n";

static void print_names(const struct parties *parties)
{
    size_t holders;
    for (size_t i = 0; i < parties->count; i = show_same_name(parties, i, &holders)) {
        print_safe(stdout, parties->all[i].name);
        putchar('\n');
    }
}

static void print_json(const struct inquiry *inquiry, const struct parties *parties)
{
    struct json j = {.out = stdout};
    size_t holders;
    inquiry_json(&j, inquiry, "list");
    json_text(&j, "prefix", inquiry->subject ? inquiry->subject : "");
    json_open(&j, "locks", '[');
    for (size_t i = 0, end; i < parties->count; i = end) {
        end = show_same_name(parties, i, &holders);
        json_open(&j, NULL, '{');
        show_json_lock(&j, parties->all[i].name, parties, i, end);
        json_close(&j, '}');
    }
    json_close(&j, ']');
    json_close(&j, '}');
}

/* One line: the first holder and how many more, or nobody. */
static void add_row(struct table *table, const struct party *first, size_t holders, size_t waiting)
{
    char age[SPAN_SIZE] = "";
    bool held = holders > 0;
    table_add(table, "%s", first->name);
    if (holders > 1) {
        table_add(table, "%s +%zu", first->who, holders - 1);
    } else {
        table_add(table, "%s", held ? first->who : "-");
    }
    table_add(table, "%s", held && first->stopped ? "stopped" : "");
    if (held && first->mode == SNIB_COUNTED) {
        table_add(table, "counted %zu/%u", holders, first->permits);
    } else {
        table_add(table, "%s", show_mode(first->mode));
    }
    table_add(table, "%s", held && first->age_ms >= 0 ? span_text(age, first->age_ms) : "");
    if (waiting) {
        table_add(table, "%zu", waiting);
    } else {
        table_add(table, "%s", "");
    }
    table_add(table, "%s", held ? first->label : "");
}

static void print_table(const struct inquiry *inquiry, const struct parties *parties)
{
    struct table table = {
        .columns = 7,
        .heads = {"NAME", "HELD BY", "STATE", "MODE", "AGE", "WAITING", "LABEL"},
    };
    size_t count = 0, holders;
    for (size_t i = 0, end; i < parties->count; i = end, count++) {
        end = show_same_name(parties, i, &holders);
        add_row(&table, &parties->all[i], holders, end - i - holders);
    }
    printf("%zu %s in use (", count, count == 1 ? "lock" : "locks");
    print_safe(stdout, snib_url(inquiry->client));
    fputs(")\n", stdout);
    if (count) {
        table_print(&table, stdout, "  ");
    }
    table_free(&table);
}

int command_list(int argc, char *argv[])
{
    struct inquiry inquiry = {0};
    struct parties parties = {0};
    snib_error error;
    int status =
        inquiry_read(&inquiry, argc, argv, INQUIRY_URL | INQUIRY_NAMES | INQUIRY_SUBJECT, help);
    status = status < 0 ? inquiry_open(&inquiry) : status;
    if (status >= 0) {
        return inquiry_end(&inquiry, status);
    }
    if (snib_list(inquiry.client, inquiry.subject, show_keep, &parties, &error) < 0) {
        status = client_fail(&error);
    } else {
        status = 0;
        show_sort(&parties);
        if (inquiry.json) {
            print_json(&inquiry, &parties);
        } else if (inquiry.names) {
            print_names(&parties);
        } else {
            print_table(&inquiry, &parties);
            inquiry_notice(&inquiry);
        }
    }
    show_free(&parties);
    return inquiry_end(&inquiry, status);
}

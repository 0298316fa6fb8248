/* SPDX-License-Identifier: Apache-2.0 */
/*
 * snib status NAME: who holds it, since when, who waits. Asks once and takes nothing.
 */
#include "command.h"
#include "inquiry.h"

static const char help[] =
    "usage: snib status [OPTIONS] NAME\n"
    "Who holds the lock NAME, since when and why, and who waits for it, in order.\n"
    "\n"
    "  -U, --url URL   the engine: file:, redis://HOST, ... ($SNIB_URL, snib.conf)\n"
    "      --json      for programs; see docs/json.md\n"
    "\n"
    "WHO is host:process, TOKEN the fencing token, LEFT what is left of the lease if\n"
    "it is not renewed, STATE a process of this host that is stopped.\n"
    "\n"
    "Status: 0 held, 1 free; 64 usage, 69 engine, 70 internal.\n";

static void print_json(const struct inquiry *inquiry, const struct parties *parties)
{
    struct json j = {.out = stdout};
    inquiry_json(&j, inquiry, "status");
    show_json_lock(&j, inquiry->subject, parties, 0, parties->count);
    json_close(&j, '}');
}

int command_status(int argc, char *argv[])
{
    struct inquiry inquiry = {0};
    struct parties parties = {0};
    snib_error error;
    int status =
        inquiry_read(&inquiry, argc, argv, INQUIRY_URL | INQUIRY_SUBJECT | INQUIRY_NEEDS, help);
    status = status < 0 ? inquiry_open(&inquiry) : status;
    if (status >= 0) {
        return inquiry_end(&inquiry, status);
    }
    if (snib_inspect(inquiry.client, inquiry.subject, show_keep, &parties, &error) < 0) {
        status = client_fail(&error);
    } else {
        status = parties.holders ? 0 : 1;
        if (inquiry.json) {
            print_json(&inquiry, &parties);
        } else {
            inquiry_print(&inquiry, &parties);
        }
    }
    show_free(&parties);
    return inquiry_end(&inquiry, status);
}

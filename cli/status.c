/* SPDX-License-Identifier: Apache-2.0 */
/*
 * snib status NAME: who holds it, since when, who waits. Asks once and takes nothing.
 */
#include "command.h"
#include "look.h"

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

static void print_json(const struct look *look, const struct sights *sights)
{
    struct json j = {.out = stdout};
    look_json(&j, look, "status");
    show_json_lock(&j, look->subject, sights, 0, sights->count);
    json_close(&j, '}');
}

int command_status(int argc, char *argv[])
{
    struct look look = {0};
    struct sights sights = {0};
    snib_error error;
    int status = look_read(&look, argc, argv, LOOK_URL | LOOK_SUBJECT | LOOK_NEEDS, help);
    status = status < 0 ? look_open(&look) : status;
    if (status >= 0) {
        return look_end(&look, status);
    }
    if (snib_inspect(look.client, look.subject, show_keep, &sights, &error) < 0) {
        status = look_failed(&error);
    } else {
        status = sights.holders ? 0 : 1;
        if (look.json) {
            print_json(&look, &sights);
        } else {
            look_print(&look, &sights);
        }
    }
    show_free(&sights);
    return look_end(&look, status);
}

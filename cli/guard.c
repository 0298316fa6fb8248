/* SPDX-License-Identifier: Apache-2.0 */
/*
 * snib guard PATH: the resource's side of fencing, for files and what is made of files.
 *
 * Inside of `snib run` the token is in the environment, so `snib guard PATH -- COMMAND` in front of
 * what writes is all a script needs. Between the check and the write of the command a newer holder
 * may still come by: the window is small, not closed, and the manual says so.
 */
#include "client.h"
#include "command.h"
#include "inquiry.h"
#include "options.h"
#include "say.h"
#include "token.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char help[] =
    "usage: snib guard [OPTIONS] PATH [-- COMMAND [ARGUMENT...]]\n"
    "Admits the holder of a lock to PATH, unless a larger token was there before: a\n"
    "holder that was paused and has lost its lock is refused. Then becomes COMMAND.\n"
    "\n"
    "      --token N   the token ($SNIB_TOKEN, which snib run sets)\n"
    "\n"
    "The largest token is kept in .NAME.snib-token beside PATH, which need not exist.\n"
    "Use it right before the write, and always with the same lock:\n"
    "\n"
    "  snib run stock -- sh -c 'make-list >new && snib guard list -- mv new list'\n"
    "\n"
    "Status: COMMAND's own, or 0; 79 the token is too old; 64 usage, 69 PATH cannot\n"
    "be guarded (full disk, ...), 70 internal, 126 and 127 COMMAND not run.\n";

struct request {
    uint64_t token;
    const char *path;
    char **command; /* NULL: none */
};

static const struct option known[] = {
    {"token", required_argument, NULL, 't'},
    {"help", no_argument, NULL, 'h'},
    {NULL, 0, NULL, 0},
};

/* As inquiry_read: -1 to go on. */
static int read_rest(struct request *request, char *rest[])
{
    const char *inherited = getenv("SNIB_TOKEN");
    if (!rest[0]) {
        return fail(STATUS_USAGE, "no path; see snib guard --help");
    }
    request->path = rest[0];
    if (rest[1] && (strcmp(rest[1], "--") != 0 || !rest[2])) {
        return strcmp(rest[1], "--") == 0
                   ? fail(STATUS_USAGE, "no command behind --")
                   : fail(STATUS_USAGE, "'%s' is too much; a command comes behind --", rest[1]);
    }
    request->command = rest[1] ? rest + 2 : NULL;
    if (request->token) {
        return -1;
    }
    if (!inherited || !inherited[0]) {
        return fail(STATUS_USAGE, "no token: give --token N, or use it inside of snib run");
    }
    if (!token_read(&request->token, inherited)) {
        return fail(STATUS_USAGE, "SNIB_TOKEN: '%s' is not a token", inherited);
    }
    return -1;
}

static int read_request(struct request *request, int argc, char *argv[])
{
    int answer;
    opterr = 0;
    while ((answer = getopt_long(argc, argv, "+:h", known, NULL)) != -1) {
        switch (answer) {
        case 't':
            if (!token_read(&request->token, optarg)) {
                return fail(STATUS_USAGE, "--token: '%s' is not a token", optarg);
            }
            break;
        case 'h':
            fputs(help, stdout);
            return inquiry_end(&(struct inquiry){0}, 0);
        default:
            return options_complain(answer, argv, known);
        }
    }
    return read_rest(request, argv + optind);
}

int command_guard(int argc, char *argv[])
{
    struct request request = {0};
    snib_error error;
    int status = read_request(&request, argc, argv);
    if (status >= 0) {
        return status;
    }
    switch (snib_guard(request.path, request.token, &error)) {
    case SNIB_OK:
        break;
    case SNIB_ELOST:
        return fail(STATUS_LOST, "%s", error.message);
    case SNIB_ESYS:
        return fail(STATUS_ENGINE, "%s", error.message);
    default:
        return client_fail(&error);
    }
    if (!request.command) {
        return 0;
    }
    execvp(request.command[0], request.command);
    return fail(errno == ENOENT ? STATUS_NOT_FOUND : STATUS_NOT_EXECUTABLE, "cannot run '%s': %s",
                request.command[0], strerror(errno));
}

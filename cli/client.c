/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From a URL to a client, and from an error of the library to a line and an exit status: once for
 * all commands.
 *
 * What an outer `snib run` has put into SNIB_URL has stars for its secrets. The configuration may
 * have them. Then it must lead to the same place, or this command would lock, or look at, another
 * one than its caller thinks.
 */
#include "client.h"

#include "command.h"
#include "say.h"
#include "secret.h"

#include <stdlib.h>
#include <string.h>

int client_fail(const snib_error *error)
{
    switch (error->code) {
    case SNIB_EINVAL:
    case SNIB_EKIND:
    case SNIB_EDEADLK:
        return fail(STATUS_USAGE, "%s", error->message);
    case SNIB_ENOMEM:
    case SNIB_ESTATE:
    case SNIB_ESYS:
    case SNIB_ECANCELED:
        return fail(STATUS_INTERNAL, "%s", error->message);
    default:
        return fail(STATUS_ENGINE, "%s", error->message);
    }
}

int client_take_url(struct client_url *url, char *argument)
{
    secret_free(url->secret);
    url->argument = argument;
    url->secret = secret_take(argument);
    return url->secret ? 0 : fail(STATUS_INTERNAL, "out of memory");
}

static int open_url(snib **out, const char *url, const char *option)
{
    snib_error error;
    if (snib_open(out, url, &error) == 0) {
        return 0;
    }
    if (url && error.code == SNIB_EINVAL) {
        return fail(STATUS_USAGE, "%s: %s", option, error.message);
    }
    return client_fail(&error);
}

static int open_starred(snib **out, const char *variable)
{
    char *starred = strdup(variable);
    if (!starred) {
        return fail(STATUS_INTERNAL, "out of memory");
    }
    unsetenv("SNIB_URL");
    int status = open_url(out, NULL, NULL);
    if (status == 0 && strcmp(snib_url(*out), starred) != 0) {
        status = fail(STATUS_USAGE,
                      "SNIB_URL is %s, without its password, as a snib run around this one has "
                      "set it; give --url, put the URL into snib.conf, or the password into a file",
                      starred);
    }
    free(starred);
    return status;
}

int client_open(snib **out, const struct client_url *url)
{
    const char *variable = url->secret ? NULL : getenv("SNIB_URL");
    if (variable && strstr(variable, "***")) {
        return open_starred(out, variable);
    }
    return open_url(out, url->secret, url->option ? url->option : "-U");
}

void client_hide_url(const struct client_url *url, const char *shown)
{
    const char *variable = getenv("SNIB_URL");
    if (url->argument) {
        secret_show(url->argument, shown);
    }
    if (variable && strcmp(variable, shown) != 0) {
        secret_forget("SNIB_URL");
    }
}

void client_free_url(struct client_url *url)
{
    secret_free(url->secret);
    url->secret = NULL;
}

/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_CLI_CLIENT_H
#define SNIB_CLI_CLIENT_H

#include <snib.h>

/* The URL that a command was given, or none. */
struct client_url {
    char *secret;       /* a copy, wiped when freed; NULL: as configured */
    char *argument;     /* where it stood, hidden */
    const char *option; /* what it is called in an error; NULL: -U */
};

/* Take it out of an argument, and hide it there; a second one replaces the first. These answer 0
 * or, having said why, an exit status. */
int client_take_url(struct client_url *url, char *argument);
int client_open(snib **out, const struct client_url *url);

/* Show of the argument what may be seen of it, and remove SNIB_URL if it has more than that. */
void client_hide_url(const struct client_url *url, const char *shown);
void client_free_url(struct client_url *url);

/* Say what the library said; answers the exit status that it stands for. */
int client_fail(const snib_error *error);

#endif

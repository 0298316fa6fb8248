/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Passwords in arguments and in the environment.
 *
 * On Linux every user may read the arguments of every process, and the same user its environment,
 * from the memory where the kernel put them at exec. So they are overwritten there. That is late
 * by the time the program took to start: a password belongs into a file, and the manual says so.
 *
 * Which part of a URL is secret is the library's business. An argument is hidden whole at first,
 * and shown again as snib_url has it.
 */
#include "secret.h"

#include <stdlib.h>
#include <string.h>

char *secret_take(char *argument)
{
    char *copy = strdup(argument);
    if (copy) {
        size_t scheme = strcspn(argument, ":");
        memset(argument + scheme, '*', strlen(argument + scheme));
    }
    return copy;
}

void secret_show(char *argument, const char *shown)
{
    size_t room = strlen(argument), size = strlen(shown);
    memset(argument, '\0', room);
    memcpy(argument, shown, size < room ? size : room);
}

void secret_forget(const char *variable)
{
    char *text = getenv(variable);
    if (text) {
        memset(text, '*', strlen(text));
        unsetenv(variable);
    }
}

void secret_free(char *text)
{
    if (text) {
        explicit_bzero(text, strlen(text));
        free(text);
    }
}

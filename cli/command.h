/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_CLI_COMMAND_H
#define SNIB_CLI_COMMAND_H

/*
 * A subcommand is one file and one row in main.c. It gets its own arguments, argv[0] being its
 * name and argv[-1] the program's, and answers the exit status.
 */

/* The statuses that are snib's own. 128 + n: ended by signal n. */
enum {
    STATUS_USAGE = 64,
    STATUS_ENGINE = 69,
    STATUS_INTERNAL = 70,
    STATUS_BUSY = 75,
    STATUS_LOST = 79,
    STATUS_UNKNOWN = 80,
    STATUS_NOT_EXECUTABLE = 126,
    STATUS_NOT_FOUND = 127,
    STATUS_SIGNAL = 128
};

struct command {
    const char *name;
    const char *summary;
    int (*run)(int argc, char *argv[]);
};

int command_run(int argc, char *argv[]);
int command_hold(int argc, char *argv[]);
int command_status(int argc, char *argv[]);
int command_list(int argc, char *argv[]);
int command_break(int argc, char *argv[]);
int command_guard(int argc, char *argv[]);
int command_engines(int argc, char *argv[]);
int command_doctor(int argc, char *argv[]);

#endif

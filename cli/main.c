/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The snib command: which subcommand, then off to it.
 *
 * Before anything is opened, the three standard descriptors are made sure of: with one of them
 * closed, a lock file could become descriptor 2 and receive the error messages. What is put
 * there is close-on-exec, so that a job still finds closed what the caller had closed.
 */
#include "command.h"
#include "guess.h"
#include "say.h"
#include "snib.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const struct command commands[] = {
    {"run", "run a command while holding a lock", command_run},
    {"hold", "hold a lock until stdin closes", command_hold},
    {"status", "who holds a lock, who waits for it", command_status},
    {"list", "all locks in use", command_list},
    {"break", "ask the holder of a lock to give it up", command_break},
    {"guard", "refuse a file to those whose token is too old", command_guard},
    {"engines", "the engines, and what each one promises", command_engines},
    {"doctor", "what is promised here, and what to change", command_doctor},
};

#define COMMANDS (sizeof commands / sizeof commands[0])

static int help(void)
{
    printf("usage: snib COMMAND [OPTIONS] ...\n"
           "One lock, over the engine you already run.\n\n");
    for (size_t i = 0; i < COMMANDS; i++) {
        printf("  snib %-8s %s\n", commands[i].name, commands[i].summary);
    }
    printf("\n  snib COMMAND --help    its options\n"
           "  snib --version\n\n"
           "The engine is -U URL, else $SNIB_URL, else ~/.config/snib.conf, else /etc/snib.conf,\n"
           "else file: (this host alone). Try: snib run nightly -- sleep 10\n");
    return fflush(stdout) == 0 ? 0 : fail(STATUS_INTERNAL, "cannot write the help");
}

static int version(void)
{
    printf("snib %s\n", snib_version());
    return fflush(stdout) == 0 ? 0 : fail(STATUS_INTERNAL, "cannot write the version");
}

static int unknown(const char *name)
{
    const char *names[COMMANDS + 1] = {NULL};
    for (size_t i = 0; i < COMMANDS; i++) {
        names[i] = commands[i].name;
    }
    if (name[0] == '-') {
        return fail(STATUS_USAGE, "'%s' goes behind the command: snib run %s ...; see snib --help",
                    name, name);
    }
    const char *meant = guess(name, names);
    if (meant) {
        return fail(STATUS_USAGE, "no command '%s'; did you mean '%s'?", name, meant);
    }
    return fail(STATUS_USAGE, "no command '%s'; see snib --help", name);
}

static int help_of(char *name)
{
    static char option[] = "--help";
    char *arguments[] = {name, option, NULL};
    for (size_t i = 0; i < COMMANDS; i++) {
        if (strcmp(name, commands[i].name) == 0) {
            return commands[i].run(2, arguments);
        }
    }
    return unknown(name);
}

static void fill_standard_descriptors(void)
{
    for (int fd = 0; fd <= 2; fd++) {
        if (fcntl(fd, F_GETFD) < 0) {
            int got = open("/dev/null", O_RDWR | O_CLOEXEC); /* the lowest free one: this */
            (void)got;
        }
    }
}

int main(int argc, char *argv[])
{
    fill_standard_descriptors();
    if (argc < 2) {
        return fail(STATUS_USAGE, "no command given; see snib --help");
    }
    const char *name = argv[1];
    for (size_t i = 0; i < COMMANDS; i++) {
        if (strcmp(name, commands[i].name) == 0) {
            return commands[i].run(argc - 1, argv + 1);
        }
    }
    if (strcmp(name, "help") == 0 && argc > 2) {
        return help_of(argv[2]);
    }
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0 || strcmp(name, "help") == 0) {
        return help();
    }
    if (strcmp(name, "--version") == 0 || strcmp(name, "-V") == 0) {
        return version();
    }
    return unknown(name);
}

/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_CLI_INPUT_H
#define SNIB_CLI_INPUT_H

#include <poll.h>
#include <stdbool.h>

enum input_kind { INPUT_PIPE, INPUT_TERMINAL, INPUT_OTHER };

/* Stdin, of which nothing is wanted but its end. */
struct input {
    enum input_kind kind;
    int fd; /* to read from */
};

void input_open(struct input *input);

/* What to poll for now. Answers after how many milliseconds to ask again; -1: never. */
int input_watch(const struct input *input, struct pollfd *out);

/* After the poll: take in what has come. True: that was the end. */
bool input_drain(const struct input *input, const struct pollfd *polled);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * When is stdin at its end?
 *
 * A pipe or a socket says so by hanging up, and nothing needs to be read from it. So two holds can
 * have the same pipe: none takes the other's bytes, and none blocks because the other was faster.
 *
 * A terminal has to be read, for Ctrl-D is a key like others. But only the foreground may read it:
 * a hold in the background of an interactive shell gets EIO as soon as somebody types, and that is
 * not the end of anything. So in the background it is not read, and looked after from time to
 * time, since nobody tells us when we are brought to the foreground. It is opened once more if
 * that is allowed, so that no read blocks.
 *
 * Anything else (a file, /dev/null) is read to its end.
 */
#include "input.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define BACKGROUND_MS 500

void input_open(struct input *input)
{
    struct stat stat = {0};
    *input = (struct input){.kind = INPUT_OTHER, .fd = STDIN_FILENO};
    (void)fstat(STDIN_FILENO, &stat);
    if (S_ISFIFO(stat.st_mode) || S_ISSOCK(stat.st_mode)) {
        input->kind = INPUT_PIPE;
    } else if (isatty(STDIN_FILENO)) {
        int fd = open("/proc/self/fd/0", O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
        input->kind = INPUT_TERMINAL;
        input->fd = fd >= 0 ? fd : STDIN_FILENO;
    }
}

static bool is_background(const struct input *input)
{
    pid_t front = input->kind == INPUT_TERMINAL ? tcgetpgrp(STDIN_FILENO) : -1;
    return front >= 0 && front != getpgrp();
}

int input_watch(const struct input *input, struct pollfd *out)
{
    bool background = is_background(input);
    *out = (struct pollfd){.fd = input->fd, .events = POLLIN};
    if (input->kind == INPUT_PIPE) {
        out->events = POLLRDHUP;
    } else if (background) {
        out->events = 0; /* it may still hang up */
    }
    return background ? BACKGROUND_MS : -1;
}

bool input_drain(const struct input *input, const struct pollfd *polled)
{
    char ignored[4096];
    if (input->kind == INPUT_PIPE || !(polled->revents & POLLIN)) {
        return polled->revents != 0;
    }
    ssize_t n = read(input->fd, ignored, sizeof ignored);
    if (n < 0 && errno == EIO && is_background(input)) {
        return false;
    }
    return n == 0 || (n < 0 && errno != EINTR && errno != EAGAIN);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What snib says, one line at a time.
 *
 * A line is one write, so that lines of several processes in one log do not mix, and what comes
 * from outside (names, labels, messages of an engine) cannot start a line of its own.
 *
 * The supervisor of a job must not hang because nobody reads its stderr: the guardian would take
 * it for dead and kill the job. So before writing it looks whether there is room. News that finds
 * none is dropped; the line of an error waits for a second.
 */
#include "say.h"

#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define LINE_MAX_BYTES 1024
#define ERROR_WAIT_MS 1000

static bool verbose;

static void put(int wait_ms, const char *format, va_list args)
{
    char line[LINE_MAX_BYTES] = "snib: ";
    size_t used = strlen(line);
    int n = vsnprintf(line + used, sizeof line - used - 1, format, args);
    if (n < 0) {
        return;
    }
    size_t end = used + (size_t)n < sizeof line - 2 ? used + (size_t)n : sizeof line - 2;
    for (size_t i = used; i < end; i++) {
        if ((unsigned char)line[i] < 0x20 || line[i] == 0x7f) {
            line[i] = '?';
        }
    }
    line[end++] = '\n';
    struct pollfd room = {.fd = STDERR_FILENO, .events = POLLOUT};
    if (poll(&room, 1, wait_ms) == 1 && room.revents & POLLOUT) {
        while (write(STDERR_FILENO, line, end) < 0 && errno == EINTR) {
        }
    }
}

void say(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    put(0, format, args);
    va_end(args);
}

int fail(int status, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    put(ERROR_WAIT_MS, format, args);
    va_end(args);
    return status;
}

void tell(const char *format, ...)
{
    if (verbose) {
        va_list args;
        va_start(args, format);
        put(0, format, args);
        va_end(args);
    }
}

void tell_all(bool all)
{
    verbose = all;
}

bool telling(void)
{
    return verbose;
}

const char *span_text(char out[SPAN_SIZE], int64_t ms)
{
    if (ms < 1000) {
        (void)snprintf(out, SPAN_SIZE, "%lld ms", (long long)ms);
    } else if (ms < 120 * 1000) {
        (void)snprintf(out, SPAN_SIZE, "%.1f s", (double)ms / 1000);
    } else if (ms < 120LL * 60 * 1000) {
        (void)snprintf(out, SPAN_SIZE, "%lld min", (long long)(ms / 60000));
    } else {
        (void)snprintf(out, SPAN_SIZE, "%lld h", (long long)(ms / 3600000));
    }
    return out;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What snib says, one line at a time.
 *
 * A line is one write, so that lines of several processes in one log do not mix, and what comes
 * from outside (names, labels, messages of an engine) cannot start a line of its own.
 *
 * The supervisor of a job must not hang because nobody reads its stderr: the guardian would take
 * it for dead and kill the job. So nothing here blocks. News that finds no room is dropped; the
 * line of an error waits for a second. To see whether there is room before writing is not enough,
 * since the job writes to the same pipe; and to make the descriptor non-blocking would make it so
 * for the job. So a pipe or terminal is opened once more, and a socket has a flag for it. Where
 * that is refused (a pipe that was made by another user) it has to do to look.
 */
#include "say.h"

#include "clock.h"
#include "utf8.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define LINE_MAX_BYTES 1024
#define ERROR_WAIT_MS 1000

static bool verbose;

/* Another way to stderr that does not block; -1: there is none. */
static int reopened(mode_t kind)
{
    static int fd = -2;
    static pid_t owner; /* the child of a fork may have another stderr */
    if (fd == -2 || owner != getpid()) {
        owner = getpid();
        fd = S_ISFIFO(kind) || S_ISCHR(kind)
                 ? open("/proc/self/fd/2", O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC)
                 : -1;
    }
    return fd;
}

/* Answers false if there was no room. */
static bool write_line(const char *line, size_t size)
{
    struct stat stat = {0};
    ssize_t n;
    (void)fstat(STDERR_FILENO, &stat);
    int fd = reopened(stat.st_mode);
    do {
        n = S_ISSOCK(stat.st_mode) ? send(STDERR_FILENO, line, size, MSG_DONTWAIT | MSG_NOSIGNAL)
                                   : write(fd >= 0 ? fd : STDERR_FILENO, line, size);
    } while (n < 0 && errno == EINTR);
    return n >= 0 || errno != EAGAIN;
}

/* With patience, as long as others take the room that there was. */
static void put_line(const char *line, size_t size, int wait_ms)
{
    int64_t until_ns = clock_now_ns() + wait_ms * CLOCK_MS;
    for (int64_t left_ms = wait_ms;;) {
        struct pollfd room = {.fd = STDERR_FILENO, .events = POLLOUT};
        bool open = poll(&room, 1, (int)left_ms) == 1 && room.revents & POLLOUT;
        left_ms = (until_ns - clock_now_ns()) / CLOCK_MS;
        if (!open || write_line(line, size) || left_ms <= 0) {
            return;
        }
    }
}

static void put(int wait_ms, const char *format, va_list args)
{
    char line[LINE_MAX_BYTES] = "snib: ";
    size_t used = strlen(line);
    int n = vsnprintf(line + used, sizeof line - used - 1, format, args);
    if (n < 0) {
        return;
    }
    size_t end = used + (size_t)n < sizeof line - 2 ? used + (size_t)n : sizeof line - 2;
    line[end] = '\0';
    for (size_t size, i = used; i < end; i += size) { /* what a terminal would obey */
        if (utf8_is_unsafe(utf8_next(line + i, &size))) {
            memset(line + i, '?', size);
        }
    }
    line[end++] = '\n';
    put_line(line, end, wait_ms);
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

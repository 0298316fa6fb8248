/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Events, one JSON object on a line each, to a reader who may be slow.
 *
 * A reader that does not read must not keep us from hearing that our parent has died, so we never
 * block: what finds no room waits here. stdout is not made non-blocking, because others may have
 * it too. A pipe that polls writable has room for one page, and a socket can be asked not to
 * block.
 */
#include "announce.h"

#include "clock.h"

#include <snib.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define PAGE 4096
#define FULL (64 * 1024)

struct json *announce(struct announcer *a, const char *event)
{
    a->line = NULL;
    a->json = (struct json){.out = open_memstream(&a->line, &a->size), .compact = true};
    if (!a->json.out) {
        a->gone = true;
        return NULL;
    }
    json_open(&a->json, NULL, '{');
    json_text(&a->json, "event", event);
    return &a->json;
}

void announce_end(struct announcer *a)
{
    json_close(&a->json, '}');
    if (fclose(a->json.out) != 0) {
        a->gone = true;
        free(a->line);
        return;
    }
    char *more = realloc(a->text, a->used + a->size);
    if (more) {
        memcpy(more + a->used, a->line, a->size);
        a->text = more;
        a->used += a->size;
    } else {
        a->gone = true; /* an event that is not told would be a lie */
    }
    free(a->line);
    announce_write(a);
}

void announce_left(struct json *json, int64_t left_ms)
{
    if (left_ms < 0 || left_ms == SNIB_FOREVER) {
        json_null(json, "left_ms");
    } else {
        json_integer(json, "left_ms", left_ms);
    }
}

void announce_watch(const struct announcer *a, struct pollfd *out)
{
    *out = (struct pollfd){.fd = a->gone ? -1 : STDOUT_FILENO, .events = a->used ? POLLOUT : 0};
}

static ssize_t write_some(const char *text, size_t size)
{
    ssize_t n = send(STDOUT_FILENO, text, size, MSG_DONTWAIT | MSG_NOSIGNAL);
    return n < 0 && errno == ENOTSOCK ? write(STDOUT_FILENO, text, size) : n;
}

void announce_write(struct announcer *a)
{
    struct pollfd out;
    while (!a->gone && (announce_watch(a, &out), poll(&out, 1, 0) > 0)) {
        if (out.revents & (POLLERR | POLLHUP | POLLNVAL) || a->used == 0) {
            a->gone = (out.revents & (POLLERR | POLLHUP | POLLNVAL)) != 0;
            return;
        }
        ssize_t n = write_some(a->text, a->used < PAGE ? a->used : PAGE);
        if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
            return;
        }
        if (n < 0) {
            a->gone = true;
            return;
        }
        a->used -= (size_t)n;
        memmove(a->text, a->text + n, a->used);
    }
}

bool announce_is_full(const struct announcer *a)
{
    return a->used > FULL;
}

void announce_close(struct announcer *a, int timeout_ms)
{
    int64_t until_ns = clock_now_ns() + timeout_ms * CLOCK_MS;
    while (!a->gone && a->used > 0) {
        struct pollfd out;
        int64_t left_ms = (until_ns - clock_now_ns()) / CLOCK_MS;
        announce_watch(a, &out);
        if (left_ms <= 0 || poll(&out, 1, (int)left_ms) <= 0) {
            break;
        }
        announce_write(a);
    }
    free(a->text);
    a->text = NULL;
}

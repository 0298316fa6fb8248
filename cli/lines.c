/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Input cut into lines, in a buffer that does not grow.
 *
 * What comes without a newline before the end is no line: whoever wrote it may have died in the
 * middle, and half a command can mean something else than the whole.
 */
#include "lines.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

bool lines_read(struct lines *lines, int fd)
{
    memmove(lines->text, lines->text + lines->taken, lines->used - lines->taken);
    lines->used -= lines->taken;
    lines->taken = 0;
    ssize_t n = read(fd, lines->text + lines->used, sizeof lines->text - lines->used);
    if (n > 0) {
        lines->used += (size_t)n;
    }
    return n > 0 || (n < 0 && (errno == EINTR || errno == EAGAIN));
}

enum lines_answer lines_next(struct lines *lines, char **line, size_t *length)
{
    for (;;) {
        char *start = lines->text + lines->taken;
        size_t left = lines->used - lines->taken;
        char *end = memchr(start, '\n', left);
        bool skipped = lines->skipping;
        if (end) {
            *end = '\0';
            *line = start;
            *length = (size_t)(end - start);
            lines->taken += *length + 1;
            lines->skipping = false;
            if (!skipped) {
                return LINES_ONE;
            }
            continue;
        }
        if (left <= LINES_LONGEST && !skipped) {
            return LINES_NONE;
        }
        lines->taken = lines->used; /* room for the rest of it */
        lines->skipping = true;
        return skipped ? LINES_NONE : LINES_TOO_LONG;
    }
}

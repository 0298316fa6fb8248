/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The label of a lock that was given none: who it is that holds it, for somebody who finds it held.
 *
 * Of a command only its name is shown: arguments have passwords in them. The user is what the
 * environment calls him. To look him up could mean to ask a directory server, and to wait for it,
 * before every command; and nobody is let in by a label.
 */
#include "label.h"

#include "utf8.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define USER_MOST 24

/* As much of the text as fits into `most` bytes, without what a terminal would obey. */
static size_t append(char *out, size_t used, size_t most, const char *text)
{
    for (size_t size, end = used + most; *text; text += size) {
        uint32_t character = utf8_next(text, &size);
        size_t room = utf8_is_unsafe(character) ? 1 : size;
        if (used + room > end) {
            break;
        }
        if (room == size && !utf8_is_unsafe(character)) {
            memcpy(out + used, text, size);
        } else {
            out[used] = '?';
        }
        used += room;
    }
    out[used] = '\0';
    return used;
}

const char *label_make(char out[LABEL_SIZE], const char *program)
{
    char number[32], user[USER_MOST + 1];
    const char *slash = strrchr(program, '/'), *known = getenv("LOGNAME");
    known = known && *known ? known : getenv("USER");
    if (!known || !*known) {
        (void)snprintf(number, sizeof number, "uid %u", (unsigned)geteuid());
        known = number;
    }
    size_t length = append(user, 0, USER_MOST, known);
    size_t used = append(out, 0, LABEL_SIZE - 1 - length - strlen(" ()"),
                         slash && slash[1] ? slash + 1 : program);
    (void)snprintf(out + used, LABEL_SIZE - used, "%s(%s)", used ? " " : "", user);
    return out;
}

const char *label_make_of_parent(char out[LABEL_SIZE])
{
    char path[40], name[17];
    (void)snprintf(path, sizeof path, "/proc/%d/comm", (int)getppid());
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t size = fd >= 0 ? read(fd, name, sizeof name - 1) : 0;
    if (fd >= 0) {
        close(fd);
    }
    name[size > 0 ? size : 0] = '\0';
    name[strcspn(name, "\n")] = '\0';
    return label_make(out, name);
}

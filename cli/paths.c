/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names that are paths: /d//p, /d/./p and /d/p/ are one lock.
 *
 * The file engine knows that. Here it matters earlier, because names are compared: a run must not
 * wait for itself or for the run around it, and everybody takes several locks in one order.
 * Elsewhere a slash is a letter like any other.
 *
 * The directory of the locks has several spellings too: another path to it, or other parameters
 * behind it, make no other locks.
 */
#include "paths.h"

#include "command.h"
#include "say.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static void shorten(char *path)
{
    char *out = path;
    for (const char *in = path; *in;) {
        const char *part = in + strspn(in, "/");
        size_t length = strcspn(part, "/");
        in = part + length;
        if (length > 0 && !(length == 1 && part[0] == '.')) {
            *out++ = '/';
            memmove(out, part, length);
            out += length;
        }
    }
    if (out == path) {
        out++; /* the root, which begins with its slash */
    }
    *out = '\0';
}

/* flock(1) would lock the file. Here it is a name, and whoever meant the file must hear of it. */
static void warn_of_file(const char *name)
{
    struct stat about;
    char *path = name[0] == '/' ? NULL : realpath(name, NULL);
    if (path && stat(path, &about) == 0 && S_ISREG(about.st_mode)) {
        say("'%s' is the name of a lock, not the file that is here; to lock the file: %s", name,
            path);
    }
    free(path);
}

static int digit(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* The directory behind a URL as the library shows it: file:///PATH, with %XX in capitals. */
static bool look_at_place(struct stat *out, const char *url)
{
    static const char start[] = "file://";
    char path[4096];
    size_t used = 0;
    if (strncmp(url, start, strlen(start)) != 0) {
        return false;
    }
    for (url += strlen(start); *url && *url != '?' && used < sizeof path - 1; url++) {
        bool coded = url[0] == '%' && digit(url[1]) >= 0 && digit(url[2]) >= 0;
        path[used++] = coded ? (char)(digit(url[1]) * 16 + digit(url[2])) : *url;
        url += coded ? 2 : 0;
    }
    path[used] = '\0';
    return stat(path, out) == 0;
}

bool paths_same_place(const char *url, const char *other)
{
    struct stat a, b;
    return strcmp(url, other) == 0 || (look_at_place(&a, url) && look_at_place(&b, other) &&
                                       a.st_dev == b.st_dev && a.st_ino == b.st_ino);
}

int paths_settle(struct options *o, const char *url)
{
    if (strncmp(url, "file:", strlen("file:")) != 0) {
        return 0;
    }
    for (size_t i = 0; i < o->name_count; i++) {
        if (o->names[i][0] == '/') {
            shorten((char *)(uintptr_t)o->names[i]); /* an argument of main */
        } else {
            warn_of_file(o->names[i]);
        }
        for (size_t j = 0; j < i; j++) {
            if (strcmp(o->names[i], o->names[j]) == 0) {
                return fail(STATUS_USAGE, "lock '%s' is given twice", o->names[i]);
            }
        }
    }
    return 0;
}

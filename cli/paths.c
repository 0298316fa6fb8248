/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names that are paths: /d//p, /d/./p and /d/p/ are one lock.
 *
 * The file engine knows that. Here it matters earlier, because names are compared: a run must not
 * wait for itself or for the run around it, and everybody takes several locks in one order.
 * Elsewhere a slash is a letter like any other.
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

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inspect one name, or list all that are in use.
 *
 * Answered at once: inspecting a file is a handful of system calls. A lock file that exists and is
 * free is not worth a word. Files in the directory that are not ours, or cannot be read, are
 * passed over when listing, and are an error when asked for by name.
 */
#include "engines/file/inspect.h"

#include "engines/file/inspection.h"
#include "engines/file/path.h"
#include "engines/file/session.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <unistd.h>

static void show(struct snib__query *q, const char *name, const struct inspection *s,
                 const struct record *r, int place)
{
    bool counted = s->header.words.kind == KIND_COUNTED;
    snib_seen seen = {
        .size = sizeof seen,
        .name = name,
        .who = r->who,
        .label = r->label,
        .token = place == 0 ? r->token : 0,
        .mode = (int)r->mode,
        .place = place,
        .permits = counted ? s->header.words.permits : 1,
        .since_unix_ms = r->since_ms,
        .left_ms = SNIB_FOREVER,
    };
    snib__seen(q, &seen);
}

/* Somebody who has the path by flock(1) and has never heard of snib. */
static void show_flocker(struct snib__query *q, const char *path)
{
    struct stat st;
    struct flocker other = {.pid = 0};
    if (snib__file_name_is_path(path) && stat(path, &st) == 0) {
        other = snib__file_path_flocker(st.st_dev, st.st_ino);
    }
    if (other.pid == 0) {
        return;
    }
    struct inspection s = {.slot = {.l_type = F_UNLCK}};
    struct record r = {.mode = (uint32_t)other.mode};
    snprintf(r.who, sizeof r.who, "pid %u (flock)", other.pid);
    show(q, path, &s, &r, 0);
}

static void show_all(struct snib__query *q, const char *name, const struct inspection *s)
{
    if (s->exclusive || s->unnoted) {
        show(q, name, s, &s->holder, 0);
    }
    for (size_t i = 0; i < s->holders; i++) {
        show(q, name, s, &s->records[i], 0);
    }
    if (!s->exclusive && !s->unnoted && s->holders == 0) {
        show_flocker(q, name);
    }
    for (size_t i = s->holders; i < s->count; i++) {
        show(q, name, s, &s->records[i], (int)(i - s->holders) + 1);
    }
}

static void inspect_name(struct snib__query *q)
{
    struct file_session *fs = q->session->state;
    char file_name[FILE_NAME_BYTES];
    struct inspection s;
    struct failure why = {.code = 0};
    char room[FILE_NAME_BYTES];
    const char *name = snib__file_name_canonical(room, q->name);
    snib__file_name_encode(file_name, name);
    int rc = snib__file_inspection_begin(&s, &fs->cache, file_name, &why);
    if (rc == 0 && s.header.name_length &&
        (s.header.name_length != strlen(name) ||
         memcmp(s.header.name, name, s.header.name_length) != 0)) {
        rc = snib__file_fail(&why, SNIB_EKIND, 0, "%.100s/%.180s belongs to another lock",
                             fs->directory.path, file_name);
    }
    if (rc >= 0) {
        show_all(q, name, &s);
    }
    snib__file_inspection_end(&s);
    snib__finish(q, rc < 0 ? rc : 0, why.sys, rc < 0 ? why.text : NULL);
}

static void list_file(struct snib__query *q, const char *file_name)
{
    struct file_session *fs = q->session->state;
    char name[FILE_NAME_BYTES];
    struct inspection s;
    struct failure why;
    size_t prefix = strlen(q->name);
    int kind = snib__file_name_decode(name, file_name);
    if (kind < 0 || (kind == 0 && strncmp(name, q->name, prefix) != 0)) {
        return;
    }
    if (snib__file_inspection_begin(&s, &fs->cache, file_name, &why) == 0) {
        if (kind == 1) {
            size_t n = s.header.name_length;
            n = n < sizeof s.header.name ? n : sizeof s.header.name;
            memcpy(name, s.header.name, n);
            name[n] = '\0';
        }
        if (name[0] && strncmp(name, q->name, prefix) == 0) {
            show_all(q, name, &s);
        }
    }
    snib__file_inspection_end(&s);
}

static void list(struct snib__query *q)
{
    struct file_session *fs = q->session->state;
    int fd = openat(fs->directory.fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    if (!dir) {
        int sys = errno;
        char why[300];
        if (fd >= 0) {
            close(fd);
        }
        snprintf(why, sizeof why, "cannot read %.200s: %s", fs->directory.path, strerror(sys));
        snib__finish(q, snib__file_failure_code(sys), sys, why);
        return;
    }
    const struct dirent *entry;
    while ((entry = readdir(dir)) != NULL) {
        list_file(q, entry->d_name);
    }
    closedir(dir);
    snib__finish(q, 0, 0, NULL);
}

void snib__file_inspect(struct snib__query *q)
{
    if (q->prefix) {
        list(q);
    } else {
        inspect_name(q);
    }
}

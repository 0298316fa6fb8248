/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which run of the server was here last time: one line in one small file per server.
 *
 * A command that locks, runs and ends is new to the server each time; without a memory it could not
 * tell a server that has just lost everybody's locks from one it has never seen. Where the file
 * cannot be kept, nothing fails: a client still remembers for as long as it lives.
 *
 * The place is fixed per user, from the password database: root's is below /var/lib, that of others
 * below their home. state= names another.
 */
#include "engines/redis/redis.h"

#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PATH_BYTES 1024

static bool folder_of(const struct snib__redis *r, char out[PATH_BYTES])
{
    const char *named = r->session->values[SNIB__REDIS_STATE].text;
    struct passwd entry, *found = NULL;
    char buffer[4096];
    int n;
    if (named) {
        n = snprintf(out, PATH_BYTES, "%s", named);
    } else if (geteuid() == 0) {
        n = snprintf(out, PATH_BYTES, "/var/lib/snib-redis");
    } else if (getpwuid_r(geteuid(), &entry, buffer, sizeof buffer, &found) == 0 && found &&
               found->pw_dir && found->pw_dir[0] == '/') {
        n = snprintf(out, PATH_BYTES, "%s/.local/state/snib-redis", found->pw_dir);
    } else {
        return false;
    }
    return n > 0 && n < PATH_BYTES;
}

/* mkdir -p, for us alone. */
static void make_folder(char *path)
{
    for (char *p = path + 1; *p; p++) {
        if (*p == '/') {
            *p = '\0';
            (void)mkdir(path, 0755);
            *p = '/';
        }
    }
    (void)mkdir(path, 0700);
}

static bool file_of(const struct snib__redis *r, const char *folder, char out[PATH_BYTES])
{
    uint64_t hash = 14695981039346656037ULL; /* FNV-1a: a name, not a secret */
    for (const char *p = r->where; *p; p++) {
        hash = (hash ^ (unsigned char)*p) * 1099511628211ULL;
    }
    int n = snprintf(out, PATH_BYTES, "%s/%016llx.run", folder, (unsigned long long)hash);
    return n > 0 && n < PATH_BYTES;
}

void snib__runid_recall(struct snib__redis *r, char out[48])
{
    char folder[PATH_BYTES], path[PATH_BYTES];
    out[0] = '\0';
    if (!folder_of(r, folder) || !file_of(r, folder, path)) {
        return;
    }
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0) {
        return;
    }
    ssize_t n = read(fd, out, 47);
    out[n > 0 ? n : 0] = '\0';
    out[strspn(out, "0123456789abcdef")] = '\0';
    close(fd);
}

void snib__runid_note(struct snib__redis *r, const char *run_id)
{
    char folder[PATH_BYTES], path[PATH_BYTES], fresh[PATH_BYTES + 16];
    if (!folder_of(r, folder) || !file_of(r, folder, path)) {
        return;
    }
    make_folder(folder);
    snprintf(fresh, sizeof fresh, "%s.%ld", path, (long)getpid());
    int fd = open(fresh, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0) {
        return;
    }
    char line[64];
    int size = snprintf(line, sizeof line, "%s\n", run_id);
    bool whole = write(fd, line, (size_t)size) == size;
    close(fd);
    if (!whole || rename(fresh, path) < 0) {
        (void)unlink(fresh);
    }
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which URL to use when the caller names none.
 *
 * SNIB_URL, else ~/.config/snib.conf, else /etc/snib.conf, else "file:". Home is that of the
 * password database: cron has no session variables, and HOME survives sudo. A program that runs
 * with more rights than its caller (set-user-ID) sees neither the variable nor the caller's file.
 *
 * A file has lines `key = value`, empty lines, and comment lines that start with '#'; the only key
 * is `url`. Values stand without quotes, are trimmed and hold no spaces. A line may end in CR LF.
 * At most 64 KiB.
 *
 * Whoever can write the file decides where we lock and where the password goes, so it belongs to
 * root or to the user we run as and nobody else may write to it; if its URL has a secret, nobody
 * else may read it. All of this is asked of the open descriptor, not of the path. Symbolic links
 * are followed, because configuration is often kept elsewhere and linked; what they lead to is
 * judged by the same rules.
 *
 * What can go wrong: a configuration that is there and cannot be used (unreadable, untrusted,
 * a line not understood, a link to nothing) is an error and never skipped. With the next place in
 * the list, two halves of a crontab would lock in two places.
 *
 * Messages give file and line. They quote a key only if it looks like one, and never a value.
 */
#include "core/config.h"

#include "core/url.h"

#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILE_MAX 65536
#define SYSTEM_FILE "/etc/snib.conf"
#define USER_FILE "/.config/snib.conf"

static int out_of_memory(snib_error *err)
{
    return snib__fail(err, SNIB_ENOMEM, 0, "out of memory while reading the configuration");
}

static int copy(char **out, const char *text, snib_error *err)
{
    *out = strdup(text);
    return *out != NULL ? 0 : out_of_memory(err);
}

struct found {
    char *url;
    int line; /* where it stands */
};

/* ---- Lines ------------------------------------------------------------------------------ */

struct line {
    const char *path;
    int number;
    char *text; /* trimmed, NUL ended */
};

static int refuse(snib_error *err, const struct line *line, const char *why)
{
    return snib__fail(err, SNIB_EINVAL, 0, "%.200s:%d: %s", line->path, line->number, why);
}

static char *trim(char *text)
{
    text += strspn(text, " \t");
    size_t size = strlen(text);
    while (size > 0 && (text[size - 1] == ' ' || text[size - 1] == '\t')) {
        text[--size] = '\0';
    }
    return text;
}

static int refuse_key(snib_error *err, const struct line *line, const char *key)
{
    size_t size = strlen(key);
    if (size == 0 || size > 32 ||
        strspn(key, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") < size) {
        return refuse(err, line, "not understood; a line is 'url = URL' or a comment after '#'");
    }
    return snib__fail(err, SNIB_EINVAL, 0, "%.200s:%d: unknown key '%s'; the only key is 'url'",
                      line->path, line->number, key);
}

static int check_value(const char *value, const struct line *line, snib_error *err)
{
    if (*value == '\0') {
        return refuse(err, line, "the URL is empty");
    }
    if (*value == '"' || *value == '\'') {
        return refuse(err, line, "the URL is written without quotes");
    }
    for (const char *p = value; *p != '\0'; p++) {
        if (*p == ' ' || *p == '\t') {
            return refuse(err, line, "a URL has no spaces; a comment needs a line of its own");
        }
        if ((unsigned char)*p < 0x20 || *p == 0x7f) {
            return refuse(err, line, "control character in the URL");
        }
    }
    return 0;
}

static int read_line(char **out, const struct line *line, snib_error *err)
{
    if (*line->text == '\0' || *line->text == '#') {
        return 0;
    }
    char *equals = strchr(line->text, '=');
    if (equals == NULL) {
        return refuse(err, line, "no '='; a line is 'url = URL' or a comment after '#'");
    }
    *equals = '\0';
    char *key = trim(line->text);
    char *value = trim(equals + 1);
    if (strcmp(key, "url") != 0) {
        return refuse_key(err, line, key);
    }
    if (*out != NULL) {
        return refuse(err, line, "a second 'url'");
    }
    int rc = check_value(value, line, err);
    return rc < 0 ? rc : copy(out, value, err);
}

/* `text` has a NUL behind its `size` bytes, and is written to. */
static int read_lines(struct found *out, const char *path, char *text, size_t size, snib_error *err)
{
    struct line line = {.path = path, .number = 1};
    for (char *end = text + size; text < end; line.number++) {
        char *stop = memchr(text, '\n', (size_t)(end - text));
        char *next = stop != NULL ? stop + 1 : end;
        if (stop == NULL) {
            stop = end;
        }
        if (memchr(text, '\0', (size_t)(stop - text)) != NULL) {
            return refuse(err, &line, "a NUL byte; this is not a text file");
        }
        if (stop > text && stop[-1] == '\r') {
            stop--;
        }
        *stop = '\0';
        line.text = trim(text);
        bool before = out->url != NULL;
        int rc = read_line(&out->url, &line, err);
        if (rc < 0) {
            return rc;
        }
        if (!before && out->url != NULL) {
            out->line = line.number;
        }
        text = next;
    }
    return 0;
}

/* ---- The file --------------------------------------------------------------------------- */

static int check_trust(const struct stat *status, const char *path, snib_error *err)
{
    if (!S_ISREG(status->st_mode)) {
        return snib__fail(err, SNIB_EDENIED, 0, "%.200s is not a regular file", path);
    }
    if (status->st_uid != 0 && status->st_uid != geteuid()) {
        return snib__fail(err, SNIB_EDENIED, 0,
                          "%.200s belongs to user %lu; it must belong to root or to user %lu", path,
                          (unsigned long)status->st_uid, (unsigned long)geteuid());
    }
    if ((status->st_mode & (S_IWGRP | S_IWOTH)) != 0) {
        return snib__fail(err, SNIB_EDENIED, 0,
                          "%.200s can be written by others than its owner; chmod go-w it", path);
    }
    if (status->st_size > FILE_MAX) {
        return snib__fail(err, SNIB_EINVAL, 0, "%.200s has %lld bytes, at most %d are allowed",
                          path, (long long)status->st_size, FILE_MAX);
    }
    return 0;
}

/* A URL that cannot be shown as it is holds a secret. */
static int check_secrecy(const char *url, const struct stat *status, const char *path,
                         snib_error *err)
{
    if ((status->st_mode & (S_IRGRP | S_IROTH)) == 0) {
        return 0;
    }
    char *shown = snib__url_redact(url);
    if (shown == NULL) {
        return out_of_memory(err);
    }
    bool secret = strcmp(shown, url) != 0;
    free(shown);
    if (secret) {
        return snib__fail(err, SNIB_EDENIED, 0,
                          "%.200s holds a password and can be read by others than its owner; "
                          "chmod 600 it",
                          path);
    }
    return 0;
}

/* The whole file into `text`, which has FILE_MAX + 1 bytes. */
static int read_all(size_t *size, char *text, int fd, const char *path, snib_error *err)
{
    *size = 0;
    for (;;) {
        ssize_t n = read(fd, text + *size, FILE_MAX + 1 - *size);
        if (n < 0 && errno != EINTR) {
            return snib__fail(err, SNIB_ESYS, errno, "cannot read %.200s", path);
        }
        if (n == 0) {
            break;
        }
        *size += n > 0 ? (size_t)n : 0;
        if (*size > FILE_MAX) {
            return snib__fail(err, SNIB_EINVAL, 0, "%.200s is longer than %d bytes", path,
                              FILE_MAX);
        }
    }
    text[*size] = '\0';
    return 0;
}

static int read_open_file(struct found *out, int fd, const char *path, snib_error *err)
{
    struct stat status;
    if (fstat(fd, &status) < 0) {
        return snib__fail(err, SNIB_ESYS, errno, "cannot look at %.200s", path);
    }
    int rc = check_trust(&status, path, err);
    if (rc < 0) {
        return rc;
    }

    char *text = malloc(FILE_MAX + 1);
    if (text == NULL) {
        return out_of_memory(err);
    }
    size_t size;
    rc = read_all(&size, text, fd, path, err);
    if (rc == 0) {
        rc = read_lines(out, path, text, size, err);
    }
    explicit_bzero(text, FILE_MAX + 1);
    free(text);
    if (rc == 0 && out->url != NULL) {
        rc = check_secrecy(out->url, &status, path, err);
    }
    return rc;
}

static int read_file(struct found *out, const char *path, snib_error *err)
{
    *out = (struct found){.url = NULL};
    /* A FIFO must not block the open, a terminal must not become ours: we find out what it is. */
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0) {
        int reason = errno;
        struct stat link;
        if (reason == ENOENT && lstat(path, &link) == 0) {
            return snib__fail(err, SNIB_ESYS, 0, "%.200s is a symbolic link to nothing", path);
        }
        if (reason == ENOENT || reason == ENOTDIR) {
            return 0;
        }
        int code = reason == EACCES || reason == EPERM ? SNIB_EDENIED : SNIB_ESYS;
        return snib__fail(err, code, reason, "cannot open %.200s", path);
    }
    int rc = read_open_file(out, fd, path, err);
    (void)close(fd);
    if (rc < 0 && out->url != NULL) {
        explicit_bzero(out->url, strlen(out->url));
        free(out->url);
        out->url = NULL;
    }
    return rc;
}

int snib__config_read(char **out, const char *path, snib_error *err)
{
    struct found found;
    int rc = read_file(&found, path, err);
    *out = found.url;
    return rc;
}

/* With its origin, "path:line". */
static int read_place(char **out, char **origin, const char *path, snib_error *err)
{
    struct found found;
    int rc = read_file(&found, path, err);
    *out = found.url;
    if (found.url != NULL && asprintf(origin, "%s:%d", path, found.line) < 0) {
        *origin = NULL;
        rc = out_of_memory(err);
    }
    return rc;
}

/* ---- The places ------------------------------------------------------------------------- */

/* `buffer` is malloc'd and holds what `entry` points to. *found is NULL for a user without an
 * entry, as containers have. */
static int password_entry(struct passwd *entry, struct passwd **found, char **buffer,
                          snib_error *err)
{
    int reason = ERANGE;
    *buffer = NULL;
    *found = NULL;
    for (size_t size = 1024; reason == ERANGE && size <= (size_t)1024 * 1024; size *= 4) {
        free(*buffer);
        *buffer = malloc(size);
        if (*buffer == NULL) {
            return out_of_memory(err);
        }
        do {
            reason = getpwuid_r(geteuid(), entry, *buffer, size, found);
        } while (reason == EINTR);
    }
    /* Some name services report a missing entry as one of these: getpwuid_r(3). */
    if (reason != 0 && reason != ENOENT && reason != ESRCH) {
        return snib__fail(err, SNIB_ESYS, reason, "cannot find the home of user %lu",
                          (unsigned long)geteuid());
    }
    return 0;
}

/* A user without an absolute home has no file. */
static int read_user_file(char **out, char **origin, snib_error *err)
{
    struct passwd entry;
    struct passwd *found;
    char *buffer;
    int rc = password_entry(&entry, &found, &buffer, err);
    if (rc == 0 && found != NULL && found->pw_dir != NULL && found->pw_dir[0] == '/') {
        char *path = NULL;
        if (asprintf(&path, "%s%s", found->pw_dir, USER_FILE) < 0) {
            rc = out_of_memory(err);
        } else {
            rc = read_place(out, origin, path, err);
            free(path);
        }
    }
    free(buffer);
    return rc;
}

/* The first of the places that names one. */
static int find(char **out, char **origin, snib_error *err)
{
    const char *variable = secure_getenv("SNIB_URL");
    if (variable != NULL) {
        if (*variable == '\0') {
            return snib__fail(err, SNIB_EINVAL, 0, "SNIB_URL is empty: unset it, or name a URL");
        }
        int rc = copy(origin, "SNIB_URL", err);
        return rc == 0 ? copy(out, variable, err) : rc;
    }
    int rc = 0;
    if (getauxval(AT_SECURE) == 0) {
        rc = read_user_file(out, origin, err);
    }
    if (rc == 0 && *out == NULL) {
        rc = read_place(out, origin, SYSTEM_FILE, err);
    }
    if (rc == 0 && *out == NULL) {
        rc = copy(origin, "the default", err);
        rc = rc == 0 ? copy(out, "file:", err) : rc;
    }
    return rc;
}

int snib__config_url(char **out, char **origin, snib_error *err)
{
    *out = *origin = NULL;
    int rc = find(out, origin, err);
    if (rc < 0) {
        if (*out != NULL) {
            explicit_bzero(*out, strlen(*out));
        }
        free(*out);
        free(*origin);
        *out = *origin = NULL;
    }
    return rc;
}

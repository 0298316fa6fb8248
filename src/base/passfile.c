/* SPDX-License-Identifier: Apache-2.0 */
#include "base/passfile.h"

#include "base/error.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PASSWORD_MAX 1024

int snib__passfile_read(char **out, const char *path, const char *scheme, snib_error *err)
{
    struct stat about;
    char line[PASSWORD_MAX + 1];
    *out = NULL;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0 || fstat(fd, &about) < 0) {
        int sys = errno;
        if (fd >= 0) {
            close(fd);
        }
        return snib__fail(err, SNIB_EDENIED, sys, "%s: passfile %s: %s", scheme, path,
                          strerror(sys));
    }
    bool ours = S_ISREG(about.st_mode) && !(about.st_mode & 077) &&
                (about.st_uid == geteuid() || about.st_uid == 0);
    ssize_t n = ours ? read(fd, line, PASSWORD_MAX) : 0;
    close(fd);
    if (!ours) {
        return snib__fail(err, SNIB_EUNSAFE, 0,
                          "%s: passfile %s must be a file of yours with mode 0600", scheme, path);
    }
    line[n > 0 ? n : 0] = '\0';
    line[strcspn(line, "\r\n")] = '\0';
    if (!line[0]) {
        return snib__fail(err, SNIB_EINVAL, 0, "%s: passfile %s has no password", scheme, path);
    }
    *out = strdup(line);
    explicit_bzero(line, sizeof line);
    return *out ? SNIB_OK : snib__fail(err, SNIB_ENOMEM, 0, "out of memory");
}

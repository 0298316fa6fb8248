/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzzes configuration files. The first byte of the input chooses the mode of the file, the rest
 * is in it. What is accepted is part of one of its lines; from a file that others can read it has
 * no secret; and no message quotes a URL.
 */
#include "core/config.h"
#include "core/url.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_accepted(const char *url, const uint8_t *data, size_t size, mode_t mode)
{
    assert((mode & 022) == 0);
    assert(size <= 65536);
    assert(url[0] != '\0' && url[strcspn(url, " \t\r\n")] == '\0');
    assert(memmem(data, size, url, strlen(url)) != NULL);
    assert(memmem(data, size, "url", 3) != NULL);
    if ((mode & 044) != 0) {
        char *shown = snib__url_redact(url);
        assert(shown != NULL && strcmp(shown, url) == 0);
        free(shown);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const mode_t modes[] = {0600, 0644, 0640, 0400, 0604, 0620, 0602, 0666};
    if (size == 0) {
        return 0;
    }
    mode_t mode = modes[data[0] % 8];
    data++;
    size--;

    int fd = memfd_create("snib.conf", MFD_CLOEXEC);
    assert(fd >= 0);
    ssize_t written = write(fd, data, size);
    assert(written == (ssize_t)size);
    int rc = fchmod(fd, mode);
    assert(rc == 0);
    char path[64];
    (void)snprintf(path, sizeof path, "/proc/self/fd/%d", fd);

    char *url = NULL;
    snib_error error = {.code = 0};
    rc = snib__config_read(&url, path, &error);
    assert(rc == SNIB_OK || rc == SNIB_EINVAL || rc == SNIB_EDENIED);
    assert(rc == error.code);
    if (rc < 0) {
        assert(url == NULL);
        assert(strncmp(error.message, path, strlen(path)) == 0);
        assert(strstr(error.message, "://") == NULL);
    } else if (url != NULL) {
        check_accepted(url, data, size, mode);
        free(url);
    }
    (void)close(fd);
    return 0;
}

/*
 * The test's side of the clock shim: makes the file, tells the server about it, changes it.
 *
 * The library is a build product beside the test programs, whose place depends on the build: it is
 * searched from the folder of the running program upwards, in each folder and in its `support`
 * and `tests` below.
 */
#include "clock_shim.h"

#include "check.h"
#include "server.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LEVELS = 4 };

void clock_shim_open(struct clock_shim *shim)
{
    static _Atomic int count;
    memset(shim, 0, sizeof *shim);
    snprintf(shim->path, sizeof shim->path, "%s/clock%d", check_tmpdir(),
             atomic_fetch_add(&count, 1));
    int descriptor = open(shim->path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    /* Readable for a server that has dropped its privileges, whatever the umask. */
    if (descriptor < 0 || fchmod(descriptor, 0644) != 0 ||
        ftruncate(descriptor, sizeof *shim->offsets) != 0) {
        FAIL("%s: %s", shim->path, strerror(errno));
    }
    void *memory =
        mmap(NULL, sizeof *shim->offsets, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
    close(descriptor);
    if (memory == MAP_FAILED) {
        FAIL("mmap %s: %s", shim->path, strerror(errno));
    }
    shim->offsets = memory;
}

static bool find_library(char path[static PATH_MAX])
{
    static const char *const below[] = {"", "/support", "/tests", "/tests/support"};
    const char *given = getenv("SNIB_CLOCK_SHIM");
    if (given != NULL) {
        snprintf(path, PATH_MAX, "%s", given);
        return access(path, R_OK) == 0;
    }
    char folder[PATH_MAX / 2];
    ssize_t length = readlink("/proc/self/exe", folder, sizeof folder - 1);
    folder[length > 0 ? length : 0] = '\0';
    for (int level = 0; level < LEVELS; level++) {
        char *slash = strrchr(folder, '/');
        if (slash == NULL) {
            return false;
        }
        *slash = '\0';
        for (size_t i = 0; i < sizeof below / sizeof *below; i++) {
            snprintf(path, PATH_MAX, "%s%s/clock_shim.so", folder, below[i]);
            if (access(path, R_OK) == 0) {
                return true;
            }
            snprintf(path, PATH_MAX, "%s%s/libclock_shim.so", folder, below[i]);
            if (access(path, R_OK) == 0) {
                return true;
            }
        }
    }
    return false;
}

/* The server runs as a user who may not reach the tree, in root's home for instance. */
static void copy_library(const char *from, const char *to)
{
    char bytes[4096];
    ssize_t n;
    int in = open(from, O_RDONLY | O_CLOEXEC);
    int out = open(to, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0755);
    CHECK(in >= 0 && out >= 0);
    while ((n = read(in, bytes, sizeof bytes)) > 0) {
        CHECK(write(out, bytes, (size_t)n) == n);
    }
    CHECK(n == 0 && fchmod(out, 0755) == 0);
    close(in);
    close(out);
}

void clock_shim_use(struct clock_shim *shim, struct server *server)
{
    char library[PATH_MAX], copy[PATH_MAX];
    if (!find_library(library)) {
        SKIP("clock_shim.so is not built");
    }
    snprintf(copy, sizeof copy, "%.4000s.so", shim->path);
    copy_library(library, copy);
    server_variable(server, "LD_PRELOAD=%s", copy);
    server_variable(server, CLOCK_SHIM_VARIABLE "=%s", shim->path);
}

void clock_shim_wall(struct clock_shim *shim, int64_t offset_ms)
{
    atomic_store(&shim->offsets->wall_ms, offset_ms);
}

void clock_shim_steady(struct clock_shim *shim, int64_t offset_ms)
{
    atomic_store(&shim->offsets->steady_ms, offset_ms);
}

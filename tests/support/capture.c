/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Commands run to their end. What they write goes to memory files, so nobody can block.
 */
#include "capture.h"
#include "check.h"

#include <errno.h>
#include <fcntl.h>
#include <pty.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define PATIENCE_MS 20000

static struct capture said;

static _Noreturn void become(const char *const argv[])
{
    execvp(argv[0], (char *const *)(uintptr_t)argv);
    fprintf(stderr, "cannot run %s: %s\n", argv[0], strerror(errno));
    _exit(127);
}

static void conclude(pid_t pid)
{
    int status = check_wait(pid, PATIENCE_MS);
    if (status == -1) {
        FAIL("the command does not end");
    }
    said.status = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

static void fetch(int fd, char *text, size_t size)
{
    ssize_t n = pread(fd, text, size - 1, 0);
    CHECK(n >= 0 && (size_t)n < size - 1);
    text[n] = '\0';
    close(fd);
}

const struct capture *capture_command(const char *const argv[])
{
    int out = memfd_create("out", MFD_CLOEXEC);
    int err = memfd_create("err", MFD_CLOEXEC);
    CHECK(out >= 0 && err >= 0);
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        int none = open("/dev/null", O_RDONLY | O_CLOEXEC);
        if (dup2(none, 0) == 0 && dup2(out, 1) == 1 && dup2(err, 2) == 2) {
            become(argv);
        }
        _exit(127);
    }
    check_manage(pid);
    conclude(pid);
    check_unmanage(pid);
    fetch(out, said.out, sizeof said.out);
    fetch(err, said.err, sizeof said.err);
    return &said;
}

const struct capture *capture_on_terminal(const char *const argv[])
{
    int terminal;
    size_t used = 0;
    struct winsize size = {.ws_row = 24, .ws_col = 80};
    pid_t pid = forkpty(&terminal, NULL, NULL, &size);
    CHECK(pid >= 0);
    if (pid == 0) {
        become(argv);
    }
    check_manage(pid);
    for (;;) {
        ssize_t n = read(terminal, said.out + used, sizeof said.out - used - 1);
        if (n > 0) {
            used += (size_t)n;
        } else if (n == 0 || errno != EINTR) { /* EIO: the other side is closed */
            break;
        }
    }
    close(terminal);
    said.out[used] = '\0';
    said.err[0] = '\0';
    conclude(pid);
    check_unmanage(pid);
    return &said;
}

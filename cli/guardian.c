/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The guardian: a process of its own that kills the job if snib cannot.
 *
 * Whoever supervises a job can be killed, stopped or starved, and then the job would run on
 * without a lock. So a second process waits for just two things: the death of the supervisor (a
 * pidfd), and the instant by which the job must be dead (a CLOCK_BOOTTIME timer, set from a
 * shared page). If either comes, it kills the job's process group, again and again until nobody
 * in it lives, and only then ends.
 *
 * It keeps the descriptors of the lock. That is the point: a kernel lock, and the session of a
 * server that frees it when the connection closes, lives as long as any process has them open.
 * So when snib is killed, the lock is free after the job is dead, not before. What snib itself
 * was given by its caller (stdin, pipes, ...) is closed, else a reader would wait for an end of
 * file that never comes; the two are told apart by close-on-exec.
 *
 * It is forked from a program that may have threads: plain system calls only. It is in a group
 * of its own and blocks all signals, so that a terminal or a `kill -STOP -PGID` misses it. Its
 * arguments are overwritten, so that `pkill -f` with the words of the command line misses it
 * too. The job starts after it. If it dies, the supervisor starts another.
 *
 * What it cannot help: both killed at once (then the job's leader dies by its parent-death signal
 * and what it started lives on), a machine that stands still as a whole, a process that cannot
 * be killed because it waits for a device, or has become another user's.
 */
#include "guardian.h"

#include "clock.h"
#include "command.h"
#include "group.h"
#include "say.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define SETTLE_MS 1000 /* a job that is over by then needs no locked memory */
#define PAUSE_FIRST_NS (1 * CLOCK_MS)
#define PAUSE_MOST_NS (500 * CLOCK_MS)
#define DEATHS_IN_A_ROW 5
#define RETRY_NS (1000 * CLOCK_MS)

/* ---- In the guardian -------------------------------------------------------------------- */

static bool close_inherited(int fd, void *arg)
{
    int flags = fcntl(fd, F_GETFD);
    (void)arg;
    if (flags >= 0 && !(flags & FD_CLOEXEC)) {
        close(fd);
    }
    return true;
}

/* Against being paged out or chosen by the out-of-memory killer, as far as we are allowed. */
static void settle_in(void)
{
    int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
    if (fd >= 0) {
        ssize_t done = write(fd, "-1000", 5);
        (void)done;
        close(fd);
    }
    (void)mlockall(MCL_CURRENT | MCL_FUTURE);
}

static void rest(int64_t ns)
{
    struct timespec pause = {.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000};
    nanosleep(&pause, NULL);
}

/* Until nobody lives. The caller keeps the lock meanwhile, however long it takes. */
static void kill_group(const struct guard_page *page)
{
    int64_t pause_ns = PAUSE_FIRST_NS;
    for (;;) {
        pid_t pgid = atomic_load(&page->pgid);
        if (pgid <= 0 || (atomic_load(&page->reaped) && !group_lives(pgid, page->session))) {
            return;
        }
        kill(-pgid, SIGKILL);
        if (!group_lives(pgid, page->session)) {
            return;
        }
        rest(pause_ns);
        pause_ns = pause_ns * 2 < PAUSE_MOST_NS ? pause_ns * 2 : PAUSE_MOST_NS;
    }
}

/* The supervisor had until now to move the instant, and has not. */
static void deadline_came(struct guard_page *page, int64_t due_ns)
{
    pid_t pgid = atomic_load(&page->pgid);
    int nothing = GUARD_NOTHING;
    if (!atomic_compare_exchange_strong(&page->kill_at_ns, &due_ns, CLOCK_NEVER) || pgid <= 0) {
        return;
    }
    bool alive = group_lives(pgid, page->session);
    atomic_compare_exchange_strong(&page->verdict, &nothing, alive ? GUARD_KILLED : GUARD_EMPTY);
    if (alive) {
        kill_group(page);
    }
}

static void name_yourself(const struct guardian *g)
{
    prctl(PR_SET_NAME, "snib-guard");
    if (g->title_size > sizeof "snib-guard") {
        memset(g->title, 0, g->title_size);
        memcpy(g->title, "snib-guard", sizeof "snib-guard");
    }
}

static _Noreturn void guard(const struct guardian *g)
{
    struct guard_page *page = g->page;
    int64_t armed_ns = CLOCK_NEVER;
    int patience_ms = SETTLE_MS;
    setpgid(0, 0);
    name_yourself(g);
    if (!each_number("/proc/self/fd", close_inherited, NULL)) {
        for (int fd = 0; fd < 256; fd++) {
            close_inherited(fd, NULL);
        }
    }
    int timer_fd = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK);
    for (;;) {
        struct pollfd fds[] = {{.fd = g->supervisor_fd, .events = POLLIN},
                               {.fd = g->nudge_fd, .events = POLLIN},
                               {.fd = timer_fd, .events = POLLIN}};
        int64_t due_ns = atomic_load(&page->kill_at_ns);
        if (timer_fd >= 0 && due_ns != armed_ns) {
            clock_arm(timer_fd, due_ns);
            armed_ns = due_ns;
        }
        int ready = poll(fds, 3, timer_fd < 0 ? 20 : patience_ms);
        if (ready > 0 && fds[0].revents) {
            kill_group(page);
            _exit(0);
        }
        if (ready > 0 && fds[1].revents) {
            uint64_t count;
            ssize_t done = read(g->nudge_fd, &count, sizeof count);
            (void)done;
        }
        if (ready == 0 && patience_ms > 0) {
            settle_in();
            patience_ms = -1;
        }
        due_ns = atomic_load(&page->kill_at_ns);
        if (clock_now_ns() >= due_ns) {
            deadline_came(page, due_ns);
        } else if (ready > 0 && fds[2].revents) {
            armed_ns = -1; /* it has fired, early or for an instant that was moved */
        }
    }
}

/* ---- In the supervisor ------------------------------------------------------------------ */

int guardian_prepare(struct guardian *g, char *title, size_t title_size)
{
    *g = (struct guardian){.title = title, .title_size = title_size, .retry_ns = CLOCK_NEVER};
    void *page =
        mmap(NULL, sizeof *g->page, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    g->supervisor_fd = (int)syscall(SYS_pidfd_open, getpid(), 0);
    g->nudge_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (page == MAP_FAILED || g->supervisor_fd < 0 || g->nudge_fd < 0) {
        return fail(STATUS_INTERNAL, "cannot prepare the guardian: %s", strerror(errno));
    }
    g->page = page;
    atomic_store(&g->page->kill_at_ns, CLOCK_NEVER);
    g->page->session = getsid(0);
    return 0;
}

int guardian_start(struct guardian *g)
{
    pid_t pid = fork();
    if (pid < 0) {
        return errno;
    }
    if (pid == 0) {
        guard(g);
    }
    setpgid(pid, pid); /* whoever comes first: from now on signals to our group miss it */
    g->pid = pid;
    g->retry_ns = CLOCK_NEVER;
    return 0;
}

void guardian_replace(struct guardian *g)
{
    g->pid = 0;
    g->deaths++;
    bool pause = g->deaths % DEATHS_IN_A_ROW == 0; /* whatever kills it, do not race with it */
    if (pause || guardian_start(g) != 0) {
        g->retry_ns = clock_now_ns() + RETRY_NS;
    }
}

void guardian_set(struct guardian *g, int64_t kill_at_ns)
{
    int64_t before = atomic_exchange(&g->page->kill_at_ns, kill_at_ns);
    if (kill_at_ns < before) { /* a later instant it finds by itself when it wakes */
        uint64_t one = 1;
        ssize_t done = write(g->nudge_fd, &one, sizeof one);
        (void)done;
    }
}

void guardian_dismiss(struct guardian *g)
{
    atomic_store(&g->page->pgid, 0);
    if (g->pid > 0) {
        kill(g->pid, SIGKILL);
    }
}

void guardian_bury(struct guardian *g)
{
    while (g->pid > 0 && waitpid(g->pid, NULL, 0) < 0 && errno == EINTR) {
    }
    g->pid = 0;
    if (g->page) {
        munmap(g->page, sizeof *g->page);
        close(g->supervisor_fd);
        close(g->nudge_fd);
        g->page = NULL;
    }
}

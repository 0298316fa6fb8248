/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The guardian: the process that the user has started, above the one that supervises the job.
 *
 * Whoever supervises a job can be killed, stopped or starved, and then the job would run on without
 * a lock. So there are two of them, one above the other:
 *
 *     guardian ---- passes signals down and the exit status up; waits
 *        `-- supervisor ---- has the lock, and the job                           run.c, supervise.c
 *               `-- the command
 *
 * Both are subreapers, so nothing of the job gets out from below them, and each sees the other die:
 *
 * - The guardian is killed: the supervisor kills what is below it, and releases as ever.
 * - The supervisor is killed: what was below it is below the guardian now, which kills it and, once
 *   nothing is left, gives the lock back with what was deposited (deposit.c).
 * - The supervisor is stopped or stuck and the deadline comes, which is in a page that both share:
 *   the guardian kills it, and goes on as above. If the job had ended by then, it lets it be.
 *
 * The guardian is forked from before a client is opened: it has no threads and no connection, and
 * needs nothing of the library until the supervisor is dead.
 *
 * What it cannot help: both killed at once (then the command dies by its parent-death signal and
 * what it started lives on), both stopped, a machine that stands still as a whole, a process that
 * cannot be killed because it waits for a device, or has become another user's.
 */
#include "guardian.h"

#include "clock.h"
#include "command.h"
#include "deposit.h"
#include "descendants.h"
#include "process.h"
#include "say.h"
#include "secret.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define SETTLE_MS 1000 /* a job that is over by then needs no locked memory */
#define PAUSE_FIRST_NS (CLOCK_MS / 5)
#define PAUSE_MOST_NS (50 * CLOCK_MS)
#define EMPTY_WALKS 3
#define DYING_NS (50 * CLOCK_MS) /* what somebody has to die who was just killed */

/* ---- Before the fork -------------------------------------------------------------------- */

/* A shell may have started something and then become us. */
static void note_strangers(struct guardian *g)
{
    siginfo_t info;
    struct process self;
    if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
        process_open(&self, process_self())) {
        g->stranger_count =
            process_children(&self, g->strangers, sizeof g->strangers / sizeof g->strangers[0]);
        process_close(&self);
    }
}

int guardian_prepare(struct guardian *g, struct options *options, struct signals *signals)
{
    *g = (struct guardian){.options = options,
                           .signals = signals,
                           .shows_url = options->url.argument != NULL,
                           .deposit_fds = {-1, -1}};
    g->page_size = sizeof *g->page + options->name_count * SNIB_HANDLE_SIZE;
    void *page =
        mmap(NULL, g->page_size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    g->guardian_fd = (int)syscall(SYS_pidfd_open, getpid(), 0);
    g->nudge_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (page == MAP_FAILED || g->guardian_fd < 0 || g->nudge_fd < 0 ||
        socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, g->deposit_fds) < 0) {
        return fail(STATUS_INTERNAL, "cannot prepare the guardian: %s", strerror(errno));
    }
    g->page = page;
    atomic_store(&g->page->kill_at_ns, CLOCK_NEVER);
    terminal_find(&g->page->terminal);
    note_strangers(g);
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    return 0;
}

void guardian_free(struct guardian *g)
{
    if (g->page) {
        munmap(g->page, g->page_size);
        close(g->guardian_fd);
        close(g->nudge_fd);
        close(g->deposit_fds[0] >= 0 ? g->deposit_fds[0] : g->deposit_fds[1]);
        g->page = NULL;
    }
    secret_free(g->variable);
    g->variable = NULL;
}

/* ---- In the supervisor ------------------------------------------------------------------ */

void guardian_nudge(struct guardian *g)
{
    uint64_t one = 1;
    ssize_t done = write(g->nudge_fd, &one, sizeof one);
    (void)done;
}

void guardian_set(struct guardian *g, int64_t kill_at_ns)
{
    int64_t before = atomic_exchange(&g->page->kill_at_ns, kill_at_ns);
    if (kill_at_ns < before) { /* a later instant it finds by itself when it wakes */
        guardian_nudge(g);
    }
}

/* ---- The dead --------------------------------------------------------------------------- */

static void forget_stranger(struct guardian *g, pid_t pid)
{
    for (size_t i = 0; i < g->stranger_count; i++) {
        if (g->strangers[i] == pid) {
            g->strangers[i] = g->strangers[--g->stranger_count];
        }
    }
}

/* Everybody who died. */
static void reap(struct guardian *g)
{
    int status;
    for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) > 0;) {
        if (pid == g->supervisor) {
            g->supervisor = 0;
            g->status = status;
        } else {
            forget_stranger(g, pid);
        }
    }
}

static void rest(int64_t ns)
{
    struct timespec pause = {.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000};
    nanosleep(&pause, NULL);
}

/* The supervisor is dead: until nothing of its job lives, however long that takes. With strangers
 * about there is no ECHILD to wait for; then some walks in a row that find nobody have to do. */
static void kill_all(struct guardian *g)
{
    int64_t pause_ns = PAUSE_FIRST_NS, spare_until_ns = clock_now_ns() + SPARE_NS;
    if (atomic_load(&g->page->verdict) == VERDICT_KILLED) {
        spare_until_ns = 0;
    } else if (atomic_load(&g->page->kill_at_ns) < spare_until_ns) {
        spare_until_ns = atomic_load(&g->page->kill_at_ns);
    }
    for (int empty = 0; empty < EMPTY_WALKS;) {
        reap(g);
        struct descendants which = {.spare = clock_now_ns() < spare_until_ns,
                                    .but = g->strangers,
                                    .but_count = g->stranger_count};
        siginfo_t info;
        if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) < 0 && errno == ECHILD) {
            return;
        }
        int found = descendants_signal(&which, SIGKILL);
        empty = found == 0 && g->stranger_count > 0 ? empty + 1 : 0;
        rest(pause_ns);
        pause_ns = pause_ns * 2 < PAUSE_MOST_NS ? pause_ns * 2 : PAUSE_MOST_NS;
    }
}

/*
 * The supervisor had until now to move the instant, and has not: it is stopped or stuck, and starts
 * nothing. So what is below it is killed, and it may tell the story when it comes to. But it does
 * not bury anybody, and so there is no proof; if by half of what is left of the lease somebody
 * still lives, it is killed too, and kill_all does the rest. Not at once, however late it is: if
 * the whole machine stood still, the supervisor goes on now as we do, and knows the story.
 */
static void deadline_came(struct guardian *g, int64_t due_ns)
{
    struct guardian_page *page = g->page;
    struct descendants which = {
        .but_group = g->supervisor, .but = g->strangers, .but_count = g->stranger_count};
    int64_t pause_ns = PAUSE_FIRST_NS, soonest_ns = clock_now_ns() + DYING_NS;
    int64_t last_ns = due_ns + atomic_load(&page->margin_ns) / 2;
    last_ns = last_ns > soonest_ns ? last_ns : soonest_ns;
    if (!atomic_compare_exchange_strong(&page->kill_at_ns, &due_ns, CLOCK_NEVER)) {
        return;
    }
    bool alive = descendants_signal(&which, 0) > 0;
    atomic_store(&page->verdict, alive ? VERDICT_KILLED : VERDICT_EMPTY);
    for (int empty = 0; alive && empty < EMPTY_WALKS && g->supervisor > 0;) {
        empty = descendants_signal(&which, SIGKILL) == 0 ? empty + 1 : 0;
        if (empty == 0 && clock_now_ns() >= last_ns) {
            kill(g->supervisor, SIGKILL);
            return;
        }
        rest(pause_ns);
        pause_ns = pause_ns * 2 < PAUSE_MOST_NS ? pause_ns * 2 : PAUSE_MOST_NS;
        reap(g);
    }
}

/* ---- Watch ------------------------------------------------------------------------------ */

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

/* The supervisor has news: the client is open, a deposit must be taken, or the deadline moved. */
static void heed(struct guardian *g)
{
    uint64_t count;
    ssize_t done = read(g->nudge_fd, &count, sizeof count);
    (void)done;
    deposit_take(g);
    if (g->shows_url && atomic_load(&g->page->opened)) {
        secret_show(g->options->url.argument, g->page->shown);
        g->shows_url = false;
    }
}

static void pass_signals_on(const struct guardian *g)
{
    for (int number; (number = signals_next(g->signals, NULL)) != 0;) {
        if (number != SIGCHLD && g->supervisor > 0) {
            kill(g->supervisor, number);
        }
    }
}

/* Until the supervisor is dead. */
static void watch(struct guardian *g)
{
    int64_t armed_ns = CLOCK_NEVER;
    int patience_ms = SETTLE_MS, timer_fd = -1;
    for (reap(g); g->supervisor > 0; reap(g)) {
        int64_t due_ns = atomic_load(&g->page->kill_at_ns);
        if (timer_fd < 0 && due_ns != CLOCK_NEVER) {
            timer_fd = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK);
        }
        if (timer_fd >= 0 && due_ns != armed_ns) {
            clock_arm(timer_fd, due_ns);
            armed_ns = due_ns;
        }
        struct pollfd fds[] = {{.fd = g->signals->fd, .events = POLLIN},
                               {.fd = g->nudge_fd, .events = POLLIN},
                               {.fd = timer_fd, .events = POLLIN}};
        bool blind = timer_fd < 0 && due_ns != CLOCK_NEVER;
        if (poll(fds, 3, blind ? 20 : patience_ms) == 0 && !blind) {
            deposit_take(g);
            settle_in();
            patience_ms = -1;
        }
        pass_signals_on(g);
        if (fds[1].revents) {
            heed(g);
        }
        due_ns = atomic_load(&g->page->kill_at_ns);
        if (clock_now_ns() >= due_ns) {
            deadline_came(g, due_ns);
        } else if (fds[2].revents) {
            armed_ns = -1; /* it has fired, early or for an instant that was moved */
        }
    }
    if (timer_fd >= 0) {
        close(timer_fd);
    }
}

/* The supervisor is dead before its time. */
static int take_over(struct guardian *g)
{
    struct guardian_page *page = g->page;
    deposit_take(g);
    kill_all(g);
    deposit_give_back(g);
    terminal_take_back(&page->terminal, true);
    if (atomic_load(&page->verdict) == VERDICT_KILLED) {
        return fail(STATUS_LOST,
                    "lock '%s': snib itself was stopped or stuck; the command was stopped before "
                    "the lease ran out",
                    g->options->names[0]);
    }
    if (WIFSIGNALED(g->status)) {
        return fail(STATUS_INTERNAL,
                    "lock '%s': the supervisor of the command was killed by %s; so was the command",
                    g->options->names[0], signals_name(WTERMSIG(g->status)));
    }
    return WEXITSTATUS(g->status); /* it has said why */
}

/*
 * On a terminal Ctrl-C means everything in the foreground: also the script that runs us, or the
 * shell's loop around us. They go by whether we died of the signal, not by a status of 130. And
 * if the command had the terminal, they have not seen the signal at all.
 */
static void pass_interrupt_on(const struct guardian_page *page)
{
    int number = page->interrupt;
    if ((number == SIGINT || number == SIGQUIT) && terminal_is_ours(&page->terminal)) {
        signals_die(number, page->interrupt_group);
    }
}

/* Our environment is of no use to anybody but those who would read a password in it. */
static void hide_variable(struct guardian *g)
{
    const char *variable = getenv("SNIB_URL");
    g->variable = variable ? strdup(variable) : NULL;
    secret_forget("SNIB_URL");
}

int guardian_watch(struct guardian *g)
{
    close(g->deposit_fds[1]);
    g->deposit_fds[1] = -1;
    hide_variable(g);
    watch(g);
    if (!atomic_load(&g->page->over) || !WIFEXITED(g->status)) {
        return take_over(g);
    }
    pass_interrupt_on(g->page);
    return WEXITSTATUS(g->status);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the guardian keeps for the supervisor, in case that one is killed.
 *
 * Where the lock ends with the process that holds it (a kernel lock, the session of a connection),
 * it must not end before the job does. Such a lock lives as long as any process has its descriptor
 * open, so the guardian gets a copy of every descriptor that may carry one: those that snib itself
 * opened, which are close-on-exec, and that are files or sockets. They are safe from the moment
 * they were sent: what is on its way is open too. A release by the supervisor unlocks, and so
 * ends the lock although the guardian's copies stay open.
 *
 * Where the lock is a lease it would outlive its holder, by the ttl. There the guardian keeps a
 * handle for each, in memory that only the two share, and gives them back. It does so in a child
 * process, so that an engine that does not answer costs a bounded time. The guardian has never
 * opened a client and has no threads, so the child may do all that the library wants.
 */
#include "deposit.h"

#include "clock.h"
#include "command.h"
#include "say.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define BATCH 64
#define DESCRIPTORS 96 /* that we may have at a time, generously */
#define DESCRIPTORS_PER_NAME 16
#define SEARCHED 128 /* at a time */
#define DELIVER_NS (3000 * CLOCK_MS)
#define GIVE_BACK_NS (5000 * CLOCK_MS)
#define PAUSE_MS 50

/* ---- Descriptors ------------------------------------------------------------------------ */

struct parcel {
    struct guardian *guardian;
    int to;
    int fds[BATCH];
    size_t count;
    int error;
};

static void send_parcel(struct parcel *p)
{
    _Alignas(struct cmsghdr) char space[CMSG_SPACE(sizeof p->fds)] = {0};
    char byte = 0;
    struct iovec io = {.iov_base = &byte, .iov_len = 1};
    struct msghdr message = {.msg_iov = &io,
                             .msg_iovlen = 1,
                             .msg_control = space,
                             .msg_controllen = CMSG_SPACE(p->count * sizeof(int))};
    struct cmsghdr *head = CMSG_FIRSTHDR(&message);
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(p->count * sizeof(int));
    memcpy(CMSG_DATA(head), p->fds, p->count * sizeof(int));
    p->error = 0;
    if (sendmsg(p->to, &message, MSG_NOSIGNAL) != 1) {
        p->error = errno;
    }
}

/* The guardian sleeps and takes them when it wakes. A user may have a limited number on the way:
 * then it has to be woken, and so have those of others. */
static void deliver(struct parcel *p)
{
    int64_t until_ns = clock_now_ns() + DELIVER_NS;
    if (p->count > 0) {
        send_parcel(p);
    }
    while (p->error == ETOOMANYREFS && clock_now_ns() < until_ns) {
        guardian_nudge(p->guardian);
        (void)poll(NULL, 0, PAUSE_MS);
        send_parcel(p);
    }
    p->count = 0;
}

static void add_descriptor(struct parcel *p, int fd)
{
    p->fds[p->count++] = fd;
    if (p->count == BATCH) {
        deliver(p);
    }
}

/* Ours, and of a kind that can carry a lock. What the caller has left open for us is not
 * close-on-exec, or it would have been closed. */
static bool may_carry_a_lock(const struct guardian *g, int fd)
{
    struct statx kind;
    if (fd == g->signals->fd || fd == g->guardian_fd || fd == g->nudge_fd ||
        fd == g->deposit_fds[1]) {
        return false;
    }
    int flags = fcntl(fd, F_GETFD);
    return flags >= 0 && flags & FD_CLOEXEC &&
           statx(fd, "", AT_EMPTY_PATH, STATX_TYPE, &kind) == 0 &&
           (S_ISREG(kind.stx_mode) || S_ISSOCK(kind.stx_mode));
}

/*
 * A descriptor gets the lowest number that is free. So below any that we have opened there are at
 * most as many free numbers as we have ever had descriptors at a time, which bounds the search; to
 * list them in /proc takes ten times as long, and every command would wait for it.
 */
static int leave_descriptors(struct guardian *g, size_t names)
{
    struct parcel parcel = {.guardian = g, .to = g->deposit_fds[1]};
    size_t unused = 0, most = DESCRIPTORS + names * DESCRIPTORS_PER_NAME;
    struct rlimit limit = {.rlim_cur = RLIM_INFINITY};
    (void)getrlimit(RLIMIT_NOFILE, &limit);
    for (rlim_t base = 0; unused < most && base < limit.rlim_cur && parcel.error == 0;) {
        struct pollfd fds[SEARCHED];
        rlim_t count = limit.rlim_cur - base < SEARCHED ? limit.rlim_cur - base : SEARCHED;
        for (rlim_t i = 0; i < count; i++) {
            fds[i] = (struct pollfd){.fd = (int)(base + i)};
        }
        (void)poll(fds, count, 0);
        for (rlim_t i = 0; i < count && parcel.error == 0; i++) {
            if (fds[i].revents & POLLNVAL) {
                unused++;
            } else if (may_carry_a_lock(g, fds[i].fd)) {
                add_descriptor(&parcel, fds[i].fd);
            }
        }
        base += count;
    }
    deliver(&parcel);
    return parcel.error ? fail(STATUS_INTERNAL, "cannot pass the lock on to the guardian: %s",
                               strerror(parcel.error))
                        : 0;
}

/* They stay open, unlooked at, until this process ends. */
void deposit_take(const struct guardian *g)
{
    _Alignas(struct cmsghdr) char space[CMSG_SPACE(BATCH * sizeof(int))];
    char byte;
    struct iovec io = {.iov_base = &byte, .iov_len = 1};
    struct msghdr message;
    do {
        message = (struct msghdr){
            .msg_iov = &io, .msg_iovlen = 1, .msg_control = space, .msg_controllen = sizeof space};
    } while (recvmsg(g->deposit_fds[0], &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT) > 0);
}

/* ---- Handles ---------------------------------------------------------------------------- */

static void leave_handles(struct guardian_page *page, const struct lock *lock)
{
    size_t count = 0;
    for (size_t i = 0; i < lock->options->name_count; i++) {
        snib_error error;
        int rc = snib_handle(lock->leases[i], page->handles[count], SNIB_HANDLE_SIZE, &error);
        if (rc == SNIB_OK) {
            count++;
        } else {
            tell("lock '%s' ends with its lease if snib is killed: %s", lock->options->names[i],
                 error.message);
        }
    }
    atomic_store(&page->handle_count, count);
}

int deposit_leave(struct guardian *g, const struct lock *lock)
{
    unsigned traits = snib_traits(lock->client);
    int status = 0;
    if (!(traits & SNIB_TRAIT_LEASED) || traits & SNIB_TRAIT_AT_ONCE) {
        status = leave_descriptors(g, lock->options->name_count);
    }
    if (traits & SNIB_TRAIT_LEASED) {
        leave_handles(g->page, lock);
    }
    return status;
}

/* "No answer" may be the engine's mood of a moment: ask again until the time is over. */
static void give_back_one(snib *client, const char *handle, int64_t until_ns)
{
    snib_error error;
    while (snib_give_back(client, handle, &error) == SNIB_EUNKNOWN && clock_now_ns() < until_ns) {
        (void)poll(NULL, 0, PAUSE_MS);
    }
}

static void give_all_back(const struct guardian *g, int64_t until_ns)
{
    snib *client = NULL;
    if (g->variable) {
        setenv("SNIB_URL", g->variable, 1);
    }
    if (client_open(&client, &g->options->url) == 0) {
        for (size_t i = 0; i < atomic_load(&g->page->handle_count); i++) {
            give_back_one(client, g->page->handles[i], until_ns);
        }
    }
    snib_close(client);
}

void deposit_give_back(const struct guardian *g)
{
    int64_t until_ns = clock_now_ns() + GIVE_BACK_NS;
    if (atomic_load(&g->page->handle_count) == 0) {
        return;
    }
    pid_t child = fork();
    if (child == 0) {
        give_all_back(g, until_ns);
        _exit(0);
    }
    while (child > 0 && waitpid(child, NULL, WNOHANG) == 0) {
        if (clock_now_ns() >= until_ns) {
            kill(child, SIGKILL);
            (void)waitpid(child, NULL, 0);
            return;
        }
        (void)poll(NULL, 0, 1);
    }
}

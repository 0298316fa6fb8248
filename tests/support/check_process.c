/*
 * Helper processes of a case, and the few ways in which they meet: flags, barriers, signals.
 *
 * Ends are awaited on a pidfd, stops by looking at every thread of the process in /proc, because
 * the first thread may have stopped while another still runs for a moment. A helper dies with the
 * process that started it, but only if its main thread did: the kernel ties PR_SET_PDEATHSIG to
 * the thread, and a helper must not die because a thread of a pool has ended. The harness kills
 * what is left in any case.
 */
#include "check_page.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { MANAGED = 128, SIGNAL_TIMEOUT_MS = 10000 };

/* Of the process that called check_manage; a fork must not inherit the duty. */
static struct {
    pid_t owner;
    int count;
    pid_t pids[MANAGED];
} managed;

/* ---- /proc ------------------------------------------------------------------------------ */

static bool read_stat(const char *path, struct check_process *out)
{
    FILE *file = fopen(path, "re");
    if (file == NULL) {
        return false;
    }
    char line[512];
    bool good = fgets(line, sizeof line, file) != NULL;
    fclose(file);
    if (!good) {
        return false;
    }
    /* PID (NAME) STATE PARENT ...; the name may hold anything, parentheses too. */
    char *open = strchr(line, '(');
    char *close = strrchr(line, ')');
    int parent = 0;
    if (open == NULL || close == NULL || sscanf(close + 1, " %c %d", &out->state, &parent) != 2) {
        return false;
    }
    *close = '\0';
    out->pid = (pid_t)strtol(line, NULL, 10);
    out->parent = parent;
    snprintf(out->name, sizeof out->name, "%s", open + 1);
    return true;
}

bool check_process_read(pid_t pid, struct check_process *out)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    return read_stat(path, out);
}

int check_children(void (*visit)(const struct check_process *, void *), void *arg)
{
    DIR *proc = opendir("/proc");
    if (proc == NULL) {
        return 0;
    }
    int count = 0;
    struct dirent *entry;
    while ((entry = readdir(proc)) != NULL) {
        struct check_process one;
        if (isdigit((unsigned char)entry->d_name[0]) &&
            check_process_read((pid_t)strtol(entry->d_name, NULL, 10), &one) &&
            one.parent == getpid()) {
            count++;
            visit(&one, arg);
        }
    }
    closedir(proc);
    return count;
}

/* Is every thread of the process in one of these states? Ours, if it asks about itself, is not
 * looked at. */
static bool all_threads_are(pid_t pid, const char *states)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/task", pid);
    DIR *tasks = opendir(path);
    if (tasks == NULL) {
        return false;
    }
    bool all = true;
    struct dirent *entry;
    while (all && (entry = readdir(tasks)) != NULL) {
        char stat_path[sizeof path + sizeof entry->d_name + sizeof "//stat"];
        struct check_process one;
        snprintf(stat_path, sizeof stat_path, "%s/%s/stat", path, entry->d_name);
        if (entry->d_name[0] != '.' && read_stat(stat_path, &one) && one.pid != gettid()) {
            all = strchr(states, one.state) != NULL;
        }
    }
    closedir(tasks);
    return all;
}

/* A thread that sleeps in the kernel without being disturbed (D) will not come back before it has
 * looked at the signal; the parent of a stopped vfork(2) stays like that. */
static bool all_threads_stopped(pid_t pid)
{
    return all_threads_are(pid, "TtD");
}

bool check_alive(pid_t pid)
{
    struct check_process one;
    return check_process_read(pid, &one) && one.state != 'Z' && one.state != 'X';
}

int check_thread_count(void)
{
    FILE *file = fopen("/proc/self/status", "re");
    CHECK(file != NULL);
    char line[256];
    int count = -1;
    while (count < 0 && fgets(line, sizeof line, file) != NULL) {
        if (strncmp(line, "Threads:", 8) == 0) {
            count = (int)strtol(line + 8, NULL, 10);
        }
    }
    fclose(file);
    CHECK(count > 0);
    return count;
}

int check_fd_count(void)
{
    DIR *descriptors = opendir("/proc/self/fd");
    CHECK(descriptors != NULL);
    int count = -1; /* the one in use for this */
    struct dirent *entry;
    while ((entry = readdir(descriptors)) != NULL) {
        count += entry->d_name[0] != '.';
    }
    closedir(descriptors);
    return count;
}

/* ---- Start and end ---------------------------------------------------------------------- */

static _Noreturn void helper_end(bool forked_from_threads)
{
    fflush(NULL);
#if defined(__SANITIZE_ADDRESS__)
#define CHECK_LEAKS 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define CHECK_LEAKS 1
#endif
#endif
#ifdef CHECK_LEAKS
    /* What the parent's other threads pointed to has no owner here and would look leaked. */
    if (forked_from_threads) {
        _exit(0);
    }
#endif
    (void)forked_from_threads;
    exit(0);
}

/* The allocators of the sanitizers do not survive a fork that finds another thread inside them: the
 * child waits for a lock for ever. So it is called when the others sleep. */
static void let_threads_rest(void)
{
    for (int quiet = 0, looks = 0; quiet < 2 && looks < 1000; looks++) {
        check_sleep_ms(1);
        quiet = all_threads_are(getpid(), "S") ? quiet + 1 : 0;
    }
}

pid_t check_spawn(void (*fn)(void *), void *arg)
{
    pid_t parent = getpid();
    bool main_thread = gettid() == parent;
    bool threads = check_thread_count() > 1;
#ifdef CHECK_LEAKS
    if (threads) {
        let_threads_rest();
    }
#else
    (void)let_threads_rest;
#endif
    fflush(NULL);
    pid_t pid = fork();
    if (pid < 0) {
        FAIL("fork: %s", strerror(errno));
    }
    if (pid > 0) {
        return pid;
    }
    if (main_thread) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent) {
            _exit(CHECK_EXIT_FAILED);
        }
    }
    fn(arg);
    helper_end(threads);
}

static bool gone(void *arg)
{
    return !check_alive(*(pid_t *)arg);
}

int check_wait(pid_t pid, int timeout_ms)
{
    int descriptor = pidfd_open(pid, 0);
    if (descriptor >= 0) {
        struct pollfd ended = {.fd = descriptor, .events = POLLIN};
        int64_t end = check_now_ns() + (int64_t)check_ms(timeout_ms) * 1000000;
        int answer;
        do {
            int64_t left = (end - check_now_ns()) / 1000000;
            answer = poll(&ended, 1, left > 0 ? (int)left : 0);
        } while (answer < 0 && errno == EINTR);
        close(descriptor);
    } else {
        check_until(gone, &pid, timeout_ms);
    }
    int status;
    pid_t found;
    do {
        found = waitpid(pid, &status, WNOHANG);
    } while (found < 0 && errno == EINTR);
    if (found < 0) {
        FAIL("waitpid(%d): %s", pid, strerror(errno));
    }
    return found == pid ? status : -1;
}

void check_join_at(const char *file, int line, pid_t pid, int timeout_ms)
{
    int status = check_wait(pid, timeout_ms);
    if (status == -1) {
        check_fail_at(file, line, "process %d still runs after %d ms", pid, check_ms(timeout_ms));
    }
    if (WIFSIGNALED(status)) {
        check_fail_at(file, line, "process %d was ended by signal %d (%s)", pid, WTERMSIG(status),
                      strsignal(WTERMSIG(status)));
    }
    if (WEXITSTATUS(status) == CHECK_EXIT_SKIPPED && check_page != NULL) {
        check_skip_at(file, line, "%s", check_page->skip_reason);
    }
    if (WEXITSTATUS(status) != 0) {
        check_fail_at(file, line, "process %d exited with status %d", pid, WEXITSTATUS(status));
    }
}

void check_kill(pid_t pid)
{
    CHECK(pid > 0);
    if (kill(pid, SIGKILL) != 0 && errno != ESRCH) {
        FAIL("kill(%d, SIGKILL): %s", pid, strerror(errno));
    }
    struct check_process one;
    if (check_process_read(pid, &one) && one.parent == getpid()) {
        CHECK(check_wait(pid, SIGNAL_TIMEOUT_MS) != -1);
    } else {
        CHECK(check_until(gone, &pid, SIGNAL_TIMEOUT_MS));
    }
}

/* ---- Stop and go on --------------------------------------------------------------------- */

static bool has_stopped(void *arg)
{
    return all_threads_stopped(*(pid_t *)arg);
}

static bool runs_again(void *arg)
{
    struct check_process one;
    return !check_process_read(*(pid_t *)arg, &one) || one.state != 'T';
}

void check_stop(pid_t pid)
{
    if (kill(pid, SIGSTOP) != 0) {
        FAIL("kill(%d, SIGSTOP): %s", pid, strerror(errno));
    }
    if (!check_until(has_stopped, &pid, SIGNAL_TIMEOUT_MS)) {
        FAIL("process %d did not stop", pid);
    }
}

void check_cont(pid_t pid)
{
    if (kill(pid, SIGCONT) != 0) {
        FAIL("kill(%d, SIGCONT): %s", pid, strerror(errno));
    }
    if (!check_until(runs_again, &pid, SIGNAL_TIMEOUT_MS)) {
        FAIL("process %d did not go on", pid);
    }
}

bool check_until(bool (*condition)(void *), void *arg, int timeout_ms)
{
    int64_t end = check_now_ns() + (int64_t)check_ms(timeout_ms) * 1000000;
    while (!condition(arg)) {
        if (check_now_ns() > end) {
            return false;
        }
        check_sleep_ms(1);
    }
    return true;
}

/* ---- The end of a case ------------------------------------------------------------------ */

void check_manage(pid_t pid)
{
    if (managed.owner != getpid()) {
        managed.owner = getpid();
        managed.count = 0;
    }
    if (managed.count == MANAGED) {
        FAIL("more than %d managed processes", MANAGED);
    }
    managed.pids[managed.count++] = pid;
}

void check_unmanage(pid_t pid)
{
    for (int i = 0; managed.owner == getpid() && i < managed.count; i++) {
        if (managed.pids[i] == pid) {
            managed.pids[i] = managed.pids[--managed.count];
            return;
        }
    }
}

static void report_child(const struct check_process *one, void *arg)
{
    (void)arg;
    check_note_failure("the case left a child process: %d (%s), %s", one->pid, one->name,
                       one->state == 'Z' ? "ended but never joined" : "still running");
}

void check_finish(void)
{
    while (managed.owner == getpid() && managed.count > 0) {
        pid_t pid = managed.pids[--managed.count];
        kill(-pid, SIGKILL); /* its group, if it leads one */
        check_kill(pid);
    }
    check_children(report_child, NULL);
}

/* ---- Flags and barriers ----------------------------------------------------------------- */

void *check_shared(size_t size)
{
    void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
        FAIL("mmap of %zu bytes: %s", size, strerror(errno));
    }
    return memory;
}

/* Sleeps while the word has this value; false when the time is over. */
static bool word_wait(_Atomic uint32_t *word, uint32_t value, int timeout_ms)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    int64_t end = (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
    end += (int64_t)check_ms(timeout_ms) * 1000000;
    struct timespec until = {.tv_sec = end / 1000000000, .tv_nsec = end % 1000000000};
    while (atomic_load(word) == value) {
        /* The bit-set form takes an instant instead of a span, on CLOCK_MONOTONIC. */
        long answer = syscall(SYS_futex, word, FUTEX_WAIT_BITSET, value, &until, NULL,
                              FUTEX_BITSET_MATCH_ANY);
        if (answer != 0 && errno == ETIMEDOUT) {
            return atomic_load(word) != value;
        }
    }
    return true;
}

static void word_wake(_Atomic uint32_t *word)
{
    syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

void check_flag_set(struct check_flag *flag)
{
    atomic_store(&flag->set, 1);
    word_wake(&flag->set);
}

bool check_flag_is_set(struct check_flag *flag)
{
    return atomic_load(&flag->set) != 0;
}

void check_flag_wait_at(const char *file, int line, struct check_flag *flag, int timeout_ms)
{
    if (!word_wait(&flag->set, 0, timeout_ms)) {
        check_fail_at(file, line, "the flag is not set after %d ms", check_ms(timeout_ms));
    }
}

void check_barrier_wait_at(const char *file, int line, struct check_barrier *barrier,
                           uint32_t count, int timeout_ms)
{
    uint32_t round = atomic_load(&barrier->round);
    if (atomic_fetch_add(&barrier->arrived, 1) + 1 == count) {
        atomic_store(&barrier->arrived, 0);
        atomic_fetch_add(&barrier->round, 1);
        word_wake(&barrier->round);
        return;
    }
    if (!word_wait(&barrier->round, round, timeout_ms)) {
        check_fail_at(file, line, "%u of %u are at the barrier after %d ms",
                      atomic_load(&barrier->arrived), count, check_ms(timeout_ms));
    }
}

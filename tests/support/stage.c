/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Starting, watching and ending the command; and the job that keeps a diary of being alive.
 *
 * The job is this very program, started with other arguments: a constructor sees them before the
 * harness does. It uses no lock of any kind and writes only its own place of the diary.
 */
#include "stage.h"

#include "check_page.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PULSE_NS 300000
#define BRIEF_NS 20000000

/* ---- Jobs ------------------------------------------------------------------------------- */

static struct stage_pulse *mine;

static void on_term(int number)
{
    int64_t never = 0;
    (void)number;
    if (mine) {
        atomic_compare_exchange_strong(&mine->term_ns, &never, check_now_ns());
    }
}

static void *map_file(const char *path, size_t size, int flags)
{
    int fd = open(path, O_RDWR | O_CLOEXEC | flags, 0644);
    if (fd < 0 || (flags && ftruncate(fd, (off_t)size) < 0)) {
        return NULL;
    }
    void *map = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    return map == MAP_FAILED ? NULL : map;
}

/* For this long; 0: until killed. */
static void pulse(struct stage_diary *diary, int64_t for_ns)
{
    const char *token = getenv("SNIB_TOKEN");
    int number = atomic_fetch_add(&diary->count, 1);
    struct stage_pulse *p = &diary->pulses[number % STAGE_PULSES];
    p->token = token ? strtoull(token, NULL, 10) : 0;
    p->began_ns = check_now_ns();
    atomic_store(&p->last_ns, p->began_ns);
    atomic_store(&p->group, (int)getpgrp());
    mine = p;
    atomic_store(&p->pid, (int)getpid());
    for (;;) {
        struct timespec rest = {.tv_nsec = PULSE_NS};
        int64_t now = check_now_ns();
        int64_t gap = now - atomic_exchange(&p->last_ns, now);
        if (atomic_load(&p->term_ns) && gap > atomic_load(&p->gap_ns)) {
            atomic_store(&p->gap_ns, gap);
        }
        if (for_ns && now - p->began_ns > for_ns) {
            return;
        }
        nanosleep(&rest, NULL);
    }
}

static _Noreturn void be_a_pulse(char *const words[], const char *path)
{
    struct stage_diary *diary = map_file(path, sizeof *diary, 0);
    bool deaf = false, tree = false, brief = false;
    if (!diary) {
        _exit(99);
    }
    for (; *words; words++) {
        deaf |= strcmp(*words, "deaf") == 0 || strcmp(*words, "tree") == 0;
        tree |= strcmp(*words, "tree") == 0 || strcmp(*words, "leaves") == 0;
        brief |= strcmp(*words, "brief") == 0 || strcmp(*words, "leaves") == 0;
    }
    if (deaf) {
        struct sigaction action = {.sa_handler = on_term, .sa_flags = SA_RESTART};
        sigaction(SIGTERM, &action, NULL);
        sigaction(SIGHUP, &action, NULL);
        sigaction(SIGINT, &action, NULL);
    }
    int number = atomic_load(&diary->count);
    if (tree && fork() == 0) {
        pulse(diary, 0);
    }
    while (tree && !atomic_load(&diary->pulses[number].pid)) { /* children first */
        sched_yield();
    }
    pulse(diary, brief ? BRIEF_NS : 0);
    _exit(0);
}

__attribute__((constructor)) static void maybe_a_job(int argc, char *argv[])
{
    if (argc >= 3 && strcmp(argv[1], "--stage-pulse") == 0) {
        be_a_pulse(argv + 3, argv[2]);
    }
}

/* By way of this process, so that a build that replaces the file meanwhile does no harm. */
const char *stage_program(void)
{
    static char path[64];
    snprintf(path, sizeof path, "/proc/%d/exe", getpid());
    return path;
}

struct stage_diary *stage_diary(char path[static 256], const char *name)
{
    snprintf(path, 256, "%s/%s", check_tmpdir(), name);
    struct stage_diary *diary = map_file(path, sizeof *diary, O_CREAT);
    CHECK(diary != NULL);
    return diary;
}

struct beginning {
    const struct actor *actor;
    struct stage_pulse *pulse;
};

static bool has_begun_or_failed(void *arg)
{
    const struct beginning *b = arg;
    return atomic_load(&b->pulse->pid) != 0 || !check_alive(b->actor->pid);
}

struct stage_pulse *stage_await_pulse(const struct actor *actor, struct stage_diary *diary,
                                      int number, int timeout_ms)
{
    struct beginning b = {.actor = actor, .pulse = &diary->pulses[number]};
    if (!check_until(has_begun_or_failed, &b, timeout_ms)) {
        FAIL("job %d did not begin", number);
    }
    if (atomic_load(&b.pulse->pid) == 0) {
        FAIL("job %d did not begin; its command has ended: %s", number,
             actor->err >= 0 ? stage_rest(actor->err, timeout_ms) : "");
    }
    return b.pulse;
}

/* ---- Surroundings ----------------------------------------------------------------------- */

static void clean_environment(void)
{
    static const char *const ours[] = {"SNIB_NAME", "SNIB_TOKEN", "SNIB_TOKENS", "SNIB_HELD"};
    for (size_t i = 0; i < sizeof ours / sizeof ours[0]; i++) {
        unsetenv(ours[i]);
    }
    setenv("HOME", check_tmpdir(), 1);
    setenv("SNIB_MODULES", TEST_MODULE_DIR, 1);
}

void stage_file(void)
{
    char url[300];
    clean_environment();
    snprintf(url, sizeof url, "file://%s/locks", check_tmpdir());
    setenv("SNIB_URL", url, 1);
}

struct fake_state *stage_fake(const char *parameters)
{
    char url[400], path[256];
    clean_environment();
    snprintf(path, sizeof path, "%s/fake", check_tmpdir());
    snprintf(url, sizeof url, "fake://%s?%s", path, parameters);
    setenv("SNIB_URL", url, 1);
    struct fake_state *engine = map_file(path, sizeof *engine, O_CREAT);
    CHECK(engine != NULL);
    return engine;
}

struct fake_state *stage_fake_lease(int ttl_ms)
{
    char parameters[100];
    snprintf(parameters, sizeof parameters, "ttl=%dms&max-lease=5m&timeout=200ms",
             check_ms(ttl_ms));
    return stage_fake(parameters);
}

struct fake_lock *stage_fake_lock(struct fake_state *engine, const char *name)
{
    for (int i = 0; i < FAKE_LOCKS; i++) {
        if (strcmp(engine->locks[i].name, name) == 0) {
            return &engine->locks[i];
        }
    }
    FAIL("the fake engine has no lock '%s'", name);
}

/* ---- Commands --------------------------------------------------------------------------- */

void stage_start(struct actor *actor, const char *const argv[])
{
    int in[2], out[2], err[2];
    CHECK(pipe2(in, O_CLOEXEC) == 0 && pipe2(out, O_CLOEXEC) == 0 && pipe2(err, O_CLOEXEC) == 0);
    fflush(NULL);
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        setpgid(0, 0);
        if (dup2(in[0], 0) == 0 && dup2(out[1], 1) == 1 && dup2(err[1], 2) == 2) {
            execvp(argv[0], (char *const *)(uintptr_t)argv);
        }
        _exit(127);
    }
    setpgid(pid, pid);
    close(in[0]);
    close(out[1]);
    close(err[1]);
    *actor = (struct actor){.pid = pid, .in = in[1], .out = out[0], .err = err[0]};
    check_manage(pid);
}

int stage_end(struct actor *actor, int timeout_ms)
{
    int status = check_wait(actor->pid, timeout_ms);
    if (status == -1) {
        FAIL("the command does not end");
    }
    check_unmanage(actor->pid);
    close(actor->in);
    close(actor->out);
    close(actor->err);
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

static bool readable(int fd, int64_t end_ns)
{
    int64_t left_ms = (end_ns - check_now_ns()) / 1000000;
    struct pollfd one = {.fd = fd, .events = POLLIN};
    return poll(&one, 1, left_ms > 0 ? (int)left_ms : 0) == 1;
}

static const char *read_until(int fd, int timeout_ms, bool line)
{
    static char text[65536];
    size_t used = 0;
    int64_t end_ns = check_now_ns() + (int64_t)check_ms(timeout_ms) * 1000000;
    while (used < sizeof text - 1) {
        if (!readable(fd, end_ns)) {
            text[used] = '\0';
            FAIL("nothing more to read after: %s", text);
        }
        ssize_t n = read(fd, text + used, line ? 1 : sizeof text - 1 - used);
        if (n <= 0) {
            if (line) {
                text[used] = '\0';
                FAIL("the end, but no line after: %s", text);
            }
            break;
        }
        if (line && text[used] == '\n') {
            break;
        }
        used += (size_t)n;
    }
    text[used] = '\0';
    return text;
}

const char *stage_line(int fd, int timeout_ms)
{
    return read_until(fd, timeout_ms, true);
}

const char *stage_rest(int fd, int timeout_ms)
{
    return read_until(fd, timeout_ms, false);
}

/* ---- Processes -------------------------------------------------------------------------- */

static bool is_dead(void *arg)
{
    return !check_alive(*(pid_t *)arg);
}

void stage_await_death(pid_t pid, int timeout_ms)
{
    if (!check_until(is_dead, &pid, timeout_ms)) {
        FAIL("process %d still lives", pid);
    }
}

struct wanted {
    pid_t parent;
    const char *name;
    pid_t found;
};

static bool find_child(void *arg)
{
    struct wanted *wanted = arg;
    wanted->found = stage_child(wanted->parent, wanted->name);
    return wanted->found != 0;
}

pid_t stage_await_child(pid_t parent, const char *name, int timeout_ms)
{
    struct wanted wanted = {.parent = parent, .name = name};
    if (!check_until(find_child, &wanted, timeout_ms)) {
        FAIL("process %d has no child '%s'", parent, name);
    }
    return wanted.found;
}

pid_t stage_supervisor(const struct actor *run, int timeout_ms)
{
    return stage_await_child(run->pid, "job-supervisor", timeout_ms);
}

pid_t stage_command(const struct actor *run, const char *name, int timeout_ms)
{
    return stage_await_child(stage_supervisor(run, timeout_ms), name, timeout_ms);
}

pid_t stage_child(pid_t parent, const char *name)
{
    char path[64], list[4096] = "";
    snprintf(path, sizeof path, "/proc/%d/task/%d/children", parent, parent);
    FILE *file = fopen(path, "re");
    if (!file) {
        return 0;
    }
    size_t n = fread(list, 1, sizeof list - 1, file);
    fclose(file);
    list[n] = '\0';
    for (char *at = list; *at;) {
        pid_t pid = (pid_t)strtol(at, &at, 10);
        struct check_process one;
        if (pid > 0 && check_process_read(pid, &one) && strcmp(one.name, name) == 0 &&
            one.state != 'Z') {
            return pid;
        }
        at += strspn(at, " \n");
    }
    return 0;
}

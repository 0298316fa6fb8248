/*
 * Runs the cases of many test programs side by side and adds up.
 *
 *     runner [-j N] [--timeout S] [--label TEXT] [--slowest] [--without CASE] PROGRAM...
 *
 * Each PROGRAM is one argument, split at spaces: "build/conformance --engine file". It is asked
 * for its cases with --list; then every case is a process of its own, N at a time, with its output
 * in a file that is shown only if the case fails. A PROGRAM that starts with "exec:" is a plain
 * program without cases: it is judged by its exit status (77: skipped).
 *
 * The programs have time limits of their own for each case; --timeout is for the ones that have
 * none, and for a harness that hangs. It is multiplied by SNIB_TEST_SLOW. The runner adopts
 * orphans, gives all cases one TMPDIR, and at the end kills and removes what is left there.
 *
 * Not done: any shell syntax in PROGRAM, and any memory of earlier runs.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { SLOWEST = 5, SHOWN_BYTES = 65536, LIST_LIMIT_MS = 60000, PLAIN_SKIP = 77 };

struct program {
    char *label;
    char *words; /* what argv points into */
    char **argv;
    int argc;
    bool plain;
    int open; /* cases not yet done */
    int passed;
    int failed;
    int skipped;
    int64_t first_start_ms;
};

enum verdict { WAITING, RUNNING, PASSED, FAILED, SKIPPED };

struct task {
    struct program *program;
    char *name; /* "" for a plain program */
    enum verdict verdict;
    pid_t pid;
    int output;
    bool late;
    int64_t start_ms;
    int64_t spent_ms;
};

static struct {
    int jobs;
    int timeout_ms;
    const char *label;
    const char *without; /* a case that is not run */
    bool slowest;
} settings;

static struct program *programs;
static int program_count;
static struct task *tasks;
static int task_count;
static char folder[128];
static sigset_t original_mask;
static sigset_t watched;

/* ---- Small parts ------------------------------------------------------------------------ */

static _Noreturn void give_up(const char *what)
{
    fprintf(stderr, "runner: %s: %s\n", what, strerror(errno));
    exit(2);
}

static void *allocate(void *old, size_t count, size_t size)
{
    void *memory = reallocarray(old, count, size);
    if (memory == NULL) {
        give_up("memory");
    }
    return memory;
}

static char *copy(const char *text)
{
    char *memory = strdup(text);
    if (memory == NULL) {
        give_up("memory");
    }
    return memory;
}

static int64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_BOOTTIME, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static int remove_one(const char *path, const struct stat *status, int kind, struct FTW *where)
{
    (void)status;
    (void)kind;
    (void)where;
    remove(path);
    return 0;
}

static void remove_folder(void)
{
    nftw(folder, remove_one, 16, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
}

/* Kills every child, and so in a few rounds every descendant. Answers how many there were. */
static int sweep(void)
{
    int killed = 0;
    for (int round = 0; round < 1000; round++) {
        pid_t ended;
        while ((ended = waitpid(-1, NULL, WNOHANG)) > 0) {
        }
        if (ended < 0) {
            break;
        }
        DIR *proc = opendir("/proc");
        struct dirent *entry;
        while (proc != NULL && (entry = readdir(proc)) != NULL) {
            char path[300];
            int parent = 0;
            snprintf(path, sizeof path, "/proc/%s/stat", entry->d_name);
            FILE *file =
                entry->d_name[0] >= '1' && entry->d_name[0] <= '9' ? fopen(path, "re") : NULL;
            if (file != NULL && fscanf(file, "%*d (%*[^)]) %*c %d", &parent) == 1 &&
                parent == getpid()) {
                killed += kill((pid_t)strtol(entry->d_name, NULL, 10), SIGKILL) == 0;
            }
            if (file != NULL) {
                fclose(file);
            }
        }
        if (proc != NULL) {
            closedir(proc);
        }
        struct timespec moment = {.tv_nsec = 5000000};
        nanosleep(&moment, NULL);
    }
    return killed;
}

/* ---- Processes -------------------------------------------------------------------------- */

/* A file without a name in the folder of this run. */
static int output_file(void)
{
    int descriptor = open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (descriptor < 0) {
        char path[sizeof folder + 16];
        snprintf(path, sizeof path, "%s/out-XXXXXX", folder);
        descriptor = mkostemp(path, O_CLOEXEC);
        unlink(path);
    }
    if (descriptor < 0) {
        give_up(folder);
    }
    return descriptor;
}

/* The name of the case goes last, but not behind a `--`. */
static char **arguments(const struct program *program, const char *last)
{
    char **argv = allocate(NULL, (size_t)program->argc + 2, sizeof *argv);
    int count = 0;
    for (int i = 0; i < program->argc; i++) {
        if (last != NULL && strcmp(program->argv[i], "--") == 0) {
            argv[count++] = (char *)(uintptr_t)last;
            last = NULL;
        }
        argv[count++] = program->argv[i];
    }
    argv[count] = (char *)(uintptr_t)last;
    argv[count + (last != NULL)] = NULL;
    return argv;
}

static pid_t start(const struct program *program, const char *argument, int output)
{
    char **argv = arguments(program, argument);
    pid_t runner = getpid();
    fflush(NULL);
    pid_t pid = fork();
    if (pid < 0) {
        give_up("fork");
    }
    if (pid > 0) {
        free(argv);
        return pid;
    }
    setsid();
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    int nothing = open("/dev/null", O_RDONLY);
    if (getppid() != runner || dup2(nothing, STDIN_FILENO) < 0 || dup2(output, STDOUT_FILENO) < 0 ||
        dup2(output, STDERR_FILENO) < 0) {
        _exit(126);
    }
    close(nothing);
    sigprocmask(SIG_SETMASK, &original_mask, NULL);
    execv(program->argv[0], argv);
    dprintf(STDERR_FILENO, "cannot run %s: %s\n", program->argv[0], strerror(errno));
    _exit(127);
}

static _Noreturn void interrupted(int signal_number)
{
    sweep();
    remove_folder();
    fprintf(stderr, "runner: ended by signal %d\n", signal_number);
    exit(128 + signal_number);
}

static void await_signal(int64_t until_ms)
{
    int64_t left = until_ms - now_ms();
    if (left <= 0) {
        return;
    }
    struct timespec span = {.tv_sec = left / 1000, .tv_nsec = (left % 1000) * 1000000};
    int got = sigtimedwait(&watched, NULL, &span);
    if (got > 0 && got != SIGCHLD) {
        interrupted(got);
    }
}

/* All of the file, or its last part; to be freed. */
static char *read_output(int output)
{
    struct stat status;
    if (fstat(output, &status) != 0) {
        give_up("output");
    }
    size_t size = status.st_size > SHOWN_BYTES ? SHOWN_BYTES : (size_t)status.st_size;
    char *text = allocate(NULL, size + 1, 1);
    ssize_t got = pread(output, text, size, status.st_size - (off_t)size);
    text[got > 0 ? got : 0] = '\0';
    return text;
}

/* ---- What to run ------------------------------------------------------------------------ */

static void add_task(struct program *program, const char *name)
{
    tasks = allocate(tasks, (size_t)task_count + 1, sizeof *tasks);
    tasks[task_count++] = (struct task){.program = program, .name = copy(name), .output = -1};
    program->open++;
}

static void add_program(const char *text)
{
    struct program *one = &programs[program_count++];
    memset(one, 0, sizeof *one);
    one->plain = strncmp(text, "exec:", 5) == 0;
    text += one->plain ? 5 : 0;
    const char *slash = memrchr(text, '/', strcspn(text, " "));
    one->label = copy(slash != NULL ? slash + 1 : text);
    one->argv = allocate(NULL, strlen(text) / 2 + 3, sizeof *one->argv);
    one->words = copy(text);
    char *rest = one->words;
    for (char *word; (word = strsep(&rest, " ")) != NULL;) {
        if (*word != '\0') {
            one->argv[one->argc++] = word;
        }
    }
    if (one->argc == 0) {
        errno = EINVAL;
        give_up("an empty program name");
    }
}

static void listing_failed(struct program *program, const char *output)
{
    printf("not ok %s: --list failed\n%s", program->label, output);
    program->failed++;
}

static void list_cases(struct program *program)
{
    if (program->plain) {
        add_task(program, "");
        return;
    }
    int output = output_file();
    pid_t pid = start(program, "--list", output);
    int64_t end = now_ms() + LIST_LIMIT_MS;
    int status;
    while (waitpid(pid, &status, WNOHANG) == 0) {
        if (now_ms() > end) {
            kill(-pid, SIGKILL);
        }
        await_signal(now_ms() + 1000);
    }
    char *text = read_output(output);
    close(output);
    if (status != 0) {
        listing_failed(program, text);
    } else {
        char *rest = text;
        for (char *line; (line = strsep(&rest, "\n")) != NULL;) {
            if (*line != '\0' &&
                (settings.without == NULL || strcmp(line, settings.without) != 0)) {
                add_task(program, line);
            }
        }
    }
    free(text);
}

/* ---- Running ---------------------------------------------------------------------------- */

static void print_label(const struct program *program)
{
    if (settings.label != NULL) {
        printf("[%s] ", settings.label);
    }
    fputs(program->label, stdout);
}

static void print_task(const char *verdict, const struct task *task)
{
    printf("%s ", verdict);
    print_label(task->program);
    if (!task->program->plain) {
        printf(" %s", task->name);
    }
}

static void print_program(const struct program *program)
{
    print_label(program);
    printf(": %d passed, %d failed", program->passed, program->failed);
    if (program->skipped > 0) {
        printf(", %d skipped", program->skipped);
    }
    double seconds =
        program->first_start_ms > 0 ? (double)(now_ms() - program->first_start_ms) / 1000 : 0;
    printf(", %.1f s\n", seconds);
}

/* The reason if the output says that the case was skipped; points into `output`. */
static char *skip_reason(const struct task *task, int status, char *output)
{
    if (task->program->plain) {
        return WIFEXITED(status) && WEXITSTATUS(status) == PLAIN_SKIP ? output : NULL;
    }
    char *line = strncmp(output, "skip ", 5) == 0 ? output : strstr(output, "\nskip ");
    if (status != 0 || line == NULL) {
        return NULL;
    }
    line = strstr(line, ": ");
    return line != NULL ? line + 2 : NULL;
}

static bool in_ci(void)
{
    const char *ci = getenv("CI");
    return ci != NULL && strcmp(ci, "true") == 0;
}

/* The program's own verdict and sum are left out: the runner prints them. */
static void print_failed(const struct task *task, int status, char *output)
{
    print_task("not ok", task);
    if (task->late) {
        printf(": killed after %.1f s\n", (double)task->spent_ms / 1000);
    } else if (WIFSIGNALED(status)) {
        printf(": ended by signal %d\n", WTERMSIG(status));
    } else {
        printf(": exit status %d\n", WEXITSTATUS(status));
    }
    for (char *line; (line = strsep(&output, "\n")) != NULL;) {
        int ignored;
        bool repeated = strncmp(line, "not ok ", 7) == 0 ||
                        sscanf(line, "%d passed, %d failed", &ignored, &ignored) == 2;
        if (*line != '\0' && (task->program->plain || !repeated)) {
            puts(line);
        }
    }
}

static void finish(struct task *task, int status)
{
    struct program *program = task->program;
    char *output = read_output(task->output);
    char *reason = skip_reason(task, status, output);
    close(task->output);
    task->spent_ms = now_ms() - task->start_ms;
    if (reason != NULL && !in_ci()) {
        reason[strcspn(reason, "\n")] = '\0';
        task->verdict = SKIPPED;
        program->skipped++;
        print_task("skip", task);
        printf(": %s\n", reason);
    } else if (status == 0 && reason == NULL && !task->late) {
        task->verdict = PASSED;
        program->passed++;
    } else {
        task->verdict = FAILED;
        program->failed++;
        print_failed(task, status, output);
    }
    free(output);
    if (--program->open == 0) {
        print_program(program);
    }
    fflush(stdout);
}

static void launch(struct task *task)
{
    task->verdict = RUNNING;
    task->start_ms = now_ms();
    if (task->program->first_start_ms == 0) {
        task->program->first_start_ms = task->start_ms;
    }
    task->output = output_file();
    task->pid = start(task->program, task->program->plain ? NULL : task->name, task->output);
}

/* Kills what is over its time; answers when to look again. */
static int64_t enforce_limits(int started)
{
    int64_t next = now_ms() + 60000;
    for (int i = 0; i < started; i++) {
        if (tasks[i].verdict != RUNNING || tasks[i].late) {
            continue;
        }
        int64_t end = tasks[i].start_ms + settings.timeout_ms;
        if (now_ms() >= end) {
            tasks[i].late = true;
            kill(-tasks[i].pid, SIGKILL);
        } else if (end < next) {
            next = end;
        }
    }
    return next;
}

static struct task *running_task(pid_t pid, int started)
{
    for (int i = 0; i < started; i++) {
        if (tasks[i].verdict == RUNNING && tasks[i].pid == pid) {
            return &tasks[i];
        }
    }
    return NULL; /* an adopted orphan */
}

static void run_tasks(void)
{
    int started = 0;
    int running = 0;
    while (started < task_count || running > 0) {
        while (started < task_count && running < settings.jobs) {
            launch(&tasks[started++]);
            running++;
        }
        await_signal(enforce_limits(started));
        int status;
        pid_t pid;
        while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
            struct task *task = running_task(pid, started);
            if (task != NULL) {
                finish(task, status);
                running--;
            }
        }
    }
}

/* ---- The program ------------------------------------------------------------------------ */

static int slower(const void *a, const void *b)
{
    const struct task *left = a;
    const struct task *right = b;
    return (left->spent_ms < right->spent_ms) - (left->spent_ms > right->spent_ms);
}

static void print_slowest(void)
{
    qsort(tasks, (size_t)task_count, sizeof *tasks, slower);
    for (int i = 0; i < task_count && i < SLOWEST; i++) {
        print_task("slow", &tasks[i]);
        printf(": %.1f s\n", (double)tasks[i].spent_ms / 1000);
    }
}

static int print_totals(void)
{
    int passed = 0;
    int failed = 0;
    int skipped = 0;
    for (int i = 0; i < program_count; i++) {
        passed += programs[i].passed;
        failed += programs[i].failed;
        skipped += programs[i].skipped;
    }
    printf("%d passed, %d failed", passed, failed);
    if (skipped > 0) {
        printf(", %d skipped", skipped);
    }
    puts("");
    return failed > 0 ? 1 : 0;
}

static int number(const char *text, int most)
{
    char *end;
    long value = text != NULL ? strtol(text, &end, 10) : 0;
    if (text == NULL || *end != '\0' || value < 1 || value > most) {
        fprintf(stderr, "runner: a number from 1 to %d is needed, not '%s'\n", most,
                text != NULL ? text : "");
        exit(2);
    }
    return (int)value;
}

static void parse(int argc, char **argv)
{
    const char *slow = getenv("SNIB_TEST_SLOW");
    int timeout_s = 300;
    settings.jobs = (int)sysconf(_SC_NPROCESSORS_ONLN) + 1;
    programs = allocate(NULL, (size_t)argc, sizeof *programs);
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "-j") == 0) {
            settings.jobs = number(argv[++i], 1000);
        } else if (strcmp(argv[i], "--timeout") == 0) {
            timeout_s = number(argv[++i], 100000);
        } else if (strcmp(argv[i], "--label") == 0 && i + 1 < argc) {
            settings.label = argv[++i];
        } else if (strcmp(argv[i], "--without") == 0 && i + 1 < argc) {
            settings.without = argv[++i];
        } else if (strcmp(argv[i], "--slowest") == 0) {
            settings.slowest = true;
        } else if (argv[i][0] == '-') {
            fprintf(stderr, "usage: runner [-j N] [--timeout S] [--label TEXT] [--slowest] "
                            "[--without CASE] PROGRAM...\n");
            exit(2);
        } else {
            add_program(argv[i]);
        }
    }
    settings.timeout_ms = timeout_s * 1000 * (slow != NULL ? number(slow, 20) : 1);
}

static void prepare(void)
{
    const char *base = getenv("TMPDIR");
    snprintf(folder, sizeof folder, "%s/snib-run-XXXXXX",
             base != NULL && base[0] == '/' ? base : "/tmp");
    if (mkdtemp(folder) == NULL || chmod(folder, 0711) != 0 || setenv("TMPDIR", folder, 1) != 0) {
        give_up(folder);
    }
    if (prctl(PR_SET_CHILD_SUBREAPER, 1) != 0) {
        give_up("prctl");
    }
    signal(SIGCHLD, SIG_DFL);
    sigemptyset(&watched);
    sigaddset(&watched, SIGCHLD);
    sigaddset(&watched, SIGINT);
    sigaddset(&watched, SIGTERM);
    sigaddset(&watched, SIGHUP);
    sigprocmask(SIG_BLOCK, &watched, &original_mask);
}

int main(int argc, char **argv)
{
    parse(argc, argv);
    prepare();
    for (int i = 0; i < program_count; i++) {
        list_cases(&programs[i]);
        if (programs[i].open == 0) {
            print_program(&programs[i]);
        }
    }
    fflush(stdout);
    run_tasks();
    sweep();
    remove_folder();
    if (settings.slowest) {
        print_slowest();
    }
    return print_totals();
}

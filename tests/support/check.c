/*
 * The harness: finds the cases, runs each in a process of its own, judges and reports.
 *
 * The harness process has one thread, never runs test code and adopts every orphan of a case
 * (PR_SET_CHILD_SUBREAPER). So whatever a case starts, in whatever session or process group, is
 * in the end a child of the harness: nothing escapes the clean-up, and "is anything left?" is one
 * waitpid(2). Orphans of a case that went well get a moment to end by themselves, since programs
 * under test may legally have a guardian that goes last; what still runs then is a failure.
 *
 * Not done: running cases of one program side by side (tests/runner does that, with one process
 * per case) and continuing after a failed assertion.
 */
#include "check_page.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { OPTIONS = 32, ORPHAN_GRACE_MS = 3000, SWEEP_LIMIT_MS = 10000, LOG_TAIL_BYTES = 3000 };

static struct check_case *first_case;
static struct check_case **last_case = &first_case;

static struct {
    const char *key;
    const char *value;
} options[OPTIONS];
static int option_count;
static const char *const *rest_arguments;

static struct {
    int passed;
    int failed;
    int skipped;
} totals;

static sigset_t original_mask;
static sigset_t watched;

void check_register(struct check_case *one)
{
    *last_case = one;
    last_case = &one->next;
}

const char *check_option(const char *key)
{
    for (int i = 0; i < option_count; i++) {
        size_t length = strcspn(options[i].key, "=");
        if (strncmp(options[i].key, key, length) == 0 && key[length] == '\0') {
            return options[i].value;
        }
    }
    return NULL;
}

const char *const *check_args(void)
{
    static const char *const none[] = {NULL};
    return rest_arguments != NULL ? rest_arguments : none;
}

/* ---- In the process of the case --------------------------------------------------------- */

static _Noreturn void case_process(const struct check_case *one, pid_t harness)
{
    setsid();
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != harness) {
        _exit(CHECK_EXIT_FAILED);
    }
    sigprocmask(SIG_SETMASK, &original_mask, NULL);
    int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (nothing > STDIN_FILENO) {
        dup2(nothing, STDIN_FILENO);
        close(nothing);
    }
    one->run();
    check_finish();
    exit(0);
}

/* ---- In the harness --------------------------------------------------------------------- */

static int64_t now_ms(void)
{
    return check_now_ns() / 1000000;
}

/* Kills by signal what is left when the harness is told to end. */
static void stop_on_signal(int signal_number);

/* Sleeps until a child may have changed state, or until `end`. */
static void await_child(int64_t end)
{
    int64_t left = end - now_ms();
    if (left <= 0) {
        return;
    }
    struct timespec span = {.tv_sec = left / 1000, .tv_nsec = (left % 1000) * 1000000};
    int got = sigtimedwait(&watched, NULL, &span);
    if (got > 0 && got != SIGCHLD) {
        stop_on_signal(got);
    }
}

/* True when `pid` has ended; also reaps adopted orphans. */
static bool await_end(pid_t pid, int64_t end, int *status)
{
    for (;;) {
        int one_status;
        pid_t ended;
        while ((ended = waitpid(-1, &one_status, WNOHANG)) > 0) {
            if (ended == pid) {
                *status = one_status;
                return true;
            }
        }
        if (now_ms() >= end) {
            return false;
        }
        await_child(end);
    }
}

/* True when no descendant is left. */
static bool await_orphans(int grace_ms)
{
    int64_t end = now_ms() + check_ms(grace_ms);
    for (;;) {
        pid_t ended;
        while ((ended = waitpid(-1, NULL, WNOHANG)) > 0) {
        }
        if (ended < 0 && errno == ECHILD) {
            return true;
        }
        if (now_ms() >= end) {
            return false;
        }
        await_child(end);
    }
}

static void kill_child(const struct check_process *one, void *arg)
{
    (void)arg;
    kill(one->pid, SIGKILL);
}

/* The children of the killed come to us, so this ends with the last of the whole tree. */
static void kill_descendants(void)
{
    int64_t end = now_ms() + SWEEP_LIMIT_MS;
    while (now_ms() < end) {
        check_children(kill_child, NULL);
        if (await_orphans(1)) {
            return;
        }
    }
    printf("  cannot end all processes of the case\n");
}

static void stop_on_signal(int signal_number)
{
    kill_descendants();
    check_remove_tree(check_page->folder);
    signal(signal_number, SIG_DFL);
    sigprocmask(SIG_SETMASK, &original_mask, NULL);
    raise(signal_number);
    exit(1);
}

static void note_orphan(const struct check_process *one, void *arg)
{
    (void)arg;
    check_note_failure("the case left a process behind: %d (%s)", one->pid, one->name);
}

static void make_folder(void)
{
    const char *base = getenv("TMPDIR");
    snprintf(check_page->folder, sizeof check_page->folder, "%s/snib-XXXXXX",
             base != NULL && base[0] == '/' ? base : "/tmp");
    if (mkdtemp(check_page->folder) == NULL || chmod(check_page->folder, 0711) != 0) {
        fprintf(stderr, "cannot make a folder like %s: %s\n", check_page->folder, strerror(errno));
        exit(2);
    }
}

static void print_indented(const char *text)
{
    while (*text != '\0') {
        size_t length = strcspn(text, "\n");
        printf("    %.*s\n", (int)length, text);
        text += length + (text[length] == '\n');
    }
}

static void print_log(const struct check_log *log)
{
    char text[LOG_TAIL_BYTES + 1];
    FILE *file = fopen(log->path, "re");
    if (file == NULL) {
        return;
    }
    if (fseek(file, -LOG_TAIL_BYTES, SEEK_END) != 0) {
        rewind(file);
    }
    text[fread(text, 1, LOG_TAIL_BYTES, file)] = '\0';
    fclose(file);
    printf("  last lines of %s:\n", log->label);
    print_indented(text);
}

static void print_failure(void)
{
    fputs(check_page->text, stdout);
    int count = atomic_load(&check_page->log_count);
    for (int i = 0; i < count && i < CHECK_LOGS; i++) {
        print_log(&check_page->logs[i]);
    }
}

/* Writes what is wrong with the end of the case into its page. Answers whether it was skipped. */
static bool judge(const struct check_case *one, bool ended, int status)
{
    bool skipped = ended && WIFEXITED(status) && WEXITSTATUS(status) == CHECK_EXIT_SKIPPED &&
                   atomic_load(&check_page->skipped) != 0;
    if (!ended) {
        check_note_failure("over its limit of %d s", check_ms(one->limit_seconds));
    } else if (WIFSIGNALED(status)) {
        check_note_failure("ended by signal %d (%s)", WTERMSIG(status),
                           strsignal(WTERMSIG(status)));
    } else if (WEXITSTATUS(status) != 0 && !skipped && !atomic_load(&check_page->failed)) {
        check_note_failure("exited with status %d", WEXITSTATUS(status));
    }
    if (ended && status == 0 && !atomic_load(&check_page->failed) &&
        !await_orphans(ORPHAN_GRACE_MS)) {
        check_children(note_orphan, NULL);
    }
    kill_descendants();
    return skipped;
}

static void report(const struct check_case *one, bool skipped, int64_t spent_ms)
{
    if (atomic_load(&check_page->failed)) {
        totals.failed++;
        printf("not ok %s (%lld ms)\n", one->name, (long long)spent_ms);
        print_failure();
    } else if (skipped) {
        totals.skipped++;
        printf("skip %s: %s\n", one->name, check_page->skip_reason);
    } else {
        totals.passed++;
        printf("ok %s (%lld ms)\n", one->name, (long long)spent_ms);
    }
    fflush(stdout);
}

static void run_case(const struct check_case *one)
{
    memset(check_page, 0, sizeof *check_page);
    make_folder();
    fflush(NULL);
    int64_t start = now_ms();
    pid_t harness = getpid();
    pid_t pid = fork();
    if (pid < 0) {
        fprintf(stderr, "fork: %s\n", strerror(errno));
        exit(2);
    }
    if (pid == 0) {
        case_process(one, harness);
    }
    int status = 0;
    bool ended = await_end(pid, start + check_ms(one->limit_seconds * 1000), &status);
    bool skipped = judge(one, ended, status);
    report(one, skipped, now_ms() - start); /* while the logs are still there */
    check_remove_tree(check_page->folder);
}

/* ---- The program ------------------------------------------------------------------------ */

static bool applies(const struct check_case *one)
{
    return one->applies == NULL || one->applies();
}

static const struct check_case *find_case(const char *name)
{
    for (const struct check_case *one = first_case; one != NULL; one = one->next) {
        if (strcmp(one->name, name) == 0) {
            return one;
        }
    }
    return NULL;
}

static void prepare(void)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    check_page =
        mmap(NULL, sizeof *check_page, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (check_page == MAP_FAILED || prctl(PR_SET_CHILD_SUBREAPER, 1) != 0) {
        perror("test harness");
        exit(2);
    }
    signal(SIGCHLD, SIG_DFL);
    sigemptyset(&watched);
    sigaddset(&watched, SIGCHLD);
    sigaddset(&watched, SIGINT);
    sigaddset(&watched, SIGTERM);
    sigaddset(&watched, SIGHUP);
    sigprocmask(SIG_BLOCK, &watched, &original_mask);
}

static _Noreturn void usage(const char *problem, const char *what)
{
    fprintf(stderr, "%s: %s: %s\nusage: %s [--list] [--KEY VALUE]... [CASE]... [-- ARGUMENT...]\n",
            program_invocation_short_name, problem, what, program_invocation_short_name);
    exit(2);
}

/* Takes the options out of argv and leaves the names of cases in front; answers how many. */
static int parse(int argc, char **argv, bool *list)
{
    int names = 0;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--") == 0) {
            rest_arguments = (const char *const *)argv + i + 1;
            break;
        }
        if (strcmp(argv[i], "--list") == 0) {
            *list = true;
        } else if (strncmp(argv[i], "--", 2) != 0) {
            argv[names++] = argv[i];
        } else {
            const char *equals = strchr(argv[i], '=');
            if (option_count == OPTIONS || (equals == NULL && i + 1 == argc)) {
                usage("this option needs a value", argv[i]);
            }
            options[option_count].key = argv[i] + 2;
            options[option_count++].value = equals != NULL ? equals + 1 : argv[++i];
        }
    }
    return names;
}

static void run_named(char **names, int count)
{
    for (int i = 0; i < count; i++) {
        const struct check_case *one = find_case(names[i]);
        if (one == NULL || !applies(one)) {
            usage(one == NULL ? "no such case" : "this case does not apply here", names[i]);
        }
    }
    for (int i = 0; i < count; i++) {
        run_case(find_case(names[i]));
    }
}

static void run_all(bool only_list)
{
    for (const struct check_case *one = first_case; one != NULL; one = one->next) {
        if (!applies(one)) {
            continue;
        }
        if (only_list) {
            puts(one->name);
        } else {
            run_case(one);
        }
    }
}

/* Whoever started us may have had signals ignored or blocked, as a shell does for what it runs in
 * the background; a case that sends one must not depend on that. */
static void restore_signals(void)
{
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    for (int number = 1; number < SIGRTMIN; number++) {
        struct sigaction now;
        if (sigaction(number, NULL, &now) == 0 && now.sa_handler == SIG_IGN) {
            (void)signal(number, SIG_DFL);
        }
    }
}

int main(int argc, char **argv)
{
    bool list = false;
    restore_signals();
    int names = parse(argc, argv, &list);
    prepare();
    if (names > 0 && !list) {
        run_named(argv, names);
    } else {
        run_all(list);
    }
    if (list) {
        return 0;
    }
    printf("%d passed, %d failed", totals.passed, totals.failed);
    if (totals.skipped > 0) {
        printf(", %d skipped", totals.skipped);
    }
    puts("");
    return totals.failed > 0 ? 1 : 0;
}

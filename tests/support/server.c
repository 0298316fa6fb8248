/*
 * Starting, watching and ending one server process.
 *
 * Between fork and exec the child only makes system calls, because the test may have threads:
 * arguments, environment and user are looked up before. The child sets PR_SET_PDEATHSIG after it
 * has dropped its privileges, which clears that setting, and then looks whether its parent is
 * still there.
 *
 * Every claim of a port is ours alone among tests (port.c), but other programs may take one: on
 * its first start a server that ends before it is ready is tried again on other ports. Later
 * starts keep the ports, because clients know them by then.
 *
 * Not done: supervision. A server that dies later is noticed by the test that talks to it.
 */
#include "server.h"

#include "port.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { FIRST_START_TRIES = 4, FILLED_BYTES = 4096 };

/* ---- What to start ---------------------------------------------------------------------- */

static void claim_ports(struct server *server)
{
    for (int i = 0; i < SERVER_PORTS; i++) {
        server->ports[i] = port_claim();
    }
    server->port = server->ports[0];
}

void server_init(struct server *server, const char *name)
{
    memset(server, 0, sizeof *server);
    snprintf(server->name, sizeof server->name, "%s", name);
    snprintf(server->folder, sizeof server->folder, "%s/%s", check_tmpdir(), name);
    snprintf(server->log, sizeof server->log, "%s/%s.log", check_tmpdir(), name);
    server->stop_signal = SIGTERM;
    server->start_timeout_ms = 30000;
    server->stop_timeout_ms = 10000;
    if (mkdir(server->folder, 0700) != 0) {
        FAIL("mkdir %s: %s", server->folder, strerror(errno));
    }
    claim_ports(server);
    check_show_on_failure(name, server->log);
}

static const char *keep_text(struct server *server, const char *format, va_list arguments)
{
    char *place = server->text + server->text_used;
    size_t space = sizeof server->text - server->text_used;
    int length = vsnprintf(place, space, format, arguments);
    if (length < 0 || (size_t)length >= space) {
        FAIL("the arguments of %s do not fit", server->name);
    }
    server->text_used += (size_t)length + 1;
    return place;
}

void server_argument(struct server *server, const char *format, ...)
{
    va_list arguments;
    if (server->argument_count == SERVER_ARGUMENTS - 1) {
        FAIL("too many arguments for %s", server->name);
    }
    va_start(arguments, format);
    server->arguments[server->argument_count++] = keep_text(server, format, arguments);
    va_end(arguments);
}

void server_variable(struct server *server, const char *format, ...)
{
    va_list arguments;
    if (server->variable_count == SERVER_VARIABLES) {
        FAIL("too many variables for %s", server->name);
    }
    va_start(arguments, format);
    server->variables[server->variable_count++] = keep_text(server, format, arguments);
    va_end(arguments);
}

void server_program(struct server *server, const char *program, const char *package)
{
    const char *path = getenv("PATH");
    char all[4096];
    snprintf(all, sizeof all, "%s:/usr/local/sbin:/usr/sbin:/sbin:/usr/bin",
             path != NULL ? path : "");
    char *rest = all;
    for (char *folder; (folder = strsep(&rest, ":")) != NULL;) {
        char file[4352];
        snprintf(file, sizeof file, "%s%s%s", program[0] == '/' ? "" : folder,
                 program[0] == '/' ? "" : "/", program);
        if (file[0] == '/' && access(file, X_OK) == 0) {
            server_argument(server, "%s", file);
            return;
        }
    }
    SKIP("%s is not installed (Debian package %s)", program, package);
}

void server_user(struct server *server, const char *user)
{
    snprintf(server->user, sizeof server->user, "%s", user != NULL ? user : "nobody");
}

void server_ready_line(struct server *server, const char *text)
{
    server->ready_line = text;
}

void server_ready_when(struct server *server, bool (*ready)(struct server *, void *), void *arg)
{
    server->ready = ready;
    server->ready_arg = arg;
}

/* ---- Filling in ------------------------------------------------------------------------- */

/* What a @WORD@ at the start of `text` stands for; NULL when it is none. */
static const char *placeholder(const struct server *server, const char *text, size_t *length,
                               char number[static 16])
{
    int index = 0;
    if (strncmp(text, "@FOLDER@", 8) == 0) {
        *length = 8;
        return server->folder;
    }
    if (strncmp(text, "@PORT@", 6) == 0) {
        *length = 6;
    } else if (strncmp(text, "@PORT", 5) == 0 && text[5] >= '0' && text[5] < '0' + SERVER_PORTS &&
               text[6] == '@') {
        *length = 7;
        index = text[5] - '0';
    } else {
        return NULL;
    }
    snprintf(number, 16, "%d", server->ports[index]);
    return number;
}

static char *fill_in(const struct server *server, const char *text)
{
    char filled[FILLED_BYTES];
    size_t used = 0;
    while (*text != '\0') {
        char number[16];
        size_t length = 1;
        const char *with = placeholder(server, text, &length, number);
        size_t with_length = with != NULL ? strlen(with) : 1;
        if (used + with_length >= sizeof filled) {
            FAIL("an argument of %s is too long", server->name);
        }
        memcpy(filled + used, with != NULL ? with : text, with_length);
        used += with_length;
        text += length;
    }
    filled[used] = '\0';
    char *copy = strdup(filled);
    CHECK(copy != NULL);
    return copy;
}

static char **fill_arguments(const struct server *server)
{
    char **list = calloc((size_t)server->argument_count + 1, sizeof *list);
    CHECK(list != NULL && server->argument_count > 0);
    for (int i = 0; i < server->argument_count; i++) {
        list[i] = fill_in(server, server->arguments[i]);
    }
    return list;
}

static bool same_name(const char *a, const char *b)
{
    size_t length = strcspn(a, "=");
    return strncmp(a, b, length) == 0 && b[length] == '=';
}

/* Our environment with the server's variables in place of those with the same name. */
static char **fill_environment(const struct server *server)
{
    size_t count = 0;
    while (environ[count] != NULL) {
        count++;
    }
    char **list = calloc(count + (size_t)server->variable_count + 1, sizeof *list);
    CHECK(list != NULL);
    size_t used = 0;
    for (size_t i = 0; i < count; i++) {
        bool replaced = false;
        for (int k = 0; k < server->variable_count; k++) {
            replaced = replaced || same_name(server->variables[k], environ[i]);
        }
        if (!replaced) {
            list[used++] = strdup(environ[i]);
        }
    }
    for (int k = 0; k < server->variable_count; k++) {
        list[used++] = fill_in(server, server->variables[k]);
    }
    return list;
}

static void free_list(char **list)
{
    for (char **one = list; *one != NULL; one++) {
        free(*one);
    }
    free(list);
}

/* ---- Start ------------------------------------------------------------------------------ */

struct launch {
    char **arguments;
    char **environment;
    const char *folder;
    int log;
    bool drop;
    uid_t uid;
    gid_t gid;
    pid_t parent;
};

static _Noreturn void server_process(const struct launch *launch)
{
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    setpgid(0, 0);
    int nothing = open("/dev/null", O_RDONLY);
    bool good = chdir(launch->folder) == 0 && dup2(nothing, STDIN_FILENO) >= 0 &&
                dup2(launch->log, STDOUT_FILENO) >= 0 && dup2(launch->log, STDERR_FILENO) >= 0;
    close_range(3, ~0U, 0);
    if (good && launch->drop) {
        good = setgroups(0, NULL) == 0 && setgid(launch->gid) == 0 && setuid(launch->uid) == 0;
    }
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (good && getppid() == launch->parent) {
        execve(launch->arguments[0], launch->arguments, launch->environment);
    }
    dprintf(STDERR_FILENO, "cannot run %s: %s\n", launch->arguments[0], strerror(errno));
    _exit(127);
}

static void choose_user(struct server *server, struct launch *launch)
{
    if (server->user[0] == '\0' || geteuid() != 0) {
        return;
    }
    const struct passwd *user = getpwnam(server->user);
    if (user == NULL) {
        FAIL("there is no user %s for %s", server->user, server->name);
    }
    launch->drop = true;
    launch->uid = user->pw_uid;
    launch->gid = user->pw_gid;
    if (chown(server->folder, user->pw_uid, user->pw_gid) != 0) {
        FAIL("chown %s: %s", server->folder, strerror(errno));
    }
}

static void launch_process(struct server *server)
{
    struct launch launch = {
        .arguments = fill_arguments(server),
        .environment = fill_environment(server),
        .folder = server->folder,
        .log = open(server->log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644),
        .parent = getpid(),
    };
    if (launch.log < 0) {
        FAIL("%s: %s", server->log, strerror(errno));
    }
    choose_user(server, &launch);
    fflush(NULL);
    server->pid = fork();
    if (server->pid < 0) {
        FAIL("fork: %s", strerror(errno));
    }
    if (server->pid == 0) {
        server_process(&launch);
    }
    setpgid(server->pid, server->pid);
    check_manage(server->pid);
    close(launch.log);
    free_list(launch.arguments);
    free_list(launch.environment);
}

/* ---- Readiness -------------------------------------------------------------------------- */

static off_t log_size(const struct server *server)
{
    struct stat status;
    return stat(server->log, &status) == 0 ? status.st_size : 0;
}

static bool log_has(const struct server *server, off_t from, const char *text)
{
    FILE *file = fopen(server->log, "re");
    if (file == NULL || fseeko(file, from, SEEK_SET) != 0) {
        FAIL("%s: %s", server->log, strerror(errno));
    }
    char *line = NULL;
    size_t room = 0;
    bool found = false;
    while (!found && getline(&line, &room, file) > 0) {
        found = strchr(line, '\n') != NULL && strstr(line, text) != NULL;
    }
    free(line);
    fclose(file);
    return found;
}

static bool is_ready(struct server *server, off_t log_from)
{
    if (server->ready != NULL) {
        return server->ready(server, server->ready_arg);
    }
    if (server->ready_line != NULL) {
        return log_has(server, log_from, server->ready_line);
    }
    int descriptor = port_connect(server->port);
    if (descriptor >= 0) {
        close(descriptor);
    }
    return descriptor >= 0;
}

/* False when the process ended first. */
static bool await_ready(struct server *server, off_t log_from)
{
    int64_t end = check_now_ns() + (int64_t)check_ms(server->start_timeout_ms) * 1000000;
    for (int pause_ms = 2;; pause_ms += pause_ms < 50 ? pause_ms : 0) {
        if (is_ready(server, log_from)) {
            return true;
        }
        if (!check_alive(server->pid)) {
            return false;
        }
        if (check_now_ns() > end) {
            FAIL("%s is not ready after %d ms", server->name, check_ms(server->start_timeout_ms));
        }
        check_sleep_ms(pause_ms);
    }
}

void server_start(struct server *server)
{
    if (server->pid != 0) {
        FAIL("%s runs already", server->name);
    }
    if (gettid() != getpid()) {
        FAIL("%s must be started from the main thread, with which it dies", server->name);
    }
    int tries = server->started_before ? 1 : FIRST_START_TRIES;
    for (int i = 0; i < tries; i++) {
        if (i > 0) {
            claim_ports(server);
        }
        off_t log_from = log_size(server);
        launch_process(server);
        if (await_ready(server, log_from)) {
            server->started_before = true;
            return;
        }
        server_kill(server);
    }
    FAIL("%s ended instead of getting ready", server->name);
}

/* ---- End -------------------------------------------------------------------------------- */

static bool group_gone(void *arg)
{
    struct server *server = arg;
    return kill(-server->pid, 0) != 0 && errno == ESRCH;
}

/* Kills what is left of the group, reaps the leader, waits for the rest. */
void server_kill(struct server *server)
{
    if (server->pid == 0) {
        return;
    }
    kill(-server->pid, SIGKILL);
    check_unmanage(server->pid);
    if (check_wait(server->pid, server->stop_timeout_ms) == -1) {
        FAIL("%s survives SIGKILL", server->name);
    }
    kill(-server->pid, SIGKILL);
    if (!check_until(group_gone, server, server->stop_timeout_ms)) {
        FAIL("%s has left processes in its group", server->name);
    }
    server->pid = 0;
}

static bool leader_gone(void *arg)
{
    struct server *server = arg;
    return !check_alive(server->pid);
}

void server_stop(struct server *server)
{
    if (server->pid == 0) {
        return;
    }
    kill(server->pid, server->stop_signal);
    kill(server->pid, SIGCONT);
    check_until(leader_gone, server, server->stop_timeout_ms);
    server_kill(server);
}

void server_restart(struct server *server)
{
    server_stop(server);
    server_start(server);
}

void server_pause(struct server *server)
{
    CHECK(server->pid != 0);
    kill(-server->pid, SIGSTOP);
    check_stop(server->pid);
}

void server_resume(struct server *server)
{
    CHECK(server->pid != 0);
    kill(-server->pid, SIGCONT);
    check_cont(server->pid);
}

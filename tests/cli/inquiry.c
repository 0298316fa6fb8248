/* SPDX-License-Identifier: Apache-2.0 */
/*
 * snib status, list, break and engines: true about what is there, for people and for programs.
 *
 * Every --json answer of every case is checked against docs/status.schema.json.
 */
#include "capture.h"
#include "check.h"
#include "json_tree.h"

#include <snib.h>

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define PATIENCE_MS 10000

/* ---- Surroundings ----------------------------------------------------------------------- */

static char url[300];

static void prepare(void)
{
    char folder[280];
    snprintf(folder, sizeof folder, "%s/locks", check_tmpdir());
    snprintf(url, sizeof url, "file://%s", folder);
    CHECK_INT(mkdir(folder, 0700), ==, 0);
    setenv("SNIB_URL", url, 1);
    setenv("TERM", "xterm", 1);
    unsetenv("NO_COLOR");
}

/* A process that wants a lock and holds it until told otherwise, or until it has lost it. */
struct holder {
    pid_t pid;
    const char *name, *label;
    int mode;
    unsigned permits;
    bool listens;
    struct check_flag held, leave;
    _Atomic uint64_t token;
    _Atomic int state; /* at the end */
};

static void hold(void *arg)
{
    struct holder *h = arg;
    snib *client;
    snib_lease *lease;
    snib_error error = {0};
    snib_options options = SNIB_OPTIONS;
    options.label = h->label;
    options.mode = h->mode;
    options.permits = h->permits ? h->permits : 1;
    CHECK_OK(snib_open(&client, NULL, &error), error.message);
    CHECK_OK(snib_acquire(&lease, client, h->name, &options, &error), error.message);
    atomic_store(&h->token, snib_token(lease));
    if (h->listens) {
        CHECK_INT(snib_fd(lease), >=, 0);
    }
    check_flag_set(&h->held);
    while (!check_flag_is_set(&h->leave) && snib_state(lease) == SNIB_HELD) {
        check_sleep_ms(2);
    }
    atomic_store(&h->state, snib_state(lease));
    (void)snib_release(&lease, NULL);
    snib_close(client);
}

static struct holder *holder_start(struct holder like)
{
    struct holder *h = check_shared(sizeof *h);
    *h = like;
    h->pid = check_spawn(hold, h);
    return h;
}

static bool holds_or_is_dead(void *arg)
{
    struct holder *h = arg;
    return check_flag_is_set(&h->held) || !check_alive(h->pid);
}

static struct holder *holder_holds(struct holder like)
{
    struct holder *h = holder_start(like);
    CHECK(check_until(holds_or_is_dead, h, PATIENCE_MS));
    CHECK(check_flag_is_set(&h->held));
    return h;
}

static void holder_end(struct holder *h)
{
    check_flag_set(&h->leave);
    check_join(h->pid, PATIENCE_MS);
}

/* ---- What was said ---------------------------------------------------------------------- */

static void says(const char *text, const char *what)
{
    if (!strstr(text, what)) {
        FAIL("'%s' is not in:\n%s", what, text);
    }
}

static void silent_about(const char *text, const char *what)
{
    if (strstr(text, what)) {
        FAIL("'%s' is in:\n%s", what, text);
    }
}

static const char *number(uint64_t n)
{
    static char text[32];
    snprintf(text, sizeof text, "%" PRIu64, n);
    return text;
}

static const char *pid_text(const struct holder *h)
{
    static char text[32];
    snprintf(text, sizeof text, ":%d ", (int)h->pid);
    return text;
}

static struct json_node *read_schema(void)
{
    static char text[32768];
    const char *why;
    int fd = open(TEST_SOURCE_DIR "/docs/status.schema.json", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    CHECK(n > 0 && (size_t)n < sizeof text - 1);
    text[n] = '\0';
    close(fd);
    struct json_node *schema = json_parse(text, &why);
    if (!schema) {
        FAIL("status.schema.json: %s", why);
    }
    return schema;
}

/* The last answer, read and valid. Freed with the next, and by json_of(NULL). */
static const struct json_node *json_of(const struct capture *said)
{
    static struct json_node *document;
    const char *why;
    json_free(document);
    document = NULL;
    if (!said) {
        return NULL;
    }
    struct json_node *schema = read_schema();
    document = json_parse(said->out, &why);
    if (!document) {
        FAIL("%s: %s", why, said->out);
    }
    why = json_invalid(document, schema);
    if (why) {
        FAIL("%s: %s", why, said->out);
    }
    json_free(schema);
    return document;
}

static const char *text_at(const struct json_node *document, const char *path)
{
    const struct json_node *n = json_find(document, path);
    if (!n || !n->text) {
        FAIL("no text at %s", path);
    }
    return n->text;
}

static size_t count_at(const struct json_node *document, const char *path)
{
    const struct json_node *n = json_find(document, path);
    size_t count = 0;
    CHECK(n != NULL && n->type == JSON_ARRAY);
    for (n = n->first; n; n = n->next) {
        count++;
    }
    return count;
}

static bool true_at(const struct json_node *document, const char *path)
{
    const struct json_node *n = json_find(document, path);
    CHECK(n != NULL && n->type == JSON_BOOLEAN);
    return n->boolean;
}

struct wait {
    const char *name;
    size_t waiters;
};

static bool has_waiters(void *arg)
{
    const struct wait *wait = arg;
    const struct capture *said = capture("status", "--json", wait->name);
    return said->status == 0 && count_at(json_of(said), "waiters") == wait->waiters;
}

static void await_waiters(const char *name, size_t waiters)
{
    struct wait wait = {.name = name, .waiters = waiters};
    CHECK(check_until(has_waiters, &wait, PATIENCE_MS));
}

/* ---- status ----------------------------------------------------------------------------- */

TEST(a_free_lock_is_free)
{
    prepare();
    const struct capture *said = capture("status", "report");
    CHECK_INT(said->status, ==, 1);
    says(said->out, "report: free (file://");
    says(said->out, url);
    CHECK_STR(said->err, "");
    said = capture("status", "report", "--json");
    CHECK_INT(said->status, ==, 1);
    const struct json_node *j = json_of(said);
    CHECK_STR(text_at(j, "kind"), "status");
    CHECK_STR(text_at(j, "url"), url);
    CHECK_STR(text_at(j, "name"), "report");
    CHECK(!true_at(j, "held"));
    CHECK_UINT(count_at(j, "holders"), ==, 0);
    CHECK_UINT(count_at(j, "waiters"), ==, 0);
    json_of(NULL);
}

TEST(a_held_lock_shows_its_holder)
{
    prepare();
    struct holder *h = holder_holds((struct holder){.name = "report", .label = "nightly \"ß\""});
    const struct capture *said = capture("status", "report");
    CHECK_INT(said->status, ==, 0);
    says(said->out, "report: held (file://");
    says(said->out, pid_text(h));
    says(said->out, number(atomic_load(&h->token)));
    says(said->out, "nightly \"ß\"");
    says(said->out, "exclusive");
    silent_about(said->out, "waits");
    silent_about(said->out, "stopped");
    said = capture("status", "--json", "report");
    CHECK_INT(said->status, ==, 0);
    const struct json_node *j = json_of(said);
    CHECK(true_at(j, "held"));
    CHECK_UINT(count_at(j, "holders"), ==, 1);
    CHECK_STR(text_at(j, "holders.0.token"), number(atomic_load(&h->token)));
    CHECK_STR(text_at(j, "holders.0.label"), "nightly \"ß\"");
    CHECK_STR(text_at(j, "holders.0.mode"), "exclusive");
    CHECK(!true_at(j, "holders.0.stopped"));
    CHECK_INT(atoll(text_at(j, "holders.0.age_ms")), <, 60000);
    json_of(NULL);
    holder_end(h);
    CHECK_INT(capture("status", "report")->status, ==, 1);
}

TEST(waiters_are_shown_in_their_order)
{
    prepare();
    struct holder *h = holder_holds((struct holder){.name = "report", .label = "first"});
    struct holder *second = holder_start((struct holder){.name = "report", .label = "second"});
    await_waiters("report", 1);
    struct holder *third = holder_start((struct holder){.name = "report", .label = "third"});
    await_waiters("report", 2);
    const struct capture *said = capture("status", "report");
    CHECK_INT(said->status, ==, 0);
    says(said->out, "report: held, 2 waiting");
    const char *one = strstr(said->out, "waits 1"), *two = strstr(said->out, "waits 2");
    CHECK(one != NULL && two != NULL && one < two);
    CHECK(strstr(one, "second") != NULL && strstr(one, "second") < two);
    says(two, "third");
    const struct json_node *j = json_of(capture("status", "--json", "report"));
    CHECK_STR(text_at(j, "waiters.0.label"), "second");
    CHECK_STR(text_at(j, "waiters.0.place"), "1");
    CHECK_STR(text_at(j, "waiters.1.label"), "third");
    CHECK_STR(text_at(j, "waiters.1.place"), "2");
    json_of(NULL);
    holder_end(h);
    holder_end(second);
    holder_end(third);
}

TEST(a_killed_holder_is_not_shown_again)
{
    prepare();
    struct holder *h = holder_holds((struct holder){.name = "report", .label = "victim"});
    check_kill(h->pid);
    const struct capture *said = capture("status", "report");
    CHECK_INT(said->status, ==, 1);
    says(said->out, "report: free");
    silent_about(said->out, "victim");

    h = holder_holds((struct holder){.name = "report", .label = "victim"});
    uint64_t token = atomic_load(&h->token);
    struct holder *next = holder_start((struct holder){.name = "report", .label = "heir"});
    await_waiters("report", 1);
    check_kill(h->pid);
    silent_about(capture("status", "report")->out, "victim");
    check_flag_wait(&next->held, PATIENCE_MS);
    said = capture("status", "report");
    CHECK_INT(said->status, ==, 0);
    says(said->out, "heir");
    says(said->out, pid_text(next));
    CHECK_UINT(atomic_load(&next->token), >, token);
    silent_about(said->out, "waiting");
    holder_end(next);
}

TEST(a_stopped_holder_is_called_stopped)
{
    prepare();
    struct holder *h = holder_holds((struct holder){.name = "report", .label = "asleep"});
    struct holder *next = holder_start((struct holder){.name = "report", .label = "heir"});
    await_waiters("report", 1);
    check_stop(h->pid);
    const struct capture *said = capture("status", "report");
    CHECK_INT(said->status, ==, 0);
    says(said->out, "stopped");
    says(said->out, pid_text(h));
    says(said->out, "held, 1 waiting");
    const struct json_node *j = json_of(capture("status", "--json", "report"));
    CHECK(true_at(j, "holders.0.stopped"));
    CHECK(!true_at(j, "waiters.0.stopped"));
    says(capture("list")->out, "stopped");
    check_cont(h->pid);
    silent_about(capture("status", "report")->out, "stopped");
    json_of(NULL);
    holder_end(h);
    holder_end(next);
}

TEST(shared_and_counted_locks_show_all_who_have_a_part)
{
    prepare();
    struct holder shared = {.name = "map", .label = "reader", .mode = SNIB_SHARED};
    struct holder counted = {.name = "pool", .label = "", .mode = SNIB_COUNTED, .permits = 3};
    struct holder *all[] = {holder_holds(shared), holder_holds(shared), holder_holds(counted),
                            holder_holds(counted)};
    const struct capture *said = capture("status", "map");
    CHECK_INT(said->status, ==, 0);
    says(said->out, "map: held by 2 (");
    says(said->out, pid_text(all[0]));
    says(said->out, pid_text(all[1]));
    said = capture("status", "pool");
    CHECK_INT(said->status, ==, 0);
    says(said->out, "pool: held, 2 of 3 permits (");
    const struct json_node *j = json_of(capture("status", "--json", "pool"));
    CHECK_STR(text_at(j, "permits"), "3");
    CHECK_STR(text_at(j, "holders.1.mode"), "counted");
    json_of(NULL);
    said = capture("list");
    says(said->out, " +1 ");
    says(said->out, "counted 2/3");
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        holder_end(all[i]);
    }
}

/* ---- list ------------------------------------------------------------------------------- */

TEST(list_shows_what_is_in_use_by_name)
{
    prepare();
    const struct capture *said = capture("list");
    CHECK_INT(said->status, ==, 0);
    says(said->out, "0 locks in use (file://");
    CHECK_STR(capture("list", "--names")->out, "");
    CHECK_UINT(count_at(json_of(capture("list", "--json")), "locks"), ==, 0);

    struct holder *b = holder_holds((struct holder){.name = "job b", .label = "second"});
    struct holder *a = holder_holds((struct holder){.name = "job/a", .label = "first"});
    struct holder *other = holder_holds((struct holder){.name = "other", .label = ""});
    struct holder *waits = holder_start((struct holder){.name = "other", .label = ""});
    await_waiters("other", 1);
    CHECK_STR(capture("list", "--names")->out, "job b\njob/a\nother\n");
    CHECK_STR(capture("list", "--names", "job")->out, "job b\njob/a\n");
    CHECK_STR(capture("list", "--names", "x")->out, "");
    said = capture("list");
    says(said->out, "3 locks in use (file://");
    says(said->out, pid_text(a));
    says(said->out, "WAITING");
    said = capture("list", "job/");
    says(said->out, "1 lock in use");
    silent_about(said->out, "WAITING");
    silent_about(said->out, "other");
    const struct json_node *j = json_of(capture("list", "--json"));
    CHECK_STR(text_at(j, "prefix"), "");
    CHECK_UINT(count_at(j, "locks"), ==, 3);
    CHECK_STR(text_at(j, "locks.1.name"), "job/a");
    CHECK_STR(text_at(j, "locks.1.holders.0.label"), "first");
    CHECK_UINT(count_at(j, "locks.2.waiters"), ==, 1);
    json_of(NULL);
    holder_end(a);
    holder_end(b);
    holder_end(other);
    holder_end(waits);
    CHECK_STR(capture("list", "--names")->out, "");
}

/* ---- doctor ----------------------------------------------------------------------------- */

TEST(doctor_says_where_it_locks_and_what_is_promised)
{
    prepare();
    const struct capture *said = capture("doctor");
    CHECK_INT(said->status, <=, 1);
    says(said->out, "(SNIB_URL)");
    says(said->out, "directory");
    says(said->out, "promise");
    says(said->out, "at-once");
    const struct json_node *j = json_of(capture("doctor", "--json"));
    CHECK_STR(text_at(j, "origin"), "SNIB_URL");
    CHECK_UINT(count_at(j, "findings"), >=, 1);
    json_of(NULL);
}

TEST(doctor_takes_a_url_and_refuses_two)
{
    prepare();
    CHECK_INT(capture("doctor", getenv("SNIB_URL"))->status, <=, 1);
    const struct capture *said = capture("doctor", "-U", "file:", "file:");
    CHECK_INT(said->status, ==, 64);
    says(said->err, "second URL");
    said = capture("doctor", "-U", "file:", "redis://:hush@h");
    CHECK_INT(said->status, ==, 64);
    CHECK(!strstr(said->err, "hush"));
}

TEST(status_names_the_directory_behind_the_default)
{
    prepare();
    const struct capture *said = capture("status", "-U", "file:", "no-such-lock");
    CHECK_INT(said->status, ==, 1);
    says(said->out, "file:///");
}

/* ---- break ------------------------------------------------------------------------------ */

TEST(break_without_yes_shows_and_does_nothing)
{
    prepare();
    struct holder *h =
        holder_holds((struct holder){.name = "report", .label = "x", .listens = true});
    const struct capture *said = capture("break", "report");
    CHECK_INT(said->status, ==, 75);
    says(said->out, pid_text(h));
    says(said->out, number(atomic_load(&h->token)));
    says(said->err, "snib: not broken");
    says(said->err, "--yes");
    said = capture("break", "report", "--json");
    CHECK_INT(said->status, ==, 75);
    CHECK_STR(text_at(json_of(said), "outcome"), "asked");
    CHECK_STR(said->err, "");
    json_of(NULL);
    CHECK_INT(capture("status", "report")->status, ==, 0);
    holder_end(h);
    CHECK_INT(atomic_load(&h->state), ==, SNIB_HELD);
}

TEST(break_of_a_holder_that_listens_takes_it_away)
{
    prepare();
    struct holder like = {.name = "report", .label = "x", .listens = true};
    struct holder *h = holder_holds(like);
    const struct capture *said = capture("break", "report", "--yes");
    CHECK_INT(said->status, ==, 0);
    says(said->out, pid_text(h));
    says(said->out, "broken\n");
    CHECK_STR(said->err, "");
    check_join(h->pid, PATIENCE_MS);
    CHECK_INT(atomic_load(&h->state), ==, SNIB_LOST);
    CHECK_INT(capture("status", "report")->status, ==, 1);

    h = holder_holds(like);
    said = capture("break", "--json", "--yes", "--token", number(atomic_load(&h->token)), "report");
    CHECK_INT(said->status, ==, 0);
    CHECK_STR(text_at(json_of(said), "outcome"), "broken");
    CHECK_UINT(count_at(json_of(said), "holders"), ==, 1);
    json_of(NULL);
    check_join(h->pid, PATIENCE_MS);
}

TEST(break_of_a_holder_that_does_not_listen_names_the_process)
{
    char process[32];
    prepare();
    struct holder *h = holder_holds((struct holder){.name = "report", .label = "deaf"});
    snprintf(process, sizeof process, "%d", (int)h->pid);
    const struct capture *said = capture("break", "report", "--yes");
    CHECK_INT(said->status, ==, 75);
    says(said->err, "snib: ");
    says(said->err, process);
    said = capture("break", "report", "--yes", "--json");
    CHECK_INT(said->status, ==, 75);
    const struct json_node *j = json_of(said);
    CHECK_STR(text_at(j, "outcome"), "refused");
    says(text_at(j, "reason"), process);
    json_of(NULL);
    holder_end(h);
    CHECK_INT(atomic_load(&h->state), ==, SNIB_HELD);
}

TEST(break_spares_whom_it_was_not_meant_for)
{
    prepare();
    const struct capture *said = capture("break", "--yes", "report");
    CHECK_INT(said->status, ==, 1);
    says(said->out, "report: free");
    CHECK_STR(text_at(json_of(capture("break", "report", "--json")), "outcome"), "gone");
    struct holder *h =
        holder_holds((struct holder){.name = "report", .label = "x", .listens = true});
    said = capture("break", "--yes", "--token", number(atomic_load(&h->token) - 1), "report");
    CHECK_INT(said->status, ==, 1);
    says(said->err, "does not hold it");
    CHECK_INT(capture("status", "report")->status, ==, 0);
    json_of(NULL);
    holder_end(h);
    CHECK_INT(atomic_load(&h->state), ==, SNIB_HELD);
}

/* Once is enough, although a job that has just begun does not listen yet. */
TEST(break_makes_snib_run_stop_its_command)
{
    char name[] = "report";
    char path[300], said[400] = "";
    struct wait nobody = {.name = name, .waiters = 0};
    prepare();
    snprintf(path, sizeof path, "%s/said", check_tmpdir());
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        int file = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
        dup2(file, STDERR_FILENO);
        execl(CAPTURE_SNIB, "snib", "run", name, "sleep", "60", (char *)NULL);
        _exit(127);
    }
    check_manage(pid);
    CHECK(check_until(has_waiters, &nobody, PATIENCE_MS));
    CHECK_INT(capture("break", "--yes", name)->status, ==, 0);
    int status = check_wait(pid, PATIENCE_MS);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 79);
    CHECK_INT(capture("status", name)->status, ==, 1);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    CHECK(read(fd, said, sizeof said - 1) > 0);
    close(fd);
    says(said, " by "); /* whoever broke it */
    json_of(NULL);
}

/* ---- engines, help, mistakes ------------------------------------------------------------ */

TEST(engines_are_told_with_what_they_promise)
{
    const struct capture *said = capture("engines");
    CHECK_INT(said->status, ==, 0);
    says(said->out, "file:");
    says(said->out, "installed");
    says(said->out, "promise");
    says(said->out, "fair");
    says(said->out, "layout=redisson: ");
    const struct json_node *j = json_of(capture("engines", "--json"));
    CHECK_STR(text_at(j, "engines.0.scheme"), "file");
    CHECK(true_at(j, "engines.0.installed"));
    CHECK_STR(text_at(j, "engines.0.traits.0"), "fair");
    for (size_t i = 0; i < count_at(j, "engines"); i++) {
        char path[64];
        const snib_engine_info *info = snib_engine_at(i);
        CHECK(info != NULL);
        snprintf(path, sizeof path, "engines.%zu.missing", i);
        CHECK_STR(text_at(j, path), info->missing);
    }
    json_of(NULL);
}

TEST(help_fits_a_screen)
{
    static const char *const commands[] = {"status", "list", "break", "guard", "engines", "doctor"};
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++) {
        const struct capture *said = capture(commands[i], "--help");
        CHECK_INT(said->status, ==, 0);
        CHECK_STR(said->err, "");
        says(said->out, "usage: snib ");
        says(said->out, "Status: ");
        int lines = 0;
        for (const char *at = said->out; *at; at += strcspn(at, "\n") + 1, lines++) {
            CHECK_UINT(strcspn(at, "\n"), <=, 80);
        }
        CHECK_INT(lines, <, 24);
        char *text = strdup(said->out);
        CHECK_STR(capture(commands[i], "-h")->out, text);
        free(text);
    }
}

TEST(mistakes_are_named)
{
    static const struct {
        const char *argv[5];
        const char *says;
    } mistakes[] = {
        {{"status"}, "no lock named"},
        {{"status", "a", "b"}, "'b' is too much"},
        {{"status", "--jsn", "a"}, "did you mean --json?"},
        {{"status", "--yes", "a"}, "unknown option --yes"},
        {{"status", "-x", "a"}, "unknown option -x"},
        {{"status", "-U"}, "wants a value"},
        {{"status", "-U", "nonsense:", "a"}, "nonsense"},
        {{"status", "a\nb"}, "control character"},
        {{"list", "--name"}, NULL}, /* getopt knows what is meant */
        {{"list", "--names", "--json"}, "exclude each other"},
        {{"list", "a", "b"}, "'b' is too much"},
        {{"break", "--token", "0x1f", "a"}, "'0x1f' is not a token"},
        {{"break", "--token", "", "a"}, "is not a token"},
        {{"break", "--token", "18446744073709551616", "a"}, "is not a token"},
        {{"engines", "--url", "file:"}, "unknown option --url"},
        {{"engines", "x"}, "'x' is too much"},
        {{"stats", "x"}, "did you mean 'status'?"},
        {{"doctor", "nonsense"}, "snib: doctor: URL 'nonsense': "},
    };
    prepare();
    for (size_t i = 0; i < sizeof mistakes / sizeof mistakes[0]; i++) {
        const char *argv[8] = {CAPTURE_SNIB};
        memcpy(argv + 1, mistakes[i].argv, sizeof mistakes[i].argv);
        const struct capture *said = capture_command(argv);
        if (!mistakes[i].says) {
            CHECK_INT(said->status, ==, 0);
            continue;
        }
        CHECK_STR(said->out, "");
        says(said->err, "snib: ");
        says(said->err, mistakes[i].says);
        CHECK_INT(said->status, ==, 64);
        CHECK(strchr(said->err, '\n') == strrchr(said->err, '\n'));
    }
}

TEST(an_engine_that_cannot_be_used_is_69)
{
    char bad[400];
    prepare();
    snprintf(bad, sizeof bad, "%s/open", check_tmpdir());
    CHECK_INT(mkdir(bad, 0700), ==, 0);
    CHECK_INT(chmod(bad, 0777), ==, 0);
    snprintf(bad, sizeof bad, "file://%s/open", check_tmpdir());
    const struct capture *said = capture("status", "-U", bad, "report");
    CHECK_INT(said->status, ==, 69);
    says(said->err, "open");
    CHECK_INT(capture("list", "--url", bad)->status, ==, 69);
    CHECK_INT(capture("break", "--url", bad, "a")->status, ==, 69);
}

TEST(an_answer_that_cannot_be_written_is_an_error)
{
    static const char *const commands[] = {
        "status x",       "status --json x", "list",        "engines",
        "engines --json", "break x",         "list --help",
    };
    prepare();
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++) {
        char line[400];
        snprintf(line, sizeof line, "exec %s %s >/dev/full", CAPTURE_SNIB, commands[i]);
        const struct capture *said = capture_command((const char *const[]){"sh", "-c", line, NULL});
        CHECK_INT(said->status, ==, 70);
        says(said->err, "cannot write");
    }
}

TEST(colour_is_for_terminals_that_want_it)
{
    const char *const argv[] = {CAPTURE_SNIB, "status", "report", NULL};
    prepare();
    silent_about(capture_command(argv)->out, "\033");
    says(capture_on_terminal(argv)->out, "\033[32mfree\033[0m");
    setenv("NO_COLOR", "1", 1);
    silent_about(capture_on_terminal(argv)->out, "\033");
    unsetenv("NO_COLOR");
    setenv("TERM", "dumb", 1);
    silent_about(capture_on_terminal(argv)->out, "\033");
}

TEST(looking_takes_nothing_and_leaves_nothing)
{
    char line[400];
    prepare();
    (void)capture("status", "report");
    (void)capture("list");
    (void)capture("break", "--yes", "report");
    snprintf(line, sizeof line, "ls -A %s/locks", check_tmpdir());
    CHECK_STR(capture_command((const char *const[]){"sh", "-c", line, NULL})->out, "");
}

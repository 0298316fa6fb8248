/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The options of `run` and `hold`: flock(1)'s with flock's meanings, and snib's own.
 *
 * Options end at NAME, as with flock: what follows belongs to the command. A crontab line moves
 * from `flock` to `snib run` unchanged, but for the forms that cannot mean the same (a descriptor
 * number, -u, -F): those are refused with a sentence on what to write instead.
 *
 * A URL may hold a password, and everybody may read another's arguments. It is hidden where it
 * stands before anything else is done with it.
 */
#include "options.h"

#include "command.h"
#include "guess.h"
#include "say.h"
#include "traits.h"
#include "value.h"

#include <paths.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define GRACE_MOST_MS (3600LL * 1000)

enum {
    TTL = 256,
    PERMITS,
    ALSO,
    LABEL,
    MIN_HOLD,
    MAX_HOLD,
    GRACE,
    ON_LOST,
    REQUIRE,
    RETRY,
    JSON,
    HELP
};

#define SHORT_OPTIONS "+:nsxeoFucw:E:U:vhV"

static const struct option known[] = {
    {"nonblock", no_argument, NULL, 'n'},
    {"nonblocking", no_argument, NULL, 'n'},
    {"nb", no_argument, NULL, 'n'},
    {"wait", required_argument, NULL, 'w'},
    {"timeout", required_argument, NULL, 'w'},
    {"shared", no_argument, NULL, 's'},
    {"exclusive", no_argument, NULL, 'x'},
    {"conflict-exit-code", required_argument, NULL, 'E'},
    {"close", no_argument, NULL, 'o'},
    {"no-fork", no_argument, NULL, 'F'},
    {"unlock", no_argument, NULL, 'u'},
    {"url", required_argument, NULL, 'U'},
    {"verbose", no_argument, NULL, 'v'},
    {"ttl", required_argument, NULL, TTL},
    {"permits", required_argument, NULL, PERMITS},
    {"also", required_argument, NULL, ALSO},
    {"label", required_argument, NULL, LABEL},
    {"min-hold", required_argument, NULL, MIN_HOLD},
    {"max-hold", required_argument, NULL, MAX_HOLD},
    {"grace", required_argument, NULL, GRACE},
    {"on-lost", required_argument, NULL, ON_LOST},
    {"require", required_argument, NULL, REQUIRE},
    {"retry", no_argument, NULL, RETRY},
    {"json", no_argument, NULL, JSON},
    {"help", no_argument, NULL, HELP},
    {"version", no_argument, NULL, 'V'},
    {NULL, 0, NULL, 0},
};

static const char run_help[] =
    "usage: snib run [OPTIONS] NAME [--] COMMAND [ARGUMENT...]\n"
    "       snib run [OPTIONS] NAME -c 'SHELL COMMAND'\n"
    "\n"
    "  -n, --nonblock         do not wait: exit with 75 if it is held\n"
    "  -w, --wait SECONDS     wait at most this long, then exit with 75\n"
    "  -E, --conflict-exit-code N    exit with N instead of 75\n"
    "  -s, --shared           share it with others who do (-x, --exclusive: do not)\n"
    "      --permits N        up to N may hold it\n"
    "      --also NAME        this lock too, all or none; may be given again\n"
    "  -U, --url URL          the engine: file:, redis://HOST, ...\n"
    "      --ttl TIME         freed when snib falls silent for this long (30s)\n"
    "      --min-hold TIME    hold it at least this long (--max-hold: at most)\n"
    "      --on-lost WHAT     stop COMMAND when the lock is lost: kill, term, ignore\n"
    "      --grace TIME       from TERM to the end of the lease\n"
    "      --label TEXT       tell others why it is held\n"
    "      --require TRAIT,.. refuse an engine that does not promise this\n"
    "      --retry            wait for a server that cannot be reached yet\n"
    "  -v, --verbose          say what happens\n"
    "\n"
    "Status: COMMAND's own, 128+signal; 64 usage, 69 engine, 70 internal, 75 not\n"
    "acquired, 79 lost and stopped, 80 lost or not is unknown, 126 and 127 not run.\n";

static const char hold_help[] =
    "usage: snib hold [OPTIONS] NAME\n"
    "       snib hold [OPTIONS] --json [NAME]\n"
    "Acquires NAME, prints the token, and holds until stdin closes, the parent dies\n"
    "or a signal comes.\n"
    "\n"
    "  -n, --nonblock         do not wait: exit with 75 if it is held\n"
    "  -w, --wait SECONDS     wait at most this long, then exit with 75\n"
    "  -E, --conflict-exit-code N    exit with N instead of 75\n"
    "  -s, --shared           share it with others who do (-x, --exclusive: do not)\n"
    "      --permits N        up to N may hold it\n"
    "      --also NAME        this lock too, all or none; may be given again\n"
    "  -U, --url URL          the engine: file:, redis://HOST, ...\n"
    "      --ttl TIME         freed when snib falls silent for this long (30s)\n"
    "      --max-hold TIME    hold it at most this long\n"
    "      --label TEXT       tell others why it is held\n"
    "      --require TRAIT,.. refuse an engine that does not promise this\n"
    "      --retry            wait for a server that cannot be reached yet\n"
    "      --json             any number of locks: commands on stdin, events on stdout\n"
    "  -v, --verbose          say what happens\n"
    "\n"
    "Status: 0; 64 usage, 69 engine, 70 internal, 75 not acquired, 79 lost.\n";

/* ---- Complaints ------------------------------------------------------------------------- */

int options_complain(int answer, char *const argv[], const struct option table[])
{
    const char *typed = argv[optind - 1];
    if (answer == ':') {
        return fail(STATUS_USAGE, "option %.*s wants a value", (int)strcspn(typed, "="), typed);
    }
    bool valued = strncmp(typed, "--", 2) == 0 && strchr(typed, '=');
    if (optopt && !valued) {
        return fail(STATUS_USAGE, "unknown option -%c", optopt);
    }
    const char *words[64] = {NULL};
    char word[64];
    for (size_t i = 0; i < 63 && table[i].name; i++) {
        words[i] = table[i].name;
    }
    (void)snprintf(word, sizeof word, "%.*s", (int)strcspn(typed, "="), typed);
    const char *meant = guess(word + strspn(word, "-"), words);
    if (optopt) {
        return fail(STATUS_USAGE, "option %s takes no value", word);
    }
    if (meant) {
        return fail(STATUS_USAGE, "unknown option %s; did you mean --%s?", word, meant);
    }
    return fail(STATUS_USAGE, "unknown option %s", word);
}

static int bad_duration(const char *option, const char *text)
{
    return fail(STATUS_USAGE, "%s: '%s' is not a time such as 500ms, 30s or 5m", option, text);
}

/* ---- One option ------------------------------------------------------------------------- */

static int set_mode(struct options *o, int mode)
{
    if (o->lock.mode == SNIB_COUNTED) {
        return fail(STATUS_USAGE, "--permits goes with neither -s nor -x");
    }
    o->lock.mode = mode;
    return 0;
}

static int flock_option(struct options *o, int answer)
{
    unsigned code;
    switch (answer) {
    case 'n':
        o->lock.wait_ms = 0;
        return 0;
    case 's':
        return set_mode(o, SNIB_SHARED);
    case 'x':
    case 'e':
        return set_mode(o, SNIB_EXCLUSIVE);
    case 'o': /* descriptors of the lock are never passed on */
        return 0;
    case 'w':
        if (!value_seconds_ms(&o->lock.wait_ms, optarg)) {
            return fail(STATUS_USAGE, "-w: '%s' is not a time such as 5, 0.5 or 10m", optarg);
        }
        return 0;
    case 'E':
        if (!value_count(&code, optarg, 0, 255)) {
            return fail(STATUS_USAGE, "-E: '%s' is not 0 to 255", optarg);
        }
        o->busy_status = (int)code;
        return 0;
    case 'F':
        return fail(STATUS_USAGE, "-F: snib must stay to keep the lock and to stop the command");
    case 'c':
        return fail(STATUS_USAGE, "-c comes behind NAME: snib run NAME -c 'SHELL COMMAND'");
    default:
        return fail(STATUS_USAGE, "-u: a lock is free when its `snib run` or `snib hold` ends");
    }
}

static int duration(int64_t *out, const char *option)
{
    return value_duration_ms(out, optarg) ? 0 : bad_duration(option, optarg);
}

static int set_permits(struct options *o)
{
    if (!value_count(&o->lock.permits, optarg, 1, 1000)) {
        return fail(STATUS_USAGE, "--permits: '%s' is not 1 to 1000", optarg);
    }
    if (o->lock.mode == SNIB_SHARED) {
        return fail(STATUS_USAGE, "--permits goes with neither -s nor -x");
    }
    o->lock.mode = SNIB_COUNTED;
    return 0;
}

static int set_on_lost(struct options *o)
{
    static const char *const words[] = {"kill", "term", "ignore", NULL};
    for (int i = 0; words[i]; i++) {
        if (strcmp(optarg, words[i]) == 0) {
            o->on_lost = (enum on_lost)i;
            return 0;
        }
    }
    return fail(STATUS_USAGE, "--on-lost: '%s' is not kill, term or ignore", optarg);
}

static int own_option(struct options *o, int answer)
{
    int rc;
    switch (answer) {
    case 'U':
        return client_take_url(&o->url, optarg);
    case 'v':
        tell_all(true);
        return 0;
    case TTL:
        rc = duration(&o->lock.ttl_ms, "--ttl");
        return rc == 0 && o->lock.ttl_ms == 0 ? bad_duration("--ttl", optarg) : rc;
    case PERMITS:
        return set_permits(o);
    case ALSO:
        o->names[o->name_count++] = optarg;
        return 0;
    case LABEL:
        o->lock.label = optarg;
        return 0;
    case RETRY:
        o->lock.flags |= SNIB_RETRY;
        return 0;
    case MIN_HOLD:
        return duration(&o->min_hold_ms, "--min-hold");
    case MAX_HOLD:
        rc = duration(&o->lock.max_hold_ms, "--max-hold");
        return rc == 0 && o->lock.max_hold_ms == 0 ? bad_duration("--max-hold", optarg) : rc;
    case GRACE:
        rc = duration(&o->grace_ms, "--grace");
        if (rc == 0 && o->grace_ms > GRACE_MOST_MS) {
            return fail(STATUS_USAGE, "--grace: '%s' is more than 1h", optarg);
        }
        return rc;
    case ON_LOST:
        return set_on_lost(o);
    case JSON:
        o->json = true;
        return 0;
    default:
        return traits_read(&o->require, optarg);
    }
}

static bool only_for_run(int answer)
{
    return answer == MIN_HOLD || answer == GRACE || answer == ON_LOST;
}

static int one_option(struct options *o, int answer, char *argv[], int which)
{
    if (answer == '?' || answer == ':') {
        return options_complain(answer, argv, known);
    }
    if (which == OPTIONS_HOLD && only_for_run(answer)) {
        return fail(STATUS_USAGE, "%s is for snib run: snib hold has no command",
                    argv[optind - 1][0] == '-' ? argv[optind - 1] : argv[optind - 2]);
    }
    if (which == OPTIONS_RUN && answer == JSON) {
        return fail(STATUS_USAGE,
                    "--json is for snib hold: the output of snib run is the command's");
    }
    return answer < 256 && strchr("nsxeowEFuc", answer) ? flock_option(o, answer)
                                                        : own_option(o, answer);
}

/* ---- What is left ----------------------------------------------------------------------- */

/* Its value is not repeated: it may be a URL with a password. */
static int misplaced(const char *command, const char *typed, const char *name)
{
    const char *value = "";
    int length = (int)strcspn(typed, "=");
    if (strncmp(typed, "--", 2) != 0) {
        length = (int)strlen(typed);
        for (int i = 1; i < length; i++) {
            const char *letter = strchr(SHORT_OPTIONS, typed[i]);
            if (letter && letter[1] == ':') {
                length = i + 1;
                value = " ...";
            }
        }
    } else if (typed[length]) {
        value = "=...";
    } else {
        for (const struct option *one = known; one->name; one++) {
            if (strcmp(one->name, typed + 2) == 0 && one->has_arg == required_argument) {
                value = " ...";
            }
        }
    }
    return fail(STATUS_USAGE,
                "'%.*s' stands behind the name; options come before it: snib %s %.*s%s %s", length,
                typed, command, length, typed, value, name);
}

static int read_command(struct options *o, char *rest[])
{
    const char *name = o->names[0];
    if (!rest[0] || (strcmp(rest[0], "--") == 0 && !rest[1])) {
        if (name[strspn(name, "0123456789")] == '\0') {
            return fail(STATUS_USAGE, "descriptor %s cannot be locked; use: snib hold NAME", name);
        }
        return fail(STATUS_USAGE, "no command for lock '%s'; to hold it alone: snib hold", name);
    }
    if (strcmp(rest[0], "-c") == 0 || strcmp(rest[0], "--command") == 0) {
        if (!rest[1] || rest[2]) {
            return fail(STATUS_USAGE, "%s wants one argument, the shell command", rest[0]);
        }
        char *shell = getenv("SHELL");
        static char normal[] = _PATH_BSHELL, flag[] = "-c";
        o->shell[0] = shell && *shell ? shell : normal;
        o->shell[1] = flag;
        o->shell[2] = rest[1];
        o->command = o->shell;
        return 0;
    }
    if (rest[0][0] == '-' && strcmp(rest[0], "--") != 0) {
        return misplaced("run", rest[0], name);
    }
    o->command = strcmp(rest[0], "--") == 0 ? rest + 1 : rest;
    return 0;
}

/* `9>file` and a number is how flock(1) locks a file of the shell. Here a number is a name like
 * another, and whoever has that descriptor open, on a file, must hear of it. */
static void warn_of_descriptor(const char *name)
{
    unsigned number;
    char link[32], path[4096];
    struct stat about;
    if (!value_count(&number, name, 3, 9999) || fstat((int)number, &about) < 0 ||
        !S_ISREG(about.st_mode)) {
        return;
    }
    (void)snprintf(link, sizeof link, "/proc/self/fd/%u", number);
    ssize_t length = readlink(link, path, sizeof path - 1);
    path[length > 0 ? length : 0] = '\0';
    say("'%s' is the name of a lock, not descriptor %s; to lock the file behind that: %s", name,
        name, path);
}

/* NAME stands before those of --also; with --json it may be missing. */
static int read_name(struct options *o, char *rest[], int which)
{
    if (!rest[0] && o->json) {
        o->name_count--;
        memmove(o->names, o->names + 1, o->name_count * sizeof *o->names);
        return 0;
    }
    if (!rest[0]) {
        return fail(STATUS_USAGE, "no lock named; see snib %s --help",
                    which == OPTIONS_RUN ? "run" : "hold");
    }
    o->names[0] = rest[0];
    warn_of_descriptor(rest[0]);
    if (which == OPTIONS_RUN) {
        return read_command(o, rest + 1);
    }
    if (rest[1] && rest[1][0] == '-' && rest[1][1]) {
        return misplaced("hold", rest[1], rest[0]);
    }
    return rest[1] ? fail(STATUS_USAGE, "snib hold takes one name; more of them with --also") : 0;
}

static int check_holds(const struct options *o)
{
    if (o->lock.max_hold_ms && o->min_hold_ms > o->lock.max_hold_ms) {
        return fail(STATUS_USAGE, "--min-hold is longer than --max-hold");
    }
    for (size_t i = 1; i < o->name_count; i++) {
        for (size_t j = 0; j < i; j++) {
            if (strcmp(o->names[i], o->names[j]) == 0) {
                return fail(STATUS_USAGE, "lock '%s' is given twice", o->names[i]);
            }
        }
    }
    return 0;
}

static int help(int which)
{
    if (fputs(which == OPTIONS_RUN ? run_help : hold_help, stdout) < 0 || fflush(stdout) != 0) {
        return fail(STATUS_INTERNAL, "cannot write the help");
    }
    return 0;
}

int options_read(struct options *o, int argc, char *argv[], int which)
{
    *o = (struct options){.lock = SNIB_OPTIONS, .busy_status = STATUS_BUSY, .grace_ms = -1};
    const char **names = calloc((size_t)argc + 1, sizeof *names);
    if (!names) {
        return fail(STATUS_INTERNAL, "out of memory");
    }
    o->names = names;
    o->name_count = 1;
    int answer, status = 0;
    opterr = 0;
    while (status == 0 && (answer = getopt_long(argc, argv, SHORT_OPTIONS, known, NULL)) != -1) {
        if (answer == HELP || answer == 'h' || answer == 'V') {
            options_free(o);
            if (answer != 'V') {
                return help(which);
            }
            return printf("snib %s\n", snib_version()) > 0 && fflush(stdout) == 0
                       ? 0
                       : fail(STATUS_INTERNAL, "cannot write the version");
        }
        status = one_option(o, answer, argv, which);
    }
    if (status == 0) {
        status = read_name(o, argv + optind, which);
    }
    if (status == 0) {
        status = check_holds(o);
    }
    if (status != 0) {
        options_free(o);
    }
    return status;
}

void options_free(struct options *o)
{
    free(o->names);
    client_free_url(&o->url);
    o->names = NULL;
}

static void *moved(const void *text, const char *from, size_t size, const char *to)
{
    uintptr_t offset = (uintptr_t)text - (uintptr_t)from;
    return (void *)(uintptr_t)(offset < size ? to + offset : text);
}

void options_move(struct options *o, const char *from, size_t size, const char *to)
{
    for (size_t i = 0; i < o->name_count; i++) {
        o->names[i] = moved(o->names[i], from, size, to);
    }
    for (size_t i = 0; o->command == o->shell && o->shell[i]; i++) {
        o->shell[i] = moved(o->shell[i], from, size, to);
    }
    o->lock.label = moved(o->lock.label, from, size, to);
    o->url.argument = NULL;
}

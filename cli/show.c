/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Holders and waiters as snib_inspect tells them, kept and shown: as a table and as JSON.
 *
 * `stopped` is the one thing that the engine does not know and a person at night wants to: the
 * holder lives, and does nothing. It is said only where /proc shows it of a process with that
 * number on a host of our name. Nothing is concluded from a process that is not there: a container
 * may have the same host name and other process numbers.
 */
#include "show.h"

#include "say.h"
#include "table.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* ---- Keeping ---------------------------------------------------------------------------- */

static int64_t wall_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* The number behind the last colon of "host:123", if host is this one; else 0. */
static long local_pid(const char *who)
{
    char host[65] = "";
    char *end;
    const char *colon = strrchr(who, ':');
    if (!colon || gethostname(host, sizeof host - 1) < 0 || strlen(host) != (size_t)(colon - who) ||
        memcmp(host, who, strlen(host)) != 0) {
        return 0;
    }
    long pid = strtol(colon + 1, &end, 10);
    return *end == '\0' && pid > 0 ? pid : 0;
}

static bool is_stopped(const char *who)
{
    char path[64], text[512];
    long pid = local_pid(who);
    if (pid == 0) {
        return false;
    }
    snprintf(path, sizeof path, "/proc/%ld/stat", pid);
    FILE *file = fopen(path, "re");
    if (!file) {
        return false;
    }
    size_t size = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    text[size] = '\0';
    const char *name_end = strrchr(text, ')'); /* the name itself may contain anything */
    return name_end && name_end[1] == ' ' && (name_end[2] == 'T' || name_end[2] == 't');
}

int show_keep(const snib_seen *seen, void *arg)
{
    struct parties *parties = arg;
    if (parties->count == parties->room) {
        size_t room = parties->room ? parties->room * 2 : 16;
        struct party *more = realloc(parties->all, room * sizeof *more);
        if (!more) {
            fputs("snib: out of memory\n", stderr);
            exit(70);
        }
        parties->all = more;
        parties->room = room;
    }
    struct party *party = &parties->all[parties->count];
    *party = (struct party){
        .name = strdup(seen->name),
        .who = strdup(seen->who),
        .label = strdup(seen->label),
        .token = seen->token,
        .mode = seen->mode,
        .place = seen->place,
        .permits = seen->permits,
        .since_unix_ms = seen->since_unix_ms,
        .age_ms = -1,
        .left_ms = seen->left_ms,
        .stopped = is_stopped(seen->who),
        .seen = parties->count,
    };
    if (!party->name || !party->who || !party->label) {
        fputs("snib: out of memory\n", stderr);
        exit(70);
    }
    if (seen->since_unix_ms > 0) {
        int64_t age = wall_ms() - seen->since_unix_ms;
        party->age_ms = age > 0 ? age : 0; /* the clock that wrote it may be ahead of ours */
    }
    parties->count++;
    parties->holders += seen->place == 0 ? 1 : 0;
    return 0;
}

void show_free(struct parties *parties)
{
    for (size_t i = 0; i < parties->count; i++) {
        free(parties->all[i].name);
        free(parties->all[i].who);
        free(parties->all[i].label);
    }
    free(parties->all);
    *parties = (struct parties){0};
}

/* Stable: holders stay before waiters, and those in order. */
static int by_name(const void *a, const void *b)
{
    const struct party *x = a;
    const struct party *y = b;
    int order = strcmp(x->name, y->name);
    return order != 0 ? order : x->seen < y->seen ? -1 : x->seen > y->seen;
}

void show_sort(struct parties *parties)
{
    if (parties->count > 1) {
        qsort(parties->all, parties->count, sizeof *parties->all, by_name);
    }
}

size_t show_same_name(const struct parties *parties, size_t from, size_t *holders)
{
    size_t to = from;
    *holders = 0;
    while (to < parties->count && strcmp(parties->all[to].name, parties->all[from].name) == 0) {
        *holders += parties->all[to].place == 0 ? 1 : 0;
        to++;
    }
    return to;
}

/* ---- For people ------------------------------------------------------------------------- */

const char *show_mode(int mode)
{
    switch (mode) {
    case SNIB_EXCLUSIVE:
        return "exclusive";
    case SNIB_SHARED:
        return "shared";
    case SNIB_COUNTED:
        return "counted";
    default:
        return "unknown";
    }
}

/* The local time; with the date if it was not today's. */
static void show_since(char out[24], int64_t unix_ms)
{
    time_t then = (time_t)(unix_ms / 1000);
    time_t now = time(NULL);
    struct tm at, today;
    out[0] = '\0';
    if (unix_ms <= 0 || !localtime_r(&then, &at) || !localtime_r(&now, &today)) {
        return;
    }
    bool same_day = at.tm_yday == today.tm_yday && at.tm_year == today.tm_year;
    strftime(out, 24, same_day ? "%H:%M:%S" : "%Y-%m-%d %H:%M", &at);
}

static void add_row(struct table *table, const struct party *s)
{
    char since[24], age[SPAN_SIZE], left[SPAN_SIZE];
    bool leased = s->left_ms >= 0 && s->left_ms != SNIB_FOREVER;
    show_since(since, s->since_unix_ms);
    if (s->place == 0) {
        table_add(table, "holds");
    } else {
        table_add(table, "waits %d", s->place);
    }
    table_add(table, "%s", s->who);
    table_add(table, "%s", s->stopped ? "stopped" : "");
    table_add(table, "%s", show_mode(s->mode));
    table_add(table, "%s", since);
    table_add(table, "%s", s->age_ms >= 0 ? span_text(age, s->age_ms) : "");
    table_add(table, "%s", leased ? span_text(left, s->left_ms) : "");
    if (s->token) {
        table_add(table, "%" PRIu64, s->token);
    } else {
        table_add(table, "%s", "");
    }
    table_add(table, "%s", s->label);
}

void show_table(const struct parties *parties, FILE *out)
{
    struct table table = {
        .columns = 9,
        .heads = {"", "WHO", "STATE", "MODE", "SINCE", "AGE", "LEFT", "TOKEN", "LABEL"},
    };
    for (size_t i = 0; i < parties->count; i++) {
        add_row(&table, &parties->all[i]);
    }
    table_print(&table, out, "  ");
    table_free(&table);
}

/* ---- For programs ----------------------------------------------------------------------- */

static void json_party(struct json *j, const struct party *s)
{
    json_open(j, NULL, '{');
    json_text(j, "who", s->who);
    json_text(j, "label", s->label);
    json_text(j, "mode", show_mode(s->mode));
    if (s->place == 0) {
        json_token(j, "token", s->token);
    } else {
        json_integer(j, "place", s->place);
    }
    if (s->since_unix_ms > 0) {
        json_integer(j, "since_unix_ms", s->since_unix_ms);
        json_integer(j, "age_ms", s->age_ms);
    } else {
        json_null(j, "since_unix_ms");
        json_null(j, "age_ms");
    }
    if (s->place == 0) {
        if (s->left_ms < 0 || s->left_ms == SNIB_FOREVER) {
            json_null(j, "left_ms");
        } else {
            json_integer(j, "left_ms", s->left_ms);
        }
    }
    json_boolean(j, "stopped", s->stopped);
    json_close(j, '}');
}

void show_json(struct json *j, const struct parties *parties, size_t from, size_t to)
{
    json_open(j, "holders", '[');
    for (size_t i = from; i < to; i++) {
        if (parties->all[i].place == 0) {
            json_party(j, &parties->all[i]);
        }
    }
    json_close(j, ']');
    json_open(j, "waiters", '[');
    for (size_t i = from; i < to; i++) {
        if (parties->all[i].place > 0) {
            json_party(j, &parties->all[i]);
        }
    }
    json_close(j, ']');
}

void show_json_lock(struct json *j, const char *name, const struct parties *parties, size_t from,
                    size_t to)
{
    bool counted = from < to && parties->all[from].mode == SNIB_COUNTED;
    json_text(j, "name", name);
    json_boolean(j, "held", from < to && parties->all[from].place == 0);
    if (counted && parties->all[from].permits > 0) {
        json_integer(j, "permits", parties->all[from].permits);
    } else {
        json_null(j, "permits");
    }
    show_json(j, parties, from, to);
}

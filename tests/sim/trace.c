/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What happened: the last events of the world, kept as numbers and only turned into text when
 * a promise is broken. And a hash over all of them: two runs of one seed must agree. The seed is
 * also kept where the harness finds it if the process ends in another way (an assertion of the
 * core, a sanitizer, a loop without end).
 */
#include "sim.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

enum { KEPT = 512, SHOWN = 150 };

uint64_t sim_paths[PATHS];

static struct line {
    int64_t at_ns;
    enum sim_note note;
    int machine;
    long long a, b;
} lines[KEPT];

static uint64_t line_count;

static const char *const texts[] = {
#define SIM_TEXT(name, text) text,
    SIM_NOTES(SIM_TEXT)
#undef SIM_TEXT
};

static void print_line(const struct line *l)
{
    if (l->machine < 0) {
        fprintf(stderr, "  %12.6f            ", (double)l->at_ns / 1e9);
    } else {
        fprintf(stderr, "  %12.6f  machine %d ", (double)l->at_ns / 1e9, l->machine);
    }
    /* The texts are a constant table; every one of them takes two numbers. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
#pragma GCC diagnostic ignored "-Wformat-extra-args"
    fprintf(stderr, texts[l->note], l->a, l->b);
#pragma GCC diagnostic pop
    fputc('\n', stderr);
}

static uint64_t mix(uint64_t hash, uint64_t value)
{
    hash = (hash ^ value) * 0x9e3779b97f4a7c15ULL;
    return hash ^ (hash >> 29);
}

void sim_note(enum sim_note note, int machine, int64_t a, int64_t b)
{
    struct line *l = &lines[line_count++ % KEPT];
    *l = (struct line){world.now_ns, note, machine, a, b};
    world.hash = mix(world.hash, (uint64_t)world.now_ns);
    world.hash = mix(world.hash, ((uint64_t)note << 8) + (uint64_t)(machine + 1));
    world.hash = mix(mix(world.hash, (uint64_t)a), (uint64_t)b);
    if (world.config.show) {
        sim_spare_memory(true);
        print_line(l);
        sim_spare_memory(false);
    }
}

static void print_timeline(void)
{
    uint64_t from = line_count > SHOWN ? line_count - SHOWN : 0;
    fprintf(stderr, "  the last %llu of %llu events, in seconds of virtual time:\n",
            (unsigned long long)(line_count - from), (unsigned long long)line_count);
    for (uint64_t i = from; i < line_count && !world.config.show; i++) {
        print_line(&lines[i % KEPT]);
    }
}

const char *sim_explain(const char *format, ...)
{
    static char what[400];
    int n = 0;
    va_list args;
    if (!world.config.scripted) {
        n = snprintf(what, sizeof what, "seed %llu: ", (unsigned long long)world.config.seed);
    }
    va_start(args, format);
    vsnprintf(what + n, sizeof what - (size_t)n, format, args);
    va_end(args);
    sim_spare_memory(true);
    print_timeline();
    return what;
}

/* Where the harness finds the seed when the process ends without a word. */
static void note_seed(void)
{
    enum { SIZE = 120 };
    static char *page;
    if (!page) {
        char path[400];
        snprintf(path, sizeof path, "%s/seed", check_tmpdir());
        int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
        CHECK(fd >= 0 && ftruncate(fd, SIZE) == 0);
        page = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        CHECK(page != MAP_FAILED);
        close(fd);
        check_show_on_failure("the present schedule", path);
    }
    snprintf(page, SIZE, "replay with --seed %llu, and see all of it with --show all\n",
             (unsigned long long)world.config.seed);
}

void sim_trace_begin(void)
{
    line_count = 0;
    world.hash = 14695981039346656037ULL;
    if (!world.config.scripted) {
        note_seed();
    }
}

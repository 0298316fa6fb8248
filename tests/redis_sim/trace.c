/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What happened: a hash over all of it, and the text of the last events when somebody wants to see
 * it. A schedule that fails is run again by its seed to be seen: --seed S --show all.
 */
#include "world.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

static uint64_t mix(uint64_t hash, uint64_t value)
{
    hash = (hash ^ value) * 0x9e3779b97f4a7c15ULL;
    return hash ^ (hash >> 29);
}

void note_number(uint64_t number)
{
    world.hash = mix(mix(world.hash, (uint64_t)world.now_ns), number);
}

void note(int machine, const char *format, ...)
{
    note_number((uint64_t)(machine + 1) + 77);
    if (!world.config.show) {
        return;
    }
    va_list args;
    fprintf(stderr, "  %12.6f  ", (double)world.now_ns / 1e9);
    if (machine >= 0) {
        fprintf(stderr, "machine %d ", machine);
    }
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
}

const char *explain(const char *format, ...)
{
    static char what[500];
    va_list args;
    int n = snprintf(what, sizeof what, "at %.6f s%s", (double)world.now_ns / 1e9,
                     world.config.scripted ? ": " : "");
    if (!world.config.scripted) {
        n += snprintf(what + n, sizeof what - (size_t)n,
                      " of seed %llu: ", (unsigned long long)world.config.seed);
    }
    va_start(args, format);
    vsnprintf(what + n, sizeof what - (size_t)n, format, args);
    va_end(args);
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

void trace_begin(void)
{
    world.hash = 14695981039346656037ULL;
    if (!world.config.scripted) {
        note_seed();
    }
}

/*
 * How a case fails or is skipped, and what it leaves for the report.
 *
 * An assertion may strike in a thread, in a helper process, or while other threads hold stdio's
 * locks. So it formats into a buffer of its own, copies that into the shared page, and ends the
 * process with _exit: no handlers, no leak report on top of the real message. Only a case that
 * ends well goes through exit().
 */
#include "check_page.h"

#include <errno.h>
#include <ftw.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

struct check_page *check_page;

/* The path as seen from the top of the source tree, wherever that lies. */
static const char *short_file(const char *file)
{
    const char *found = file;
    for (const char *next = file; (next = strstr(next, "tests/")) != NULL; next++) {
        found = next;
    }
    return found;
}

static void note_text(const char *text)
{
    size_t length = strlen(text);
    if (check_page == NULL) {
        ssize_t ignored = write(STDERR_FILENO, text, length);
        (void)ignored;
        return;
    }
    /* The last byte stays zero, so the text always ends. */
    size_t start = atomic_fetch_add(&check_page->text_used, length);
    if (start + length < CHECK_TEXT_BYTES) {
        memcpy(check_page->text + start, text, length);
    }
    atomic_store(&check_page->failed, 1);
}

static void format_line(char *line, size_t size, const char *file, int at, const char *format,
                        va_list arguments)
{
    int used = 0;
    if (file != NULL) {
        used = snprintf(line, size, "  %s:%d: ", short_file(file), at);
    } else {
        used = snprintf(line, size, "  ");
    }
    if (used < 0 || (size_t)used >= size - 1) {
        used = 0;
    }
    vsnprintf(line + used, size - (size_t)used - 1, format, arguments);
    strcat(line, "\n");
}

void check_note_failure(const char *format, ...)
{
    char line[1024];
    va_list arguments;
    va_start(arguments, format);
    format_line(line, sizeof line, NULL, 0, format, arguments);
    va_end(arguments);
    note_text(line);
}

_Noreturn void check_fail_at(const char *file, int line, const char *format, ...)
{
    char text[4608];
    va_list arguments;
    va_start(arguments, format);
    format_line(text, sizeof text, file, line, format, arguments);
    va_end(arguments);
    note_text(text);
    _exit(CHECK_EXIT_FAILED);
}

_Noreturn void check_skip_at(const char *file, int line, const char *format, ...)
{
    char reason[256];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(reason, sizeof reason, format, arguments);
    va_end(arguments);

    const char *ci = getenv("CI");
    if (ci != NULL && strcmp(ci, "true") == 0) {
        check_fail_at(file, line, "would be skipped, which CI does not accept: %s", reason);
    }
    if (check_page == NULL) {
        fprintf(stderr, "skipped: %s\n", reason);
    } else if (atomic_exchange(&check_page->skipped, 1) == 0) {
        memcpy(check_page->skip_reason, reason, sizeof reason);
    }
    _exit(CHECK_EXIT_SKIPPED);
}

void check_str_at(const char *file, int line, const char *what, const char *a, const char *b)
{
    if (a == b || (a != NULL && b != NULL && strcmp(a, b) == 0)) {
        return;
    }
    const char *quote_a = a != NULL ? "\"" : "";
    const char *quote_b = b != NULL ? "\"" : "";
    check_fail_at(file, line, "%s, but the values are %s%s%s and %s%s%s", what, quote_a,
                  a != NULL ? a : "NULL", quote_a, quote_b, b != NULL ? b : "NULL", quote_b);
}

const char *check_tmpdir(void)
{
    if (check_page == NULL) {
        FAIL("check_tmpdir() outside of a case");
    }
    return check_page->folder;
}

void check_show_on_failure(const char *label, const char *path)
{
    if (check_page == NULL) {
        return;
    }
    int slot = atomic_load(&check_page->log_count);
    for (int i = 0; i < slot && i < CHECK_LOGS; i++) {
        if (strcmp(check_page->logs[i].path, path) == 0) {
            return;
        }
    }
    slot = atomic_fetch_add(&check_page->log_count, 1);
    if (slot < CHECK_LOGS) {
        struct check_log *log = &check_page->logs[slot];
        snprintf(log->label, sizeof log->label, "%s", label);
        snprintf(log->path, sizeof log->path, "%s", path);
    }
}

static int slow_factor(void)
{
    const char *text = getenv("SNIB_TEST_SLOW");
    long factor = text != NULL ? strtol(text, NULL, 10) : 1;
    if (factor < 1) {
        return 1;
    }
    return factor > 100 ? 100 : (int)factor;
}

int check_ms(int ms)
{
    return ms * slow_factor();
}

int64_t check_now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_BOOTTIME, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

void check_sleep_ms(int ms)
{
    struct timespec left = {.tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000) * 1000000};
    while (nanosleep(&left, &left) != 0 && errno == EINTR) {
    }
}

static int remove_one(const char *path, const struct stat *status, int kind, struct FTW *where)
{
    (void)status;
    (void)where;
    if (kind == FTW_DNR) {
        /* A test took its own permission away: give it back, once, and go in. */
        if (chmod(path, 0700) == 0 && access(path, R_OK | X_OK) == 0) {
            check_remove_tree(path);
        }
        return 0;
    }
    remove(path);
    return 0;
}

void check_remove_tree(const char *path)
{
    nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
}

/*
 * What the processes of one case tell the process that judges it.
 *
 * One page of memory shared by the harness, the case and all its helpers: whoever fails writes
 * where and why, so that the verdict does not depend on anybody noticing an exit status. A
 * program with a main() of its own has no page; its assertions go to stderr.
 */
#ifndef SNIB_TESTS_CHECK_PAGE_H
#define SNIB_TESTS_CHECK_PAGE_H

#include "check.h"

enum { CHECK_EXIT_SKIPPED = 98, CHECK_EXIT_FAILED = 99 };

enum { CHECK_TEXT_BYTES = 16384, CHECK_LOGS = 32 };

struct check_log {
    char label[32];
    char path[224];
};

struct check_page {
    _Atomic int failed;
    _Atomic int skipped;
    _Atomic size_t text_used;
    char text[CHECK_TEXT_BYTES];
    char skip_reason[256];
    char folder[128];
    _Atomic int log_count;
    struct check_log logs[CHECK_LOGS];
};

extern struct check_page *check_page;

/* A process as /proc shows it. */
struct check_process {
    pid_t pid;
    pid_t parent;
    char state;
    char name[32];
};

/* False when there is no such process. */
bool check_process_read(pid_t pid, struct check_process *out);

/* Visits every child of this process. Answers how many. */
int check_children(void (*visit)(const struct check_process *, void *), void *arg);

/* The end of a case, in its own process: managed children are killed, all others must be gone. */
void check_finish(void);

/* Adds to what is shown below the verdict, and marks the case as failed. */
void check_note_failure(const char *format, ...) __attribute__((format(printf, 1, 2)));

void check_remove_tree(const char *path);

#endif

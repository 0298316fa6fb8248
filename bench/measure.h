/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Measuring by ratio: subjects and what they are compared with take turns, round by round.
 *
 * A ratio is taken within each round and the median of the rounds is shown, so that a machine
 * that gets slower or faster meanwhile moves both sides. A turn takes about a millisecond, and
 * one in which the process lost its processor to another is taken again.
 * Nothing here passes or fails: figures are for reading, and a target is printed beside them.
 *
 * Not done: pinning to a processor, fixing its clock, discarding outliers by rule.
 */
#ifndef SNIB_BENCH_MEASURE_H
#define SNIB_BENCH_MEASURE_H

#include <dirent.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

enum { MEASURE_ROUNDS = 301, MEASURE_SUBJECTS = 16 };

struct measure_subject {
    const char *name;
    double (*run)(void *arg, long count); /* does it `count` times; answers ns for one */
    void *arg;
    long count;
    int against;   /* index of the subject to compare with; -1: none */
    double target; /* 0: none */
    int shared;    /* with another process: a turn is as it comes */
};

/* A fresh folder below the first argument, TMPDIR or /tmp. */
static inline void measure_make_folder(char *folder, size_t size, int argc, char **argv)
{
    const char *base = argc > 1 ? argv[1] : getenv("TMPDIR");
    snprintf(folder, size, "%s/snib-bench-XXXXXX", base != NULL ? base : "/tmp");
    if (mkdtemp(folder) == NULL) {
        fprintf(stderr, "cannot make a folder like %s\n", folder);
        exit(1);
    }
}

/* With the files in it, and no folders: there are none. */
static inline void measure_remove_folder(const char *folder)
{
    DIR *files = opendir(folder);
    struct dirent *file;
    while (files != NULL && (file = readdir(files)) != NULL) {
        unlinkat(dirfd(files), file->d_name, 0);
    }
    if (files != NULL) {
        closedir(files);
    }
    rmdir(folder);
}

static int64_t measure_now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static inline double measure_each(int64_t start_ns, long count)
{
    return (double)(measure_now_ns() - start_ns) / (double)count;
}

static int measure_compare(const void *a, const void *b)
{
    double left = *(const double *)a;
    double right = *(const double *)b;
    return left < right ? -1 : left > right;
}

static double measure_median(const double *values)
{
    double sorted[MEASURE_ROUNDS];
    for (int i = 0; i < MEASURE_ROUNDS; i++) {
        sorted[i] = values[i];
    }
    qsort(sorted, MEASURE_ROUNDS, sizeof sorted[0], measure_compare);
    return sorted[MEASURE_ROUNDS / 2];
}

static void measure_print(const struct measure_subject *subjects, int count,
                          double each[][MEASURE_ROUNDS])
{
    printf("%-58s %10s %7s %7s\n", "median of rounds, each taking turns", "ns", "ratio", "target");
    for (int i = 0; i < count; i++) {
        printf("%-58s %10.0f", subjects[i].name, measure_median(each[i]));
        if (subjects[i].against >= 0) {
            double ratios[MEASURE_ROUNDS];
            for (int round = 0; round < MEASURE_ROUNDS; round++) {
                ratios[round] = each[i][round] / each[subjects[i].against][round];
            }
            printf(" %7.2f", measure_median(ratios));
        }
        if (subjects[i].target > 0) {
            printf(" %7.2f", subjects[i].target);
        }
        printf("\n");
    }
}

static inline long measure_preemptions(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_nivcsw;
}

static inline double measure_turn(const struct measure_subject *subject)
{
    double ns = 0;
    for (int attempt = 0; attempt < 10; attempt++) {
        long before = measure_preemptions();
        ns = subject->run(subject->arg, subject->count);
        if (subject->shared || measure_preemptions() == before) {
            break;
        }
    }
    return ns;
}

static void measure(const struct measure_subject *subjects, int count)
{
    static double each[MEASURE_SUBJECTS][MEASURE_ROUNDS];
    for (int round = -1; round < MEASURE_ROUNDS; round++) { /* the first one warms up */
        for (int i = 0; i < count; i++) {
            double ns = measure_turn(&subjects[i]);
            if (round >= 0) {
                each[i][round] = ns;
            }
        }
    }
    measure_print(subjects, count, each);
}

#endif

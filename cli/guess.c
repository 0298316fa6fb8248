/* SPDX-License-Identifier: Apache-2.0 */
/*
 * "Did you mean": the nearest known word, by how many letters were added, dropped, changed or
 * swapped with their neighbour. A third of the word may be wrong; more is a guess no longer.
 */
#include "guess.h"

#include <string.h>

#define LONGEST 32

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

static size_t distance(const char *a, size_t m, const char *b, size_t n)
{
    size_t d[LONGEST + 1][LONGEST + 1];
    for (size_t i = 0; i <= m; i++) {
        for (size_t j = 0; j <= n; j++) {
            if (i == 0 || j == 0) {
                d[i][j] = i + j;
                continue;
            }
            size_t change = d[i - 1][j - 1] + (a[i - 1] != b[j - 1]);
            d[i][j] = least(change, least(d[i - 1][j], d[i][j - 1]) + 1);
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
                d[i][j] = least(d[i][j], d[i - 2][j - 2] + 1);
            }
        }
    }
    return d[m][n];
}

const char *guess(const char *typed, const char *const words[])
{
    const char *best = NULL;
    size_t m = strlen(typed);
    size_t nearest = m < 3 ? 2 : m / 3 + 2; /* one more than is accepted */
    if (m > LONGEST || m == 0) {
        return NULL;
    }
    for (size_t i = 0; words[i]; i++) {
        size_t n = strlen(words[i]);
        size_t far = n <= LONGEST ? distance(typed, m, words[i], n) : nearest;
        if (far < nearest && far < n) {
            nearest = far;
            best = words[i];
        }
    }
    return best;
}

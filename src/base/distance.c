/* SPDX-License-Identifier: Apache-2.0 */
/* How far two words are apart: for "did you mean". One row of the usual table at a time. */
#include "base/distance.h"

#include <stdint.h>
#include <string.h>

size_t snib__distance(const char *a, const char *b)
{
    size_t row[SNIB__DISTANCE_MOST + 1];
    size_t width = strlen(b);
    if (strlen(a) > SNIB__DISTANCE_MOST || width > SNIB__DISTANCE_MOST) {
        return SIZE_MAX;
    }
    for (size_t j = 0; j <= width; j++) {
        row[j] = j;
    }
    for (size_t i = 0; a[i] != '\0'; i++) {
        size_t corner = row[0];
        row[0] = i + 1;
        for (size_t j = 0; j < width; j++) {
            size_t best = corner + (a[i] != b[j]);
            corner = row[j + 1];
            best = corner + 1 < best ? corner + 1 : best;
            best = row[j] + 1 < best ? row[j] + 1 : best;
            row[j + 1] = best;
        }
    }
    return row[width];
}

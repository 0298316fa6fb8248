/* SPDX-License-Identifier: Apache-2.0 */
/* Valid C99, C11 and C++17: the header before anything else, twice, and its initialiser. */
#include <snib.h>
#include <snib.h>

snib_options header_options(void);

snib_options header_options(void)
{
    snib_options options = SNIB_OPTIONS;
    options.mode = SNIB_SHARED;
    return options;
}

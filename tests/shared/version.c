/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One version: of the header, of the library, and of the project.
 */
#include "check.h"

#include <snib.h>

#include <stdio.h>

TEST(header_library_and_project_have_the_same_version)
{
    char header[64];
    snprintf(header, sizeof header, "%d.%d.%d", SNIB_VERSION_MAJOR, SNIB_VERSION_MINOR,
             SNIB_VERSION_PATCH);
    CHECK_STR(header, TEST_PROJECT_VERSION);
    CHECK_STR(snib_version(), TEST_PROJECT_VERSION);
}

TEST(version_numbers_can_be_compared)
{
    CHECK_INT(SNIB_VERSION_NUMBER, ==,
              10000 * SNIB_VERSION_MAJOR + 100 * SNIB_VERSION_MINOR + SNIB_VERSION_PATCH);
#if SNIB_VERSION_NUMBER < 200
    FAIL("the preprocessor reads another number");
#endif
}

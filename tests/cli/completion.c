/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The completions offer what there is: tests/completion has the cases.
 */
#include "capture.h"
#include "check.h"

TEST(the_completions_know_commands_options_and_locks)
{
    const struct capture *said = capture_command(
        (const char *const[]){"bash", TEST_SOURCE_DIR "/tests/completion", CAPTURE_SNIB, NULL});
    if (said->status != 0) {
        FAIL("status %d:\n%s%s", said->status, said->out, said->err);
    }
    CHECK(strstr(said->out, " passed, 0 failed\n") != NULL);
}

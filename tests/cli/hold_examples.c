/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The examples for other languages, which are never needed to test snib itself.
 */
#include "capture.h"
#include "stage.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

static bool has_python(void)
{
    return system("python3 -c 'import json, threading' >/dev/null 2>&1") == 0;
}

static bool has_node(void)
{
    return system("node -e 'require(\"readline\")' >/dev/null 2>&1") == 0;
}

static void run_example(const char *interpreter, const char *path)
{
    char search[4096];
    stage_file();
    snprintf(search, sizeof search, "%s:%s", TEST_BUILD_DIR, getenv("PATH"));
    setenv("PATH", search, 1);
    const struct capture *said = capture_command((const char *const[]){interpreter, path, NULL});
    if (said->status != 0) {
        FAIL("status %d:\n%s%s", said->status, said->out, said->err);
    }
    CHECK(strstr(said->out, "held with token "));
    CHECK(strstr(said->out, "\nlost: "));
    CHECK_STR(said->err, "");
}

/* A snib that says "held" once more when it is asked to let go, as a real one may. */
static void use_a_snib_that_repeats_itself(void)
{
    static const char script[] =
        "#!/bin/sh\n"
        "echo '{\"event\": \"ready\"}'\n"
        "while read -r verb name; do\n"
        "    [ \"$verb\" = acquire ] || more='{\"event\": \"released\", \"name\": \"x\", \"code\": "
        "\"OK\"}'\n"
        "    echo '{\"event\": \"held\", \"name\": \"x\", \"token\": \"7\", \"why\": null}'\n"
        "    [ -z \"$more\" ] || echo \"$more\"\n"
        "done\n";
    char path[400], search[4096];
    snprintf(path, sizeof path, "%s/snib", check_tmpdir());
    FILE *file = fopen(path, "w");
    CHECK(file && fputs(script, file) >= 0 && fclose(file) == 0 && chmod(path, 0700) == 0);
    snprintf(search, sizeof search, "%s:%s", check_tmpdir(), getenv("PATH"));
    setenv("PATH", search, 1);
}

TEST_WHEN(the_example_in_python_knows_its_answers_and_refuses_what_has_none, has_python)
{
    static const char program[] = "import sys\n"
                                  "sys.path.insert(0, '" TEST_SOURCE_DIR "/examples')\n"
                                  "from hold import Snib\n"
                                  "snib = Snib()\n"
                                  "assert snib.acquire('x', print) == '7'\n"
                                  "assert snib.release('x')\n"
                                  "for bad in '', 'a\\tb', 'a\\nb', 'x' * 201:\n"
                                  "    try:\n"
                                  "        snib.acquire(bad, print)\n"
                                  "    except ValueError:\n"
                                  "        continue\n"
                                  "    sys.exit('taken')\n"
                                  "snib.close()\n";
    use_a_snib_that_repeats_itself();
    const struct capture *said = capture_command(
        (const char *const[]){"timeout", "30", "python3", "-B", "-c", program, NULL});
    CHECK_STR(said->err, "");
    CHECK_INT(said->status, ==, 0);
}

TEST_WHEN(the_example_in_javascript_knows_its_answers_and_refuses_what_has_none, has_node)
{
    static const char program[] =
        "import { Snib } from 'file://" TEST_SOURCE_DIR "/examples/hold.mjs';\n"
        "import assert from 'node:assert';\n"
        "const snib = new Snib();\n"
        "assert.equal(await snib.acquire('x', console.log), '7');\n"
        "assert(await snib.release('x'));\n"
        "for (const bad of ['', 'a\\tb', 'a\\nb', 'x'.repeat(201)]) {\n"
        "    await assert.rejects(snib.acquire(bad, console.log), RangeError);\n"
        "}\n"
        "snib.close();\n";
    use_a_snib_that_repeats_itself();
    const struct capture *said = capture_command(
        (const char *const[]){"timeout", "30", "node", "--input-type=module", "-e", program, NULL});
    CHECK_STR(said->err, "");
    CHECK_INT(said->status, ==, 0);
}

TEST_WHEN(the_example_in_python_runs, has_python)
{
    run_example("python3", TEST_SOURCE_DIR "/examples/hold.py");
}

TEST_WHEN(the_example_in_javascript_runs, has_node)
{
    run_example("node", TEST_SOURCE_DIR "/examples/hold.mjs");
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Examining an engine: there is something to say, and nobody is hurt by it.
 */
#include "conformance.h"

struct findings {
    int count;
    int most; /* ends the listing after so many; 0: never */
};

static int note_finding(const snib_finding *finding, void *arg)
{
    struct findings *findings = arg;
    CHECK_UINT(finding->size, >=, sizeof *finding);
    CHECK(finding->verdict >= SNIB_GOOD && finding->verdict <= SNIB_BAD);
    CHECK_INT(finding->reserved, ==, 0);
    CHECK(finding->about != NULL && finding->about[0] != '\0');
    CHECK(finding->text != NULL && finding->text[0] != '\0');
    CHECK(strchr(finding->text, '\n') == NULL);
    CHECK(finding->remedy == NULL || finding->remedy[0] != '\0');
    findings->count++;
    return findings->count == findings->most;
}

TEST(an_examination_finds_something)
{
    struct findings findings = {0};
    snib *client = client_here();
    snib_error error = {0};
    snib_lease *lease = take(client, "report", NULL);
    CHECK_OK(snib_examine(client, note_finding, &findings, &error), error.message);
    CHECK_INT(findings.count, >=, 1);
    CHECK_INT(snib_verify(lease, NULL), ==, SNIB_OK); /* harmless */
    give(&lease);
    snib_close(client);
}

TEST(an_examination_ends_when_its_listener_says_so)
{
    struct findings findings = {.most = 1};
    snib *client = client_here();
    CHECK_INT(snib_examine(client, note_finding, &findings, NULL), ==, SNIB_OK);
    CHECK_INT(findings.count, ==, 1);
    snib_close(client);
}

TEST(an_examination_needs_a_client_and_a_listener)
{
    snib *client = client_here();
    CHECK_INT(snib_examine(client, NULL, NULL, NULL), ==, SNIB_EINVAL);
    CHECK_INT(snib_examine(NULL, note_finding, NULL, NULL), ==, SNIB_EINVAL);
    snib_close(client);
}

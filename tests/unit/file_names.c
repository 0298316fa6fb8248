/* SPDX-License-Identifier: Apache-2.0 */
/* The names of lock files: readable, reversible, never two for one or one for two. */
#include "file_test.h"

static void must_round_trip(const char *name)
{
    char file_name[FILE_NAME_BYTES];
    char back[FILE_NAME_BYTES];
    snib__file_name_encode(file_name, name);
    CHECK(strlen(file_name) <= 240);
    CHECK(strchr(file_name, '/') == NULL);
    CHECK(file_name[0] != '.');
    CHECK_INT(snib__file_name_decode(back, file_name), ==, 0);
    CHECK_STR(back, name);
}

TEST(a_plain_name_is_its_own_file_name)
{
    char file_name[FILE_NAME_BYTES];
    snib__file_name_encode(file_name, "nightly-report");
    CHECK_STR(file_name, "nightly-report.lock");
    snib__file_name_encode(file_name, "a/b%c");
    CHECK_STR(file_name, "a%2Fb%25c.lock");
    snib__file_name_encode(file_name, ".hidden.");
    CHECK_STR(file_name, "%2Ehidden..lock");
}

TEST(names_round_trip)
{
    must_round_trip("x");
    must_round_trip(".");
    must_round_trip("..");
    must_round_trip("../../etc/passwd");
    must_round_trip("/var/run/x.lock");
    must_round_trip("100% sure");
    must_round_trip("%41");
    must_round_trip("%~");
    must_round_trip("a.lock");
    must_round_trip(" sp ace ");
    must_round_trip("\xc3\xa4\xe2\x82\xac\xf0\x9f\x94\x92");
    char longest[201];
    memset(longest, 'x', 200);
    longest[200] = '\0';
    must_round_trip(longest);
}

TEST(a_long_name_is_cut_and_hashed)
{
    char name[201];
    char other[201];
    char first[FILE_NAME_BYTES];
    char second[FILE_NAME_BYTES];
    char back[FILE_NAME_BYTES];
    memset(name, '/', 200);
    name[200] = '\0';
    strcpy(other, name);
    other[199] = 'x';
    snib__file_name_encode(first, name);
    snib__file_name_encode(second, other);
    CHECK(strlen(first) <= 240 && strlen(second) <= 240);
    CHECK(strcmp(first, second) != 0);
    CHECK(strstr(first, "%~") != NULL);
    CHECK_INT(snib__file_name_decode(back, first), ==, 1);
}

TEST(a_long_name_is_not_cut_inside_a_character)
{
    char name[201] = "";
    char file_name[FILE_NAME_BYTES];
    for (size_t i = 0; i + 4 <= 200; i += 4) {
        memcpy(name + i, "\xe2\x82\xac/", 5); /* three bytes and one that is escaped */
    }
    snib__file_name_encode(file_name, name);
    const char *mark = strstr(file_name, "%~");
    CHECK(mark != NULL);
    CHECK(mark[-1] == 'F' || (unsigned char)mark[-1] == 0xac); /* whole characters only */
}

TEST(what_is_not_our_file_name_is_no_name)
{
    char back[FILE_NAME_BYTES];
    const char *const strange[] = {
        "",        ".lock",    "x",        "x.lock~",    ".x.lock",  "%.lock",
        "%4.lock", "%41.lock", "%zz.lock", "a%2fb.lock", "%00.lock", "a%2E.lock",
        "a%.lock", "%2F%",     "..",       ".",
    };
    for (size_t i = 0; i < sizeof strange / sizeof strange[0]; i++) {
        if (snib__file_name_decode(back, strange[i]) != -1) {
            FAIL("'%s' is taken for the file of '%s'", strange[i], back);
        }
    }
}

TEST(hash_named_locks_work_and_are_listed_by_their_whole_name)
{
    char name[201];
    memset(name, '/', 200);
    name[0] = 'n'; /* a path would take flock, too */
    name[200] = '\0';
    snib *client = client_here();
    snib_lease *lease = take(client, name);
    CHECK_INT(inspect(client, name).holders, ==, 1);
    struct seen seen = {.holders = 0};
    snib_error error;
    CHECK_OK(snib_list(client, "n///", note_seen, &seen, &error), error.message);
    CHECK_INT(seen.holders, ==, 1);
    CHECK_STR(seen.all[0].name, name);
    seen.holders = 0;
    CHECK_OK(snib_list(client, "x", note_seen, &seen, &error), error.message);
    CHECK_INT(seen.holders, ==, 0);
    give(&lease);
    snib_close(client);
}

TEST(two_names_with_one_hash_are_an_error_that_names_both)
{
    char name[201];
    memset(name, '/', 200);
    name[0] = 'n';
    name[200] = '\0';
    snib *client = client_here();
    snib_lease *lease = take(client, name);
    give(&lease);
    FILE *file = fopen(lock_path(name), "r+");
    CHECK(file != NULL);
    CHECK(fseek(file, (long)offsetof(struct header, name), SEEK_SET) == 0);
    CHECK(fputs("other", file) >= 0);
    fclose(file);
    snib_close(client);

    client = client_here();
    snib_error error;
    CHECK_INT(try_with(client, name, waiting(SNIB_EXCLUSIVE, 0), &error), ==, SNIB_EKIND);
    CHECK(strstr(error.message, "'other//") != NULL);
    CHECK(strstr(error.message, "'n//") != NULL);
    snib_close(client);
}

TEST(a_path_has_one_spelling)
{
    static const char *const spelt[][2] = {
        {"/d/p", "/d/p"},
        {"/d//p", "/d/p"},
        {"/d/./p", "/d/p"},
        {"/d/p/", "/d/p"},
        {"//d/.//./p//.", "/d/p"},
        {"/", "/"},
        {"//", "/"},
        {"/.", "/"},
        {"/./", "/"},
        {"/d/../p", "/d/../p"},
        {"/.d/p.", "/.d/p."},
        {"/d/.../p", "/d/.../p"},
        {"d//p", "d//p"},
        {"./p/", "./p/"},
        {"nightly", "nightly"},
    };
    for (size_t i = 0; i < sizeof spelt / sizeof spelt[0]; i++) {
        char room[FILE_NAME_BYTES];
        CHECK_STR(snib__file_name_canonical(room, spelt[i][0]), spelt[i][1]);
    }
}

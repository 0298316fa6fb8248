/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The command's writer of JSON and of tables, given what no lock of ours would contain: an engine
 * may be written to by others.
 */
#include "check.h"
#include "json_tree.h"

#include "../../cli/json.h"
#include "../../cli/table.h"
#include "../../cli/utf8.h"

#include "../../cli/json.c"  /* NOLINT(bugprone-suspicious-include) */
#include "../../cli/table.c" /* NOLINT(bugprone-suspicious-include) */
#include "../../cli/utf8.c"  /* NOLINT(bugprone-suspicious-include) */

#include <sys/random.h>

/* ["text"] as written, without the line ends around it. */
static const char *quoted(const char *text)
{
    static char out[4096];
    FILE *file = fmemopen(out, sizeof out, "w");
    CHECK(file != NULL);
    quote(file, text);
    CHECK_INT(fclose(file), ==, 0);
    return out;
}

TEST(text_is_escaped_where_it_must_be)
{
    CHECK_STR(quoted(""), "\"\"");
    CHECK_STR(quoted("plain"), "\"plain\"");
    CHECK_STR(quoted("a\"b\\c/"), "\"a\\\"b\\\\c/\"");
    CHECK_STR(quoted("\n\t\r\001\037"), "\"\\n\\t\\u000d\\u0001\\u001f\"");
    CHECK_STR(quoted("\033[2J\177"), "\"\\u001b[2J\\u007f\"");
    CHECK_STR(quoted("\xc2\x9b"), "\"\\u009b\""); /* CSI in one character */
    CHECK_STR(quoted("\xe2\x80\xa8"), "\"\\u2028\"");
    CHECK_STR(quoted("í 日本 \xf0\x9f\x94\x92"), "\"í 日本 \xf0\x9f\x94\x92\"");
}

TEST(bytes_that_are_not_utf8_are_replaced_one_by_one)
{
    CHECK_STR(quoted("a\xff\xfe"), "\"a\\ufffd\\ufffd\"");
    CHECK_STR(quoted("\xc3"), "\"\\ufffd\"");            /* cut */
    CHECK_STR(quoted("\xe2\x82"), "\"\\ufffd\\ufffd\""); /* cut */
    CHECK_STR(quoted("\x80x"), "\"\\ufffdx\"");          /* no start */
    CHECK_STR(quoted("\xc0\xaf"), "\"\\ufffd\\ufffd\""); /* overlong '/' */
    CHECK_STR(quoted("\xe0\x80\xaf"), "\"\\ufffd\\ufffd\\ufffd\"");
    CHECK_STR(quoted("\xed\xa0\x80"), "\"\\ufffd\\ufffd\\ufffd\""); /* a surrogate */
    CHECK_STR(quoted("\xf4\x90\x80\x80"), "\"\\ufffd\\ufffd\\ufffd\\ufffd\"");
    CHECK_STR(quoted("\xf5"), "\"\\ufffd\"");
}

TEST(any_bytes_make_a_document_that_reads_back)
{
    for (int i = 0; i < 20000; i++) {
        char text[24];
        const char *why;
        CHECK_INT(getrandom(text, sizeof text, 0), ==, sizeof text);
        text[sizeof text - 1] = '\0';
        const char *written = quoted(text);
        struct json_node *read_back = json_parse(written, &why);
        if (!read_back) {
            FAIL("%s: %s", why, written);
        }
        for (const char *p = written; *p; p++) {
            CHECK((unsigned char)*p >= 0x20 && *p != 0x7f);
        }
        json_free(read_back);
    }
}

TEST(a_document_has_its_commas_where_they_belong)
{
    char out[512];
    FILE *file = fmemopen(out, sizeof out, "w");
    CHECK(file != NULL);
    struct json j = {.out = file};
    json_open(&j, NULL, '{');
    json_text(&j, "a", NULL);
    json_open(&j, "b", '[');
    json_close(&j, ']');
    json_open(&j, "c", '[');
    json_integer(&j, NULL, INT64_MIN);
    json_boolean(&j, NULL, true);
    json_open(&j, NULL, '{');
    json_close(&j, '}');
    json_close(&j, ']');
    json_token(&j, "d", UINT64_MAX);
    json_token(&j, "e", 0);
    json_close(&j, '}');
    CHECK_INT(fclose(file), ==, 0);
    CHECK_STR(out, "{\n  \"a\": null,\n  \"b\": [],\n  \"c\": [\n    -9223372036854775808,\n"
                   "    true,\n    {}\n  ],\n  \"d\": \"18446744073709551615\",\n"
                   "  \"e\": null\n}\n");
}

/* ---- Tables ----------------------------------------------------------------------------- */

static const char *printed(struct table *table)
{
    static char out[4096];
    FILE *file = fmemopen(out, sizeof out, "w");
    CHECK(file != NULL);
    table_print(table, file, "  ");
    CHECK_INT(fclose(file), ==, 0);
    table_free(table);
    return out;
}

TEST(columns_are_aligned_by_characters_and_empty_ones_left_out)
{
    struct table table = {.columns = 3, .heads = {"A", "EMPTY", "C"}};
    table_add(&table, "%s", "ímß");
    table_add(&table, "%s", "");
    table_add(&table, "%s", "x");
    table_add(&table, "%s", "");
    table_add(&table, "%s", "");
    table_add(&table, "%d", 1234);
    CHECK_STR(printed(&table), "  A    C\n"
                               "  ímß  x\n"
                               "       1234\n");
}

TEST(what_a_terminal_would_obey_is_not_printed)
{
    struct table table = {.columns = 1, .heads = {"A"}};
    table_add(&table, "%s",
              "a\033[2Jb\n\xff\xc2\x9b"
              "c");
    CHECK_STR(printed(&table), "  A\n  a\xef\xbf\xbd[2Jb\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"
                               "c\n");
}

/* ---- The checker itself ----------------------------------------------------------------- */

TEST(what_is_not_json_is_not_read)
{
    static const char *const bad[] = {
        "",
        "{",
        "[1,]",
        "{\"a\":1,}",
        "{\"a\":1 \"b\":2}",
        "01",
        "1.",
        "-",
        "1e",
        "\"\\x\"",
        "\"\n\"",
        "\"\\ud800\"",
        "\"\xff\"",
        "nul",
        "[1] 2",
        "{\"a\":1,\"a\":2}",
        "{a:1}",
        "'a'",
        "\"a",
        "[\"a\"",
        "\"\\u12",
        "+1",
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        const char *why = NULL;
        if (json_parse(bad[i], &why)) {
            FAIL("'%s' was read", bad[i]);
        }
        CHECK(why != NULL);
    }
}

static void must_differ(const char *schema_text, const char *good, const char *bad)
{
    const char *why;
    struct json_node *schema = json_parse(schema_text, &why);
    struct json_node *yes = json_parse(good, &why);
    struct json_node *no = json_parse(bad, &why);
    CHECK(schema != NULL && yes != NULL && no != NULL);
    why = json_invalid(yes, schema);
    if (why) {
        FAIL("%s should be valid: %s", good, why);
    }
    if (!json_invalid(no, schema)) {
        FAIL("%s should not be valid by %s", bad, schema_text);
    }
    json_free(schema);
    json_free(yes);
    json_free(no);
}

TEST(every_keyword_of_the_schema_is_looked_at)
{
    must_differ("{\"type\":\"integer\"}", "7", "7.5");
    must_differ("{\"type\":[\"string\",\"null\"]}", "null", "true");
    must_differ("{\"const\":1}", "1", "2");
    must_differ("{\"enum\":[\"a\",\"b\"]}", "\"b\"", "\"c\"");
    must_differ("{\"required\":[\"a\"]}", "{\"a\":1}", "{\"b\":1}");
    must_differ("{\"properties\":{\"a\":{\"type\":\"null\"}}}", "{\"b\":1}", "{\"a\":1}");
    must_differ("{\"items\":{\"type\":\"null\"}}", "[null]", "[null,1]");
    must_differ("{\"oneOf\":[{\"const\":1},{\"type\":\"number\"}]}", "2", "1");
    must_differ("{\"minimum\":1}", "1", "0");
    must_differ("{\"minLength\":1}", "\"a\"", "\"\"");
    must_differ("{\"minItems\":1}", "[1]", "[]");
    must_differ("{\"pattern\":\"^a+$\"}", "\"aa\"", "\"ab\"");
    must_differ("{\"$ref\":\"#/$defs/x\",\"$defs\":{\"x\":{\"const\":1}}}", "1", "2");
}

TEST(a_keyword_nobody_looks_at_fails_the_check)
{
    const char *why;
    struct json_node *schema = json_parse("{\"maximum\":5}", &why);
    struct json_node *document = json_parse("1", &why);
    CHECK(json_invalid(document, schema) != NULL);
    json_free(schema);
    json_free(document);
}

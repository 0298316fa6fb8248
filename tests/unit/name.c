/* SPDX-License-Identifier: Apache-2.0 */
/* Names and labels: which bytes may be one. */
#include "check.h"
#include "core/name.h"

#include <string.h>

static snib_error error;

#define ACCEPTED(name) CHECK_OK(snib__name_check((name), &error), error.message)

#define REFUSED(name, reason)                                                                      \
    do {                                                                                           \
        CHECK_INT(snib__name_check((name), &error), ==, SNIB_EINVAL);                              \
        CHECK_INT(error.code, ==, SNIB_EINVAL);                                                    \
        CHECK_STR(error.message, "the name of the lock " reason);                                  \
    } while (0)

TEST(plain_and_odd_looking_names_are_accepted)
{
    ACCEPTED("nightly-report");
    ACCEPTED("/var/lock/backup");
    ACCEPTED("a b {c} \\ \" ' ; DROP TABLE * ? .. ~");
    ACCEPTED(".");
    ACCEPTED(" ");
}

TEST(every_length_of_utf_8_is_accepted)
{
    ACCEPTED("\xc2\xa0");         /* U+00A0, the first behind the controls */
    ACCEPTED("\xdf\xbf");         /* U+07FF */
    ACCEPTED("\xe0\xa0\x80");     /* U+0800 */
    ACCEPTED("\xed\x9f\xbf");     /* U+D7FF, the last before the surrogates */
    ACCEPTED("\xee\x80\x80");     /* U+E000, the first behind them */
    ACCEPTED("\xef\xbf\xbf");     /* U+FFFF */
    ACCEPTED("\xf0\x90\x80\x80"); /* U+10000 */
    ACCEPTED("\xf4\x8f\xbf\xbf"); /* U+10FFFF */
}

TEST(a_name_has_1_to_200_bytes)
{
    char name[202];
    memset(name, 'x', sizeof name);
    name[200] = '\0';
    ACCEPTED(name);
    name[200] = 'x';
    name[201] = '\0';
    REFUSED(name, "has 201 bytes, allowed is 1 to 200");
    REFUSED("", "is empty, allowed is 1 to 200 bytes");
    REFUSED(NULL, "is empty, allowed is 1 to 200 bytes");
}

TEST(bytes_are_counted_not_characters)
{
    char name[203];
    for (size_t i = 0; i < 202; i += 2) {
        memcpy(name + i, "\xc3\xa4", 2);
    }
    name[202] = '\0';
    REFUSED(name, "has 202 bytes, allowed is 1 to 200");
    name[200] = '\0';
    ACCEPTED(name);
}

TEST(control_characters_are_refused_with_their_place)
{
    REFUSED("a\nb", "has a control character at byte 2");
    REFUSED("\x01", "has a control character at byte 1");
    REFUSED("abc\x1f", "has a control character at byte 4");
    REFUSED("\t", "has a control character at byte 1");
    REFUSED("a\x7f", "has a control character at byte 2");
    REFUSED("\xc3\xa4\xc2\x80", "has a control character at byte 3");
    REFUSED("\xc2\x9b[31m", "has a control character at byte 1");
    REFUSED("\xc2\x9f", "has a control character at byte 1");
}

TEST(overlong_forms_are_refused)
{
    REFUSED("\xc0\x80", "is not UTF-8 at byte 1");
    REFUSED("\xc1\xbf", "is not UTF-8 at byte 1");
    REFUSED("a\xe0\x9f\xbf", "is not UTF-8 at byte 2");
    REFUSED("\xf0\x8f\xbf\xbf", "is not UTF-8 at byte 1");
}

TEST(surrogates_and_what_lies_beyond_unicode_are_refused)
{
    REFUSED("\xed\xa0\x80", "is not UTF-8 at byte 1");
    REFUSED("\xed\xbf\xbf", "is not UTF-8 at byte 1");
    REFUSED("\xf4\x90\x80\x80", "is not UTF-8 at byte 1");
    REFUSED("\xf5\x80\x80\x80", "is not UTF-8 at byte 1");
    REFUSED("\xfe", "is not UTF-8 at byte 1");
    REFUSED("\xff", "is not UTF-8 at byte 1");
}

TEST(characters_that_are_cut_short_are_refused)
{
    REFUSED("\x80", "is not UTF-8 at byte 1");
    REFUSED("ab\xc3", "is not UTF-8 at byte 3");
    REFUSED("\xe2\x82", "is not UTF-8 at byte 1");
    REFUSED("\xe2\x82z", "is not UTF-8 at byte 1");
    REFUSED("\xf0\x9f\x94", "is not UTF-8 at byte 1");
    REFUSED("\xf0\x9fzz", "is not UTF-8 at byte 1");
    REFUSED("\xe2z\x82", "is not UTF-8 at byte 1");
}

TEST(a_label_has_0_to_60_bytes)
{
    char label[62];
    memset(label, 'x', sizeof label);
    label[60] = '\0';
    CHECK_OK(snib__label_check(label, &error), error.message);
    CHECK_OK(snib__label_check("", &error), error.message);
    CHECK_OK(snib__label_check(NULL, &error), error.message);
    label[60] = 'x';
    label[61] = '\0';
    CHECK_INT(snib__label_check(label, &error), ==, SNIB_EINVAL);
    CHECK_STR(error.message, "the label has 61 bytes, allowed is 0 to 60");
}

TEST(a_label_is_text_like_a_name)
{
    CHECK_OK(snib__label_check("n\xc3\xa4"
                               "chtlich",
                               &error),
             error.message);
    CHECK_INT(snib__label_check("a\nb", &error), ==, SNIB_EINVAL);
    CHECK_STR(error.message, "the label has a control character at byte 2");
    CHECK_INT(snib__label_check("\xc3", NULL), ==, SNIB_EINVAL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* URLs and their parameters: what is accepted, what is refused and how, what is shown. */
#include "check.h"
#include "core/url.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct snib__url url;
static struct snib__settings settings;
static snib_error error;

static void accept_url(const char *text)
{
    int rc = snib__url_parse(&url, &settings, text, &error);
    CHECK_OK(rc, error.message);
}

static void done(void)
{
    snib__url_free(&url, &settings);
}

#define CONTAINS(text, part)                                                                       \
    do {                                                                                           \
        if (strstr((text), (part)) == NULL) {                                                      \
            FAIL("'%s' is not in '%s'", (part), (text));                                           \
        }                                                                                          \
    } while (0)

/* The message must name `part`, and nothing may be left to free. */
#define REFUSED(text, part)                                                                        \
    do {                                                                                           \
        error.message[0] = '\0';                                                                   \
        CHECK_INT(snib__url_parse(&url, &settings, (text), &error), ==, SNIB_EINVAL);              \
        CHECK_INT(error.code, ==, SNIB_EINVAL);                                                    \
        CONTAINS(error.message, (part));                                                           \
        CHECK(url.scheme == NULL && url.password == NULL && settings.list == NULL);                \
    } while (0)

#define SHOWN(text, expected)                                                                      \
    do {                                                                                           \
        char *shown = snib__url_redact(text);                                                      \
        CHECK_STR(shown, (expected));                                                              \
        free(shown);                                                                               \
    } while (0)

/* ---- What is accepted ------------------------------------------------------------------- */

TEST(a_scheme_alone_is_a_url)
{
    accept_url("file:");
    CHECK_STR(url.scheme, "file");
    CHECK_STR(url.user, "");
    CHECK_STR(url.password, "");
    CHECK_STR(url.path, "");
    CHECK_INT(url.host_count, ==, 0);
    CHECK_INT(settings.count, ==, 0);
    done();
}

TEST(a_scheme_alone_may_have_parameters)
{
    accept_url("file:?group=staff");
    CHECK_STR(url.path, "");
    CHECK_INT(settings.count, ==, 1);
    CHECK_STR(settings.list[0].key, "group");
    CHECK_STR(settings.list[0].value, "staff");
    CHECK(!settings.list[0].used);
    done();
}

TEST(three_slashes_start_a_path_without_a_host)
{
    accept_url("file:///srv/my%20locks");
    CHECK_STR(url.path, "/srv/my locks");
    CHECK_INT(url.host_count, ==, 0);
    done();
    accept_url("unix:///run/redis.sock?layout=plain");
    CHECK_STR(url.scheme, "unix");
    CHECK_STR(url.path, "/run/redis.sock");
    done();
}

TEST(all_parts_at_once_are_told_apart)
{
    accept_url("redis+sentinel://bob:s3cret@a.example,b-2:26379,[::1]:7/main/0?ttl=30s&tls=");
    CHECK_STR(url.scheme, "redis+sentinel");
    CHECK_STR(url.user, "bob");
    CHECK_STR(url.password, "s3cret");
    CHECK_INT(url.host_count, ==, 3);
    CHECK_STR(url.hosts[0].name, "a.example");
    CHECK_INT(url.hosts[0].port, ==, 0);
    CHECK_STR(url.hosts[1].name, "b-2");
    CHECK_INT(url.hosts[1].port, ==, 26379);
    CHECK_STR(url.hosts[2].name, "::1");
    CHECK_INT(url.hosts[2].port, ==, 7);
    CHECK_STR(url.path, "/main/0");
    CHECK_INT(settings.count, ==, 2);
    CHECK_STR(settings.list[0].value, "30s");
    CHECK_STR(settings.list[1].value, "");
    done();
}

TEST(a_password_needs_no_user_and_a_user_no_password)
{
    accept_url("redis://:pw@host");
    CHECK_STR(url.user, "");
    CHECK_STR(url.password, "pw");
    done();
    accept_url("mysql://bob@host");
    CHECK_STR(url.user, "bob");
    CHECK_STR(url.password, "");
    done();
}

TEST(a_password_goes_with_a_socket_too)
{
    accept_url("unix://bob:pw@/run/redis.sock");
    CHECK_STR(url.password, "pw");
    CHECK_INT(url.host_count, ==, 0);
    CHECK_STR(url.path, "/run/redis.sock");
    done();
}

TEST(escapes_are_decoded_in_user_password_path_and_values)
{
    accept_url("redis://b%40b:p%3A%2f%40%01@host/a%3fb?label=x%26y%3D%2B+z");
    CHECK_STR(url.user, "b@b");
    CHECK_STR(url.password, "p:/@\001");
    CHECK_STR(url.path, "/a?b");
    CHECK_STR(settings.list[0].value, "x&y=++z");
    done();
}

TEST(a_colon_in_a_password_needs_no_escape)
{
    accept_url("redis://bob:a:b@host:1");
    CHECK_STR(url.user, "bob");
    CHECK_STR(url.password, "a:b");
    CHECK_STR(url.hosts[0].name, "host");
    done();
}

TEST(an_at_sign_in_the_path_is_fine_where_no_password_can_be)
{
    accept_url("file:///srv/bob@example.org/locks");
    CHECK_STR(url.path, "/srv/bob@example.org/locks");
    done();
    accept_url("redis://host/?label=bob@home");
    CHECK_STR(settings.list[0].value, "bob@home");
    done();
}

TEST(a_key_without_an_equals_sign_has_no_value)
{
    accept_url("redis://host?tls&ttl=1s");
    CHECK_STR(settings.list[0].key, "tls");
    CHECK(settings.list[0].value == NULL);
    CHECK_STR(settings.list[1].value, "1s");
    done();
}

TEST(sixteen_hosts_and_the_largest_port_are_accepted)
{
    accept_url("redlock://a:65535,b:1,c,d,e,f,g,h,i,j,k,l,m,n,o,p");
    CHECK_INT(url.host_count, ==, 16);
    CHECK_INT(url.hosts[0].port, ==, 65535);
    CHECK_INT(url.hosts[1].port, ==, 1);
    CHECK_STR(url.hosts[15].name, "p");
    done();
}

TEST(exactly_2048_bytes_are_accepted)
{
    char text[2050];
    memset(text, 'a', sizeof text);
    memcpy(text, "file:///", 8);
    text[2048] = '\0';
    accept_url(text);
    CHECK_INT(strlen(url.path), ==, 2041);
    done();
    text[2048] = 'a';
    text[2049] = '\0';
    REFUSED(text, "it has 2049 bytes, at most 2048 are allowed");
}

TEST(freeing_twice_or_nothing_is_harmless)
{
    accept_url("redis://u:p@h?a=b");
    done();
    done();
    snib__url_free(NULL, NULL);
    CHECK(url.scheme == NULL && settings.list == NULL);
}

/* ---- What is refused -------------------------------------------------------------------- */

TEST(no_url_is_an_error)
{
    REFUSED(NULL, "no URL");
    REFUSED("", "empty");
}

TEST(a_host_or_a_directory_alone_is_refused_with_the_url_to_write)
{
    REFUSED("localhost", "redis://HOST");
    REFUSED("localhost:6379", "redis://HOST:PORT");
    REFUSED("redis:6379", "redis://HOST:PORT");
    REFUSED("/run/lock", "file:///DIRECTORY");
    REFUSED("./locks", "absolute");
}

TEST(a_scheme_is_lower_case_and_starts_with_a_letter)
{
    REFUSED("Redis://host", "scheme in lower case");
    REFUSED("://host", "scheme");
    REFUSED("9p://host", "scheme");
    REFUSED("localhost", "scheme");
    REFUSED("re_dis://host", "scheme");
}

TEST(a_relative_path_is_refused_with_the_right_spelling)
{
    REFUSED("file:locks/here", "file:///path");
    REFUSED("file:/srv/locks", "file:///path");
    REFUSED("file:./locks", "file:///path");
}

TEST(two_slashes_want_a_host_or_a_path)
{
    REFUSED("redis://", "host");
    REFUSED("redis://?ttl=1s", "host");
    REFUSED("redis://bob:pw@", "host");
}

TEST(spaces_control_characters_and_other_bytes_are_refused)
{
    REFUSED("file:///a b", "byte 10");
    REFUSED("file:\n", "byte 6");
    REFUSED("file:///\x7f", "byte 9");
    REFUSED("file:///gr\xc3\xb6\xc3\x9f", "byte 11");
    REFUSED("file:///a#b", "%23");
}

TEST(broken_escapes_and_escaped_nul_are_refused_by_part)
{
    REFUSED("redis://b%4:pw@h", "user");
    REFUSED("redis://b:p%zz@h", "password");
    REFUSED("redis://b:p%4@h", "password");
    REFUSED("redis://b:p%00w@h", "the password must not hold %00");
    REFUSED("redis://h/a%", "path");
    REFUSED("redis://h/a%00", "path");
    REFUSED("redis://h/a%0a", "path must not hold control");
    REFUSED("redis://b%7f@h", "user must not hold control");
    REFUSED("redis://h?label=%1b", "value of 'label' must not hold control");
    REFUSED("redis://h?label=%g0", "value of 'label'");
}

TEST(hosts_are_counted_and_checked)
{
    REFUSED("redlock://a,b,c,d,e,f,g,h,i,j,k,l,m,n,o,p,q", "at most 16 hosts");
    REFUSED("redlock://a,,b", "host 2 is empty");
    REFUSED("redlock://a,", "host 2 is empty");
    REFUSED("redlock://a,b!", "host 2 is neither");
    REFUSED("redlock://a,-b", "host 2 is neither");
    REFUSED("redis://h%61", "host 1 is neither");
    REFUSED("redis://[::1", "host 1 is neither");
    REFUSED("redis://[::1]x", "host 1 is neither");
    REFUSED("redis://[1.2.3.4]", "host 1 is neither");
    REFUSED("redis://[fe80::1%25eth0]", "host 1 is neither");
    REFUSED("redis://::1", "host 1");
}

TEST(a_host_name_has_at_most_253_bytes)
{
    char text[300] = "redis://";
    memset(text + 8, 'a', 254);
    REFUSED(text, "253");
    text[8 + 253] = '\0';
    accept_url(text);
    done();
}

TEST(the_same_host_twice_is_refused)
{
    REFUSED("redlock://a:1,b:1,A:1", "hosts 1 and 3 are the same");
    accept_url("redlock://a:1,a:2,a");
    done();
}

TEST(ports_are_numbers_from_1_to_65535)
{
    REFUSED("redis://a,b:0", "port of host 2 is not a number from 1 to 65535");
    REFUSED("redis://a:65536", "1 to 65535");
    REFUSED("redis://a:99999999999999999999", "1 to 65535");
    REFUSED("redis://a:", "1 to 65535");
    REFUSED("redis://a:-1", "1 to 65535");
    REFUSED("redis://a:06379", "1 to 65535");
    REFUSED("redis://a:6379x", "1 to 65535");
}

TEST(an_empty_user_or_password_is_refused)
{
    REFUSED("redis://@h", "user before the '@' is empty");
    REFUSED("redis://bob:@h", "password between ':' and '@' is empty");
    REFUSED("redis://:@h", "password between ':' and '@' is empty");
}

TEST(keys_are_checked)
{
    REFUSED("file:?", "key of parameter 1 is empty");
    REFUSED("file:?a=1&", "key of parameter 2 is empty");
    REFUSED("file:?a=1&&b=2", "key of parameter 2 is empty");
    REFUSED("file:?=1", "key of parameter 1 is empty");
    REFUSED("file:?a=1&b=2&a=3", "parameters 1 and 3 are both 'a'");
    REFUSED("file:?a&a=1", "both 'a'");
    REFUSED("file:?tTl=1", "lower-case");
    REFUSED("file:?t%74l=1", "lower-case");
}

TEST(a_password_with_forgotten_escapes_is_refused_and_not_shown)
{
    static const char *const texts[] = {
        "redis://bob:hun@ter2@host",
        "redis://bob:hun/ter2@host",
        "redis://bob:hun?ter2@host",
        "redis://bob:hun#ter2@host",
        "redis://bob:hun ter2@host",
        "redis://bob:6379/hunter2@host",
        "redis://bo/b:hunter2@host",
        "redis://:/hunter2@host",
        "redis://bob:hunter2",
        "redis://bob:hunter2/0",
        "redis://a:1,bob:hunter2",
        "redis:bob:hunter2@host",
        "redis:/bob:hunter2@host",
        "redis//bob:hunter2@host",
        "bob:hunter2@host",
        "bob%3Ahunter2@host",
        "redis://bob%3ahunter2@host",
        "redis://bob%3Ahunter2%40host",
        "redis://bob:hunter2@@host",
        "redis://bob:hunter2@host:x",
        "redis://bob:hunter2@ho[st:1/",
        "redis://bob:hunter2@host,host",
        "redis://bob:hun%ter2@host",
        "redis://bob:hunter2@host/?mail=a@b",
        "redis://bob:hun\xc3ter2@host",
        "redis://host?password=hun&ter2",
        "redis://host?secret=hunter2&",
        "redis://host/?password=hun:ter2@x",
        "redis://[::1:hunter2",
        "redis://host:6379?password=hun@ter2",
        "redis:hunter2",
        "hunter2@host",
    };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        REFUSED(texts[i], "URL '");
        if (strstr(error.message, "hun") != NULL || strstr(error.message, "ter2") != NULL) {
            FAIL("%s: %s", texts[i], error.message);
        }
    }
}

TEST(an_at_sign_that_may_end_a_password_is_refused_with_the_right_spelling)
{
    REFUSED("redis://host:6379/a@b", "'@' behind the hosts is written %40");
    REFUSED("redis://bob:pw@host/a@b", "'@' behind the hosts is written %40");
    REFUSED("redis://bob:p@w@host", "'@' in a user or password is written %40");
    REFUSED("redis://b%3Ab:pw@host", "%3A");
    accept_url("redis://host:6379/a%40b");
    CHECK_STR(url.path, "/a@b");
    done();
}

TEST(a_long_url_does_not_crowd_the_reason_out_of_the_message)
{
    char text[2001];
    memset(text, 'a', sizeof text);
    memcpy(text, "redis://", 8);
    memcpy(text + 1990, "?a=1&b=%00", 11);
    REFUSED(text, "host 1");
    CONTAINS(error.message, "...");
}

TEST(an_error_needs_nobody_who_listens)
{
    CHECK_INT(snib__url_parse(&url, &settings, "redis://a:0", NULL), ==, SNIB_EINVAL);
}

/* ---- What is shown ---------------------------------------------------------------------- */

TEST(a_url_without_secrets_is_shown_as_it_is)
{
    static const char *const texts[] = {
        "file:",
        "file:///srv/bob@example.org/a:b",
        "redis://bob@a:6379,[::1]:6380,c/0?ttl=30s&token-base=5&passfile=/etc/pw",
        "redlock://a,b,c?tls&label=a=b",
        "file:///token=5/locks",
        "localhost",
    };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        SHOWN(texts[i], texts[i]);
    }
}

TEST(a_password_is_shown_as_stars)
{
    SHOWN("redis://bob:hunter2@host:6379/0?ttl=30s", "redis://bob:***@host:6379/0?ttl=30s");
    SHOWN("redis://:hunter2@host", "redis://:***@host");
    SHOWN("redis://:hun@ter:2x?x=", "redis://:***"); /* with an '@' of its own */
    SHOWN("redis://bob:@host", "redis://bob:@host");
    SHOWN("unix://:pw@/run/redis.sock", "unix://:***@/run/redis.sock");
}

TEST(values_of_secret_keys_are_shown_as_stars)
{
    SHOWN("redis://h?password=x&ttl=1s", "redis://h?password=***&ttl=1s");
    SHOWN("redis://h?ttl=1s&pass=x", "redis://h?ttl=1s&pass=***");
    SHOWN("redis://h?sentinel-password=x", "redis://h?sentinel-password=***");
    SHOWN("redis://h?the-password-of-all-sentinels-password=x",
          "redis://h?the-password-of-all-sentinels-password=***");
    SHOWN("redis://h?PassWord=x&token=y", "redis://h?PassWord=***&token=***");
    SHOWN("redis://h?p%61ss_word=x", "redis://h?p%61ss_word=***");
    SHOWN("redis://h?password%3Dx", "redis://h?password%3D***");
    SHOWN("redis://h?options=password=x", "redis://h?options=password=***");
    SHOWN("redis://h?auth=x&y&ttl=1s", "redis://h?auth=***&ttl=1s");
    SHOWN("redis://h&secret=x", "redis://h&secret=***");
    SHOWN("redis://a:b@h/?x=1@c&secret=x", "redis://a:***@c&secret=***");
    SHOWN("redis://h/?password=x:y@z", "redis://h/?password=***");
    SHOWN("redis://h:6379?password=x@y&ttl=1s", "redis://h:***&ttl=1s");
    SHOWN("redis://h:6379&password=x@y", "redis://h:***");
    SHOWN("redis://a:b@h?password=", "redis://a:***@h?password=");
}

TEST(what_is_no_url_is_shown_with_much_hidden)
{
    SHOWN("", "");
    SHOWN(":", ":");
    SHOWN(":x", ":***");
    SHOWN("@", "***");
    SHOWN("a@b", "***");
    SHOWN("bob:pw@host", "bob:***@host");
    SHOWN("redis:bob:pw@host", "redis:***@host");
    SHOWN("redis://bob:pw", "redis://bob:***");
    SHOWN("redis://bob:12345", "redis://bob:12345");
    SHOWN("redis://bob:123456", "redis://bob:***");
    SHOWN("redis://bob:1,c:2x/y", "redis://bob:1,c:***");
    SHOWN("redis://bob:pa@ss/wo?rd@host/0", "redis://bob:***@host/0");
}

TEST(what_a_terminal_obeys_is_not_shown)
{
    SHOWN("file:///\x1b[31m\xc2\x9b\x7f", "file:///_[31m___");
}

/* ---- Parameters ------------------------------------------------------------------------- */

static const struct snib__param rows[] = {
    {.name = "ttl", .type = SNIB__DURATION, .normal = "30s", .min = 100, .max = 60000},
    {.name = "wait", .type = SNIB__DURATION, .min = 0, .max = INT64_MAX},
    {.name = "nodes", .type = SNIB__COUNT, .normal = "3", .min = 1, .max = 16},
    {.name = "tls", .type = SNIB__FLAG},
    {.name = "group", .type = SNIB__TEXT, .min = 1, .max = 8},
    {.name = "layout", .type = SNIB__CHOICE, .normal = "plain", .choices = "native|plain|redisson"},
    {.name = NULL},
};

enum { TTL, WAIT, NODES, TLS, GROUP, LAYOUT, ROWS };

static union snib__value values[ROWS];

static void read_params(const char *query)
{
    char text[300];
    (void)snprintf(text, sizeof text, "file:%s", query);
    accept_url(text);
    CHECK_OK(snib__params_read(values, rows, &settings, &error), error.message);
    CHECK_OK(snib__params_all_used(&settings, rows, NULL, &error), error.message);
}

static void refuse_params(const char *query, const char *part)
{
    char text[300];
    (void)snprintf(text, sizeof text, "file:?%s", query);
    accept_url(text);
    CHECK_INT(snib__params_read(values, rows, &settings, &error), ==, SNIB_EINVAL);
    CONTAINS(error.message, part);
    done();
}

TEST(parameters_not_given_have_their_defaults)
{
    read_params("");
    CHECK_INT(values[TTL].number, ==, 30000);
    CHECK_INT(values[WAIT].number, ==, -1);
    CHECK_INT(values[NODES].number, ==, 3);
    CHECK_INT(values[TLS].number, ==, -1);
    CHECK(values[GROUP].text == NULL);
    CHECK_INT(values[LAYOUT].number, ==, 1);
    done();
}

TEST(parameters_are_read_by_type)
{
    read_params("?layout=redisson&group=staff&tls=true&nodes=5&wait=2h&ttl=500ms");
    CHECK_INT(values[TTL].number, ==, 500);
    CHECK_INT(values[WAIT].number, ==, 7200000);
    CHECK_INT(values[NODES].number, ==, 5);
    CHECK_INT(values[TLS].number, ==, 1);
    CHECK_STR(values[GROUP].text, "staff");
    CHECK_INT(values[LAYOUT].number, ==, 2);
    done();
}

TEST(both_limits_are_allowed)
{
    read_params("?ttl=100ms&nodes=1&group=x");
    CHECK_INT(values[TTL].number, ==, 100);
    done();
    read_params("?ttl=1m&nodes=16&group=12345678");
    CHECK_INT(values[TTL].number, ==, 60000);
    CHECK_STR(values[GROUP].text, "12345678");
    done();
}

TEST(durations_have_four_units)
{
    static const struct {
        const char *query;
        int64_t ms;
    } cases[] = {
        {"?wait=0ms", 0},
        {"?wait=1ms", 1},
        {"?wait=7s", 7000},
        {"?wait=5m", 300000},
        {"?wait=1h", 3600000},
        {"?wait=010s", 10000},
        {"?wait=9223372036854775807ms", INT64_MAX},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        read_params(cases[i].query);
        CHECK_INT(values[WAIT].number, ==, cases[i].ms);
        done();
    }
}

TEST(durations_without_a_unit_are_refused)
{
    refuse_params("ttl=30", "'ttl' is '30' without a unit");
    refuse_params("ttl=0", "without a unit");
    refuse_params("ttl=", "not a duration such as 500ms, 30s, 5m or 1h");
    refuse_params("ttl=s", "not a duration");
    refuse_params("ttl=-1s", "not a duration");
    refuse_params("ttl=1.5s", "not a whole number with one unit");
    refuse_params("ttl=1S", "not a whole number with one unit");
    refuse_params("ttl=1m30s", "not a whole number with one unit");
    refuse_params("ttl=5%20s", "not a whole number with one unit");
    refuse_params("ttl", "'ttl' has no value: write ttl=VALUE");
}

TEST(numbers_out_of_range_are_refused_with_both_limits)
{
    refuse_params("ttl=99ms", "'ttl' is '99ms', allowed is 100ms to 1m");
    refuse_params("ttl=60001ms", "allowed is 100ms to 1m");
    refuse_params("ttl=2h", "allowed is 100ms to 1m");
    refuse_params("nodes=0", "'nodes' is '0', allowed is 1 to 16");
    refuse_params("nodes=17", "allowed is 1 to 16");
    refuse_params("group=", "'group' has 0 bytes, allowed is 1 to 8");
    refuse_params("group=123456789", "has 9 bytes, allowed is 1 to 8");
}

TEST(numbers_too_large_to_hold_are_out_of_range)
{
    refuse_params("wait=9223372036854775808ms", "allowed is 0ms to 9223372036854775807ms");
    refuse_params("wait=9223372036854776s", "allowed is 0ms");
    refuse_params("wait=5124095576030432h", "allowed is 0ms");
    refuse_params("wait=18446744073709551617s", "allowed is 0ms");
    refuse_params("wait=18446744073709551630s", "allowed is 0ms");
    refuse_params("nodes=18446744073709551617", "allowed is 1 to 16");
    refuse_params("nodes=18446744073709551630", "allowed is 1 to 16");
    refuse_params("nodes=99999999999999999999999999999999999999999999999999", "...'");
}

TEST(counts_are_whole_numbers)
{
    refuse_params("nodes=", "not a whole number");
    refuse_params("nodes=3x", "not a whole number");
    refuse_params("nodes=%2B3", "not a whole number");
    refuse_params("nodes", "has no value");
}

TEST(flags_are_yes_or_no_and_a_bare_key_means_yes)
{
    static const struct {
        const char *query;
        int set;
    } cases[] = {
        {"?tls", 1},   {"?tls=yes", 1}, {"?tls=true", 1},  {"?tls=1", 1},
        {"?tls=0", 0}, {"?tls=no", 0},  {"?tls=false", 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        read_params(cases[i].query);
        CHECK_INT(values[TLS].number, ==, cases[i].set);
        done();
    }
    refuse_params("tls=", "neither yes, true, 1 nor no, false, 0");
    refuse_params("tls=YES", "neither yes");
    refuse_params("tls=2", "neither yes");
}

TEST(choices_are_listed_when_none_is_met)
{
    refuse_params("layout=plai", "'layout' is 'plai', not one of native|plain|redisson");
    refuse_params("layout=plain%7Credisson", "not one of");
    refuse_params("layout=", "not one of");
    refuse_params("layout=gr%C3%B6%C3%9Fe", "is 'gr____e', not one of");
    refuse_params("layout", "has no value");
}

TEST(the_value_of_a_text_is_never_quoted)
{
    refuse_params("group=hunter2-hunter2", "has 15 bytes");
    CHECK(strstr(error.message, "hunter2") == NULL);
}

TEST(a_default_out_of_range_is_refused_like_any_other_value)
{
    static const struct snib__param bad[] = {
        {.name = "ttl", .type = SNIB__DURATION, .normal = "30", .min = 1, .max = 2},
        {.name = NULL},
    };
    accept_url("file:");
    CHECK_INT(snib__params_read(values, bad, &settings, &error), ==, SNIB_EINVAL);
    CONTAINS(error.message, "without a unit");
    done();
}

/* ---- What nobody knows ------------------------------------------------------------------ */

static void unknown(const char *text, const struct snib__param *first,
                    const struct snib__param *second, const char *message)
{
    accept_url(text);
    CHECK_INT(snib__params_all_used(&settings, first, second, &error), ==, SNIB_EINVAL);
    CHECK_STR(error.message, message);
    done();
}

static const struct snib__param more[] = {
    {.name = "timeout", .type = SNIB__DURATION, .min = 1, .max = 2},
    {.name = NULL},
};

static const struct snib__param long_names[] = {
    {.name = "a-name-that-is-almost-as-long-as-any-name-would-be-in-a-table"},
    {.name = "another-name-that-is-almost-as-long-as-any-name-would-be-in-a-table"},
    {.name = "one-more-name-that-is-almost-as-long-as-any-name-would-be-in-a-table"},
    {.name = "b"},
    {.name = NULL},
};

TEST(an_unknown_parameter_is_named_with_the_nearest_known_one)
{
    unknown(
        "file:?timout=1s", rows, more,
        "unknown URL parameter 'timout'; did you mean 'timeout'?; known: ttl, wait, nodes, tls, "
        "group, layout, timeout");
    unknown("file:?gruop=x", rows, NULL,
            "unknown URL parameter 'gruop'; did you mean 'group'?; known: ttl, wait, nodes, tls, "
            "group, layout");
    unknown("file:?database=5", more, NULL, "unknown URL parameter 'database'; known: timeout");
}

TEST(a_long_list_of_known_parameters_is_left_out)
{
    unknown("file:?xyz=1", long_names, more, "unknown URL parameter 'xyz'");
    unknown("file:?timeouts=1", long_names, more,
            "unknown URL parameter 'timeouts'; did you mean 'timeout'?");
}

TEST(an_unknown_parameter_where_none_is_known_is_refused_too)
{
    unknown("file:?a-key-longer-than-forty-bytes-is-cut-in-the-message=1", NULL, NULL,
            "unknown URL parameter 'a-key-longer-than-forty-bytes-is-cut-in-...'");
}

TEST(parameters_of_two_tables_are_all_used)
{
    accept_url("file:?timeout=2ms&ttl=1s");
    CHECK_OK(snib__params_read(values, rows, &settings, &error), error.message);
    CHECK_INT(snib__params_all_used(&settings, rows, more, &error), ==, SNIB_EINVAL);
    CHECK_OK(snib__params_read(values, more, &settings, &error), error.message);
    CHECK_INT(values[0].number, ==, 2);
    CHECK_OK(snib__params_all_used(&settings, rows, more, &error), error.message);
    done();
}

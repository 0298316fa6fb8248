/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the errors of Redis 6 to 8, Valkey and KeyDB mean, whether a command met them or a script.
 */
#include "check.h"
#include "engines/redis/errors.h"
#include "snib.h"

static void means(const char *text, enum snib__error_kind kind, int code, const char *word)
{
    struct snib__error error = snib__error_read(text);
    if (error.kind != kind || error.code != code || strcmp(error.word, word) != 0) {
        FAIL("%s: kind %d, code %d, word %s", text, (int)error.kind, error.code, error.word);
    }
}

TEST(errors_are_known_by_their_first_word)
{
    means("NOSCRIPT No matching script. Please use EVAL.", SNIB__ERROR_NO_SCRIPT, SNIB_EPROTO,
          "NOSCRIPT");
    means("BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.",
          SNIB__ERROR_LATER, SNIB_EUNREACH, "BUSY");
    means("BUSY Valkey is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.",
          SNIB__ERROR_LATER, SNIB_EUNREACH, "BUSY");
    means("LOADING Redis is loading the dataset in memory", SNIB__ERROR_LATER, SNIB_EUNREACH,
          "LOADING");
    means("MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
          SNIB__ERROR_LATER, SNIB_EUNREACH, "MASTERDOWN");
    means("CLUSTERDOWN The cluster is down", SNIB__ERROR_LATER, SNIB_EUNREACH, "CLUSTERDOWN");
    means("TRYAGAIN Multiple keys request during rehashing of slot", SNIB__ERROR_LATER,
          SNIB_EUNREACH, "TRYAGAIN");
    means("UNKILLABLE Sorry the script already executed write commands", SNIB__ERROR_LATER,
          SNIB_EUNREACH, "UNKILLABLE");
    means("MOVED 3999 127.0.0.1:6381", SNIB__ERROR_MOVED, SNIB_ENOTSUP, "MOVED");
    means("ASK 3999 127.0.0.1:6381", SNIB__ERROR_MOVED, SNIB_ENOTSUP, "ASK");
    means("READONLY You can't write against a read only replica.", SNIB__ERROR_MOVED, SNIB_EUNSAFE,
          "READONLY");
    means("NOAUTH Authentication required.", SNIB__ERROR_DENIED, SNIB_EDENIED, "NOAUTH");
    means("NOPERM this user has no permissions to run the 'eval' command", SNIB__ERROR_DENIED,
          SNIB_EDENIED, "NOPERM");
    means("WRONGTYPE Operation against a key holding the wrong kind of value", SNIB__ERROR_KIND,
          SNIB_EKIND, "WRONGTYPE");
    means("OOM command not allowed when used memory > 'maxmemory'.", SNIB__ERROR_REFUSED,
          SNIB_EUNSAFE, "OOM");
    means("NOREPLICAS Not enough good replicas to write.", SNIB__ERROR_REFUSED, SNIB_EUNSAFE,
          "NOREPLICAS");
    means("MISCONF Redis is configured to save RDB snapshots, but", SNIB__ERROR_REFUSED,
          SNIB_EUNSAFE, "MISCONF");
}

/* The first four as Redis 6 tells them, the others as Redis 7 and later do. */
TEST(errors_inside_a_script_are_the_same_errors)
{
#define NESTED "ERR Error running script (call to f_1be1f4d3c4f5): @user_script:9: "
    means(NESTED "@user_script: 9: -READONLY You can't write against a read only replica. ",
          SNIB__ERROR_MOVED, SNIB_EUNSAFE, "READONLY");
    means(NESTED "@user_script: 9: -OOM command not allowed when used memory > 'maxmemory'. ",
          SNIB__ERROR_REFUSED, SNIB_EUNSAFE, "OOM");
    means(NESTED "WRONGTYPE Operation against a key holding the wrong kind of value",
          SNIB__ERROR_KIND, SNIB_EKIND, "WRONGTYPE");
    means(NESTED "-NOPERM this user has no permissions to access one of the keys used",
          SNIB__ERROR_DENIED, SNIB_EDENIED, "NOPERM");
    means("READONLY You can't write against a read only replica. script: 1be1f4d3, on "
          "@user_script:9.",
          SNIB__ERROR_MOVED, SNIB_EUNSAFE, "READONLY");
    means("WRONGTYPE Operation against a key holding the wrong kind of value script: 1be1f4d3, on "
          "@user_script:9.",
          SNIB__ERROR_KIND, SNIB_EKIND, "WRONGTYPE");
    means("NOPERM The user executing the script can't run this command or subcommand script: "
          "1be1f4d3, on @user_script:9.",
          SNIB__ERROR_DENIED, SNIB_EDENIED, "NOPERM");
#undef NESTED
}

TEST(some_errors_have_no_word_of_their_own)
{
    means("ERR unknown command 'INFO', with args beginning with: 'server' ", SNIB__ERROR_DENIED,
          SNIB_ENOTSUP, "ERR");
    means("ERR unknown command `INFO`, with args beginning with: `server`, ", SNIB__ERROR_DENIED,
          SNIB_ENOTSUP, "ERR");
    means("ERR DB index is out of range", SNIB__ERROR_REFUSED, SNIB_EINVAL, "ERR");
    means("ERR max number of clients reached", SNIB__ERROR_LATER, SNIB_EUNREACH, "ERR");
    means("ERR Protocol error: unauthenticated multibulk length", SNIB__ERROR_DENIED, SNIB_EDENIED,
          "ERR");
    means("ERR something new", SNIB__ERROR_REFUSED, SNIB_EPROTO, "ERR");
    means("", SNIB__ERROR_REFUSED, SNIB_EPROTO, "ERR");
}

/* It is an argument of ours, and not what the server is. */
TEST(a_word_that_the_server_only_repeats_means_nothing)
{
    means("ERR unknown command 'FOO', with args beginning with: 'READONLY' 'BUSY' ",
          SNIB__ERROR_DENIED, SNIB_ENOTSUP, "ERR");
    means("ERR READONLY", SNIB__ERROR_REFUSED, SNIB_EPROTO, "ERR");
    means("BUSYGROUP Consumer Group name already exists", SNIB__ERROR_REFUSED, SNIB_EPROTO, "ERR");
}

TEST(only_what_was_refused_beforehand_is_known_as_not_executed)
{
    CHECK(snib__error_read("BUSY Redis is busy running a script.").undone);
    CHECK(snib__error_read("READONLY You can't write").undone);
    CHECK(!snib__error_read("ERR user_script:1: attempt to index a nil value").undone);
}

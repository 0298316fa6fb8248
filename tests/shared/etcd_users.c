/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who we are to a cluster: passwords, tokens that end, rights.
 */
#include "etcd_world.h"
#include "tls_link.h"

#define PATIENT "&timeout=20s&connect=20s" /* a password takes a server long to verify */

static void enable_users(struct server *etcd)
{
    etcd_post(etcd, "auth/user/add", "{\"name\":\"root\",\"password\":\"secret\"}");
    etcd_post(etcd, "auth/role/add", "{\"name\":\"root\"}");
    etcd_post(etcd, "auth/user/grant", "{\"user\":\"root\",\"role\":\"root\"}");
    CHECK(strstr(etcd_post(etcd, "auth/enable", "{}"), "header") != NULL);
}

TEST(a_user_needs_the_right_password_and_outlasts_a_dead_token)
{
    struct server etcd;
    char url[300];
    snib_lease *lease;
    snib_error error;
    snib_options at_once = SNIB_OPTIONS;
    at_once.wait_ms = 0;
    server_etcd(&etcd, NULL);
    enable_users(&etcd);
    snprintf(url, sizeof url, "etcd://root:secret@127.0.0.1:%d?ttl=60s" PATIENT, etcd.port);
    snib *client = client_of(url);
    lease = take(client, "name", NULL);
    server_kill(&etcd);
    server_start(&etcd); /* tokens were in its memory */
    CHECK_OK(snib_verify(lease, &error), error.message);
    give(lease);
    snib_close(client);

    snprintf(url, sizeof url, "etcd://root:wrong@127.0.0.1:%d?ttl=60s" PATIENT, etcd.port);
    client = client_of(url);
    CHECK_INT(snib_acquire(&lease, client, "name", &at_once, &error), ==, SNIB_EDENIED);
    CHECK(strstr(error.message, "wrong") == NULL);
    snib_close(client);

    client = client_at(etcd.port, "");
    CHECK_INT(snib_acquire(&lease, client, "name", &at_once, &error), ==, SNIB_EDENIED);
    snib_close(client);
}

struct verdict {
    char remedy[300];
    int verdict;
};

static int note_rights(const snib_finding *finding, void *arg)
{
    struct verdict *rights = arg;
    if (strcmp(finding->about, "rights") == 0) {
        rights->verdict = finding->verdict;
        snprintf(rights->remedy, sizeof rights->remedy, "%s",
                 finding->remedy ? finding->remedy : "");
    }
    return 0;
}

/* 'bob:secret' may read and write below locks/ only. */
static void enable_bob(struct server *etcd)
{
    etcd_post(etcd, "auth/user/add", "{\"name\":\"bob\",\"password\":\"secret\"}");
    etcd_post(etcd, "auth/role/add", "{\"name\":\"locker\"}");
    etcd_post(etcd, "auth/role/grant",
              "{\"name\":\"locker\",\"perm\":{\"permType\":\"READWRITE\","
              "\"key\":\"bG9ja3Mv\",\"range_end\":\"bG9ja3Mw\"}}"); /* "locks/" to "locks0" */
    etcd_post(etcd, "auth/user/grant", "{\"user\":\"bob\",\"role\":\"locker\"}");
    enable_users(etcd);
}

TEST(the_doctor_tells_what_a_user_may_do)
{
    static const struct {
        const char *url;
        int verdict;
        const char *remedy;
    } rows[] = {
        {"etcd://bob:secret@127.0.0.1:%d/locks?ttl=60s" PATIENT, SNIB_GOOD, ""},
        {"etcd://bob:secret@127.0.0.1:%d/other?ttl=60s" PATIENT, SNIB_BAD, "grant-permission"},
        {"etcd://127.0.0.1:%d/locks?ttl=60s" PATIENT, SNIB_BAD, "USER:PASSWORD@"},
    };
    struct server etcd;
    char url[300];
    server_etcd(&etcd, NULL);
    enable_bob(&etcd);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct verdict rights = {.verdict = -1};
        snprintf(url, sizeof url, rows[i].url, etcd.port); /* NOLINT: of the table above */
        snib *client = client_of(url);
        CHECK_INT(snib_examine(client, note_rights, &rights, NULL), ==, SNIB_OK);
        CHECK_INT(rights.verdict, ==, rows[i].verdict);
        if (rights.verdict == SNIB_BAD) {
            CHECK(strstr(rights.remedy, rows[i].remedy) != NULL);
        } else {
            give(take(client, "name", NULL));
        }
        snib_close(client);
    }
}

static void must_be_denied(int port, const char *url, const char *const words[])
{
    char all[300];
    snib_options at_once = SNIB_OPTIONS;
    snib_lease *lease;
    snib_error error;
    at_once.wait_ms = 0;
    snprintf(all, sizeof all, url, port); /* NOLINT: of the tables below */
    snib *client = client_of(all);
    CHECK_INT(snib_acquire(&lease, client, "name", &at_once, &error), ==, SNIB_EDENIED);
    for (size_t i = 0; words[i]; i++) {
        if (strstr(error.message, words[i]) == NULL) {
            FAIL("'%s' is not in: %s", words[i], error.message);
        }
    }
    CHECK(strstr(error.message, "secret") == NULL);
    snib_close(client);
}

TEST(a_refusal_says_what_is_wrong_and_what_to_do)
{
    static const struct {
        const char *url, *words[4];
    } rows[] = {
        {"etcd://bob:secret@127.0.0.1:%d/other?ttl=60s" PATIENT,
         {"user bob may not read and write what begins with 'other/'",
          "role grant-permission ROLE --prefix=true readwrite 'other/'"}},
        {"etcd://bob:secret@127.0.0.1:%d?ttl=60s" PATIENT,
         {"user bob may not read and write all keys", "readwrite ''"}},
        {"etcd://bob:secret2@127.0.0.1:%d/locks?ttl=60s" PATIENT,
         {"no user bob, or with another password", "passfile="}},
        {"etcd://nobody:secret@127.0.0.1:%d/locks?ttl=60s" PATIENT, {"no user nobody"}},
        {"etcd://127.0.0.1:%d/locks?ttl=60s" PATIENT, {"wants to know a user", "USER:PASSWORD@"}},
    };
    static const char *const without[] = {"authentication is not enabled",
                                          "take user and password out of the URL", NULL};
    struct server etcd;
    server_etcd(&etcd, NULL);
    must_be_denied(etcd.port, "etcd://bob:secret@127.0.0.1:%d?ttl=60s" PATIENT, without);
    enable_bob(&etcd);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        must_be_denied(etcd.port, rows[i].url, rows[i].words);
    }
}

/* A key can be put under a lease only by who may write all keys that are below it. */
TEST(users_of_different_prefixes_do_not_meet)
{
    static const char *const urls[] = {"etcd://root:secret@127.0.0.1:%d/ours?ttl=60s" PATIENT,
                                       "etcd://bob:secret@127.0.0.1:%d/locks?ttl=60s" PATIENT};
    struct server etcd;
    char url[300];
    server_etcd(&etcd, NULL);
    enable_bob(&etcd);
    for (int i = 0; i < 4; i++) {
        snprintf(url, sizeof url, urls[i % 2], etcd.port); /* NOLINT: of the table above */
        snib *client = client_of(url);
        give(take(client, "name", NULL));
        snib_close(client);
    }
}

/* A token is over after two seconds, and another is asked for. */
TEST(a_token_that_expires_is_replaced)
{
    struct server etcd;
    char token[700], url[300];
    snib_error error;
    snprintf(token, sizeof token, "--auth-token=jwt,priv-key=%s,sign-method=HS256,ttl=2s",
             tls_file("good.crt")); /* whatever bytes */
    server_etcd(&etcd, (const char *const[]){token, NULL});
    enable_users(&etcd);
    snprintf(url, sizeof url, "etcd://root:secret@127.0.0.1:%d?ttl=60s" PATIENT, etcd.port);
    snib *client = client_of(url);
    snib_lease *lease = take(client, "name", NULL);
    check_sleep_ms(2500);
    CHECK_OK(snib_verify(lease, &error), error.message);
    give(lease);
    snib_close(client);
}

/* Such tokens are of one state of the users, and refused in the next one. */
TEST(a_change_of_users_costs_no_lock)
{
    struct server etcd;
    char kind[700], token[1024], url[300];
    snib_error error;
    snprintf(kind, sizeof kind, "--auth-token=jwt,priv-key=%s,sign-method=HS256,ttl=600s",
             tls_file("good.crt"));
    server_etcd(&etcd, (const char *const[]){kind, NULL});
    enable_users(&etcd);
    snprintf(url, sizeof url, "etcd://root:secret@127.0.0.1:%d?ttl=60s" PATIENT, etcd.port);
    snib *client = client_of(url);
    snib_lease *lease = take(client, "name", NULL);
    etcd_token(&etcd, "root", "secret", token);
    const char *answer = etcd_post_as(&etcd, token, "auth/role/add", "{\"name\":\"new\"}");
    CHECK(strstr(answer, "header") != NULL);
    CHECK_OK(snib_verify(lease, &error), error.message);
    give(lease);
    snib_close(client);
}

TEST(the_rights_that_a_url_needs_are_one_line)
{
    static const struct {
        const char *url, *line;
    } rows[] = {
        {"etcd://bob:secret@a,b/locks",
         "etcdctl role add 'bob' && etcdctl role grant-permission 'bob' --prefix=true readwrite "
         "'locks/' && etcdctl user add 'bob':PASSWORD && etcdctl user grant-role 'bob' 'bob'"},
        {"etcd://a/it%27s",
         "etcdctl role add 'snib' && etcdctl role grant-permission 'snib' --prefix=true readwrite "
         "'it'\\''s/' && etcdctl user add 'snib':PASSWORD && etcdctl user grant-role 'snib' "
         "'snib'"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char line[SNIB_RIGHTS_SIZE];
        snib *client = client_of(rows[i].url);
        CHECK_INT(snib_rights(client, line, sizeof line, NULL), ==, SNIB_OK);
        CHECK_STR(line, rows[i].line);
        CHECK_INT(snib_rights(client, line, 100, NULL), ==, SNIB_EINVAL);
        snib_close(client);
    }
}

/* ---- Watching --------------------------------------------------------------------------- */

static int count_one(const snib_seen *seen, void *arg)
{
    (void)seen;
    ++*(int *)arg;
    return 0;
}

static void ignore(const snib_event *event, void *arg)
{
    (void)event;
    (void)arg;
}

static bool somebody_waits(void *client)
{
    int count = 0;
    return snib_inspect(client, "name", count_one, &count, NULL) == SNIB_OK && count == 2;
}

/* It watches with the token it has now, and not with one of the server before. */
TEST_LIMIT(after_a_restart_who_waits_with_a_password_is_still_woken, 120)
{
    struct server etcd;
    char url[300];
    snib_error error;
    server_etcd(&etcd, NULL);
    snprintf(url, sizeof url, "etcd://root:secret@127.0.0.1:%d?ttl=180s&max-lease=180s&connect=20s",
             etcd.port);
    struct waiter *w = waiter_new(url);
    w->options.wait_ms = -1;
    w->options.on_event = ignore; /* it listens for breaks, too */
    pid_t pid = check_spawn(wait_in_line, w);
    enable_users(&etcd);
    snib *client = client_of(url);
    snib_lease *lease = take(client, "name", NULL);
    check_flag_set(&w->go);
    CHECK(check_until(somebody_waits, client, LONG_MS));
    check_sleep_ms(1000); /* it watches by now */
    server_kill(&etcd);
    check_sleep_ms(500); /* it looks in vain */
    server_start(&etcd);
    CHECK(check_until(somebody_waits, client, LONG_MS));
    check_sleep_ms(4000); /* it has looked, and does so again a third of its ttl later */
    CHECK_OK(snib_release(&lease, &error), error.message);
    check_flag_wait(&w->held, 20000);
    check_flag_set(&w->let_go);
    check_join(pid, LONG_MS);
    snib_close(client);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names that have several addresses, or look like one; a server that will not have us, or that asks
 * to try again for ever.
 *
 * This program answers some names by itself.
 */
#include "postgres_world.h"

#include <dlfcn.h>
#include <netdb.h>

typedef int lookup_fn(const char *, const char *, const struct addrinfo *, struct addrinfo **);

/* twice.test: nobody listens at the first of its addresses. */
__attribute__((visibility("default"))) int getaddrinfo(const char *node, const char *service,
                                                       const struct addrinfo *hints,
                                                       struct addrinfo **list)
{
    lookup_fn *real;
    *(void **)&real = dlsym(RTLD_NEXT, "getaddrinfo");
    bool twice = node && strcmp(node, "twice.test") == 0;
    if (!node || !strstr(node, ".test")) {
        return real(node, service, hints, list);
    }
    int rc = real(twice ? "127.0.0.2" : "127.0.0.1", service, hints, list);
    if (rc == 0 && twice) {
        struct addrinfo *last = *list;
        while (last->ai_next) {
            last = last->ai_next;
        }
        rc = real("127.0.0.1", service, hints, &last->ai_next);
    }
    return rc;
}

static snib *client_by(const struct server *pg, const char *host, const char *parameters)
{
    char url[200];
    snprintf(url, sizeof url, "postgres://snib@%s:%d/postgres%s", host, pg->port, parameters);
    return client_of(url);
}

TEST(a_name_whose_first_address_refuses_is_tried_at_the_next)
{
    struct server pg;
    server_postgres(&pg, (const char *const[]){"fsync=off", NULL});
    snib *client = client_by(&pg, "twice.test", "?tls=no");
    give(take(client, "name", NULL));
    snib_close(client);
}

TEST(a_name_that_begins_like_an_address_of_this_host_is_not_trusted_without_tls)
{
    struct server pg;
    snib_error error;
    server_postgres(&pg, (const char *const[]){"fsync=off", NULL});
    snib *client = client_by(&pg, "127.evil.test", "");
    CHECK_INT(refused(client, "name", &error), <, 0);
    must_say(&error, "SSL");
    snib_close(client);
    client = client_by(&pg, "127.evil.test", "?tls=no"); /* it does lead there */
    give(take(client, "name", NULL));
    snib_close(client);
}

TEST_LIMIT(a_server_that_always_says_try_again_is_not_asked_for_ever, 60)
{
    struct server pg;
    snib_error error;
    server_postgres(&pg, (const char *const[]){"fsync=off", NULL});
    snib *client = client_at(pg.port, "");
    give(take(client, "name", NULL));
    sql(&pg, "CREATE SEQUENCE public.asked");
    sql(&pg, "CREATE FUNCTION public.fail() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
             "PERFORM nextval('public.asked'); RAISE EXCEPTION USING ERRCODE = '40001'; END $$");
    sql(&pg, "CREATE TRIGGER fail BEFORE INSERT ON snib.seats FOR EACH ROW EXECUTE FUNCTION "
             "public.fail()");
    CHECK_INT(refused(client, "name", &error), ==, SNIB_EPROTO);
    CHECK_INT(atoi(sql(&pg, "SELECT last_value FROM public.asked")), <, 20);
    sql(&pg, "SELECT setval('public.asked', 1)");
    snib_options patient = SNIB_OPTIONS;
    snib_lease *lease;
    patient.wait_ms = 1000;
    CHECK_INT(snib_acquire(&lease, client, "name", &patient, &error), <, 0);
    CHECK_INT(atoi(sql(&pg, "SELECT last_value FROM public.asked")), <, 150); /* with pauses */
    sql(&pg, "DROP TRIGGER fail ON snib.seats");
    give(take(client, "name", NULL));
    CHECK_STR(sql(&pg, "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'"), "0");
    snib_close(client);
}

/* Its row is there, and is to be renewed; but it may not have a session any more. */
TEST_LIMIT(who_is_refused_a_session_dials_with_pauses, 60)
{
    static const char sessions[] =
        "SELECT sessions FROM pg_stat_database WHERE datname = 'postgres'";
    struct server pg;
    server_postgres(&pg, (const char *const[]){"fsync=off", NULL});
    sql(&pg, "CREATE ROLE guest LOGIN");
    sql(&pg, "GRANT CREATE ON DATABASE postgres TO guest");
    char url[200];
    snprintf(url, sizeof url, "postgres://guest@127.0.0.1:%d/postgres?mode=lease&ttl=4s", pg.port);
    snib *client = client_of(url);
    snib_lease *lease = take(client, "name", NULL);
    sql(&pg, "ALTER SEQUENCE snib.token OWNER TO snib");
    sql(&pg, "REVOKE ALL ON snib.token FROM guest");
    int before = atoi(sql(&pg, sessions));
    sql(&pg, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'guest'");
    CHECK(check_until(is_lost, lease, LONG_MS));
    CHECK_INT(atoi(sql(&pg, sessions)) - before, <, 40);
    snib_release(&lease, NULL);
    snib_close(client);
}

static int on_finding(const snib_finding *finding, void *arg)
{
    if (strcmp(finding->about, "restart") == 0) {
        *(bool *)arg = strstr(finding->text, "rows") != NULL;
    }
    return 0;
}

TEST(doctor_speaks_of_the_mode_that_is_used)
{
    struct server pg;
    snib_error error;
    server_postgres(&pg, (const char *const[]){"fsync=off", NULL});
    for (int mode = 0; mode < 2; mode++) {
        bool rows = !mode;
        snib *client = client_at(pg.port, mode ? "mode=lease" : "");
        CHECK_OK(snib_examine(client, on_finding, &rows, &error), error.message);
        CHECK_INT(rows, ==, mode);
        snib_close(client);
    }
}

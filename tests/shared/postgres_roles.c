/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Roles that may not all, that are set to odd defaults, or that mean harm.
 */
#include "postgres_world.h"

static snib *client_as(const struct server *pg, const char *user, const char *parameters)
{
    char url[200];
    snprintf(url, sizeof url, "postgres://%s@127.0.0.1:%d/postgres%s%s", user, pg->port,
             parameters[0] ? "?" : "", parameters);
    return client_of(url);
}

/* Tables, and a role that may use them. */
static void start_with_guest(struct server *pg)
{
    server_postgres(pg, (const char *const[]){"fsync=off", NULL});
    snib *client = client_at(pg->port, "");
    give(take(client, "name", NULL));
    snib_close(client);
    sql(pg, "CREATE ROLE guest LOGIN");
    sql(pg, "GRANT USAGE ON SCHEMA snib TO guest");
    sql(pg, "GRANT ALL ON ALL TABLES IN SCHEMA snib TO guest");
    sql(pg, "GRANT ALL ON ALL SEQUENCES IN SCHEMA snib TO guest");
}

struct verdict {
    const char *about;
    int verdict;
};

static int on_finding(const snib_finding *finding, void *arg)
{
    struct verdict *v = arg;
    if (strcmp(finding->about, v->about) == 0) {
        v->verdict = finding->verdict;
    }
    return 0;
}

static int verdict_of(snib *client, const char *about)
{
    struct verdict v = {.about = about, .verdict = -1};
    snib_error error;
    CHECK_OK(snib_examine(client, on_finding, &v, &error), error.message);
    return v.verdict;
}

TEST(who_may_not_know_whether_locks_were_forgotten_is_granted_none)
{
    struct server pg;
    snib_error error;
    start_with_guest(&pg);
    snib *client = client_as(&pg, "guest", "");
    CHECK_INT(verdict_of(client, "rights"), ==, SNIB_GOOD);
    give(take(client, "name", NULL));
    snib_close(client);
    sql(&pg, "REVOKE ALL ON snib.life FROM guest");
    client = client_as(&pg, "guest", "");
    CHECK_INT(refused(client, "name", &error), ==, SNIB_EDENIED);
    must_say(&error, "life");
    CHECK_INT(verdict_of(client, "rights"), ==, SNIB_BAD);
    snib_close(client);
}

TEST(who_may_not_move_the_tokens_on_after_a_crash_is_granted_none)
{
    struct server pg;
    snib_error error;
    start_with_guest(&pg);
    sql(&pg, "REVOKE UPDATE ON snib.token FROM guest");
    server_kill(&pg);
    server_start(&pg);
    snib *client = client_as(&pg, "guest", "quarantine=no");
    CHECK_INT(refused(client, "name", &error), ==, SNIB_EDENIED);
    must_say(&error, "tokens");
    CHECK_INT(verdict_of(client, "rights"), ==, SNIB_BAD);
    snib_close(client);
    snib *other = client_at(pg.port, "quarantine=no");
    give(take(other, "name", NULL)); /* may, and does */
    snib_close(other);
    client = client_as(&pg, "guest", "quarantine=no");
    give(take(client, "name", NULL));
    snib_close(client);
}

TEST(a_clock_that_was_set_back_does_not_end_a_quarantine)
{
    static const char *const ages[] = {
        "UPDATE snib.life SET since = clock_timestamp() + interval '1 hour'",
        "UPDATE snib.life SET since = NULL, born = clock_timestamp() + interval '1 hour'"};
    struct server pg;
    snib_error error;
    start_with_guest(&pg);
    for (size_t i = 0; i < sizeof ages / sizeof ages[0]; i++) {
        sql(&pg, ages[i]);
        snib *client = client_at(pg.port, "max-lease=300s");
        CHECK_INT(refused(client, "name", &error), ==, SNIB_EUNSAFE);
        must_say(&error, "quarantine");
        snib_close(client);
    }
}

TEST(a_role_in_a_hurry_gets_sessions_with_all_their_settings)
{
    struct server pg;
    start_with_guest(&pg);
    sql(&pg, "ALTER ROLE guest SET statement_timeout = '1ms'");
    sql(&pg, "ALTER ROLE guest SET lock_timeout = '1ms'");
    sql(&pg, "ALTER ROLE guest SET default_transaction_isolation = 'serializable'");
    for (int i = 0; i < 10; i++) {
        snib *client = client_as(&pg, "guest", "ttl=20s");
        snib_lease *lease = take(client, "name", NULL);
        CHECK_INT(verdict_of(client, "idle timeout"), ==, SNIB_GOOD);
        give(lease);
        snib_close(client);
    }
}

static int on_seen(const snib_seen *seen, void *arg)
{
    (void)seen;
    ++*(int *)arg;
    return 0;
}

/* An operator that fits better than the server's own, and does what its owner may not. */
TEST(what_others_have_put_into_the_schema_public_is_not_executed)
{
    static const char *const trap[] = {
        "CREATE ROLE mallory LOGIN",
        "GRANT CREATE ON SCHEMA public TO mallory",
        "CREATE FUNCTION public.climb(numeric, integer) RETURNS numeric LANGUAGE plpgsql AS $$ "
        "BEGIN IF (SELECT rolsuper FROM pg_roles WHERE rolname = current_user) THEN "
        "ALTER ROLE mallory SUPERUSER; END IF; RETURN $1 * $2::numeric; END $$",
        "ALTER FUNCTION public.climb OWNER TO mallory",
        "CREATE OPERATOR public.* (LEFTARG = numeric, RIGHTARG = integer, FUNCTION = public.climb)",
        "ALTER OPERATOR public.* (numeric, integer) OWNER TO mallory"};
    struct server pg;
    snib_error error;
    server_postgres(&pg, (const char *const[]){"fsync=off", NULL});
    for (size_t i = 0; i < sizeof trap / sizeof trap[0]; i++) {
        sql(&pg, trap[i]);
    }
    for (int mode = 0; mode < 2; mode++) {
        snib *client = client_at(pg.port, mode ? "mode=lease&schema=rows" : "");
        int seen = 0;
        snib_lease *lease = take(client, "name", NULL);
        CHECK_OK(snib_list(client, "", on_seen, &seen, &error), error.message);
        CHECK_INT(seen, ==, 1);
        CHECK_INT(refused(client, "name", &error), ==, SNIB_EBUSY);
        CHECK_INT(verdict_of(client, "server"), ==, SNIB_GOOD);
        give(lease);
        snib_close(client);
    }
    CHECK_STR(sql(&pg, "SELECT rolsuper FROM pg_roles WHERE rolname = 'mallory'"), "f");
}

TEST(a_schema_of_a_role_that_is_not_trusted_is_refused)
{
    struct server pg;
    snib_error error;
    server_postgres(&pg, (const char *const[]){"fsync=off", NULL});
    sql(&pg, "CREATE ROLE mallory LOGIN");
    sql(&pg, "CREATE ROLE guest LOGIN");
    sql(&pg, "GRANT CREATE ON DATABASE postgres TO mallory");
    for (int mode = 0; mode < 2; mode++) {
        snib *client = client_as(&pg, "mallory", mode ? "mode=lease" : "");
        give(take(client, "name", NULL)); /* its own */
        snib_close(client);
        client = client_at(pg.port, mode ? "mode=lease" : "");
        CHECK_INT(refused(client, "name", &error), ==, SNIB_EUNSAFE);
        must_say(&error, "mallory");
        CHECK_INT(verdict_of(client, "server"), ==, SNIB_BAD);
        snib_close(client);
        client = client_as(&pg, "guest", mode ? "mode=lease" : "");
        sql(&pg, "GRANT USAGE ON SCHEMA snib TO guest");
        CHECK_INT(refused(client, "name", &error), ==, SNIB_EUNSAFE);
        must_say(&error, "mallory");
        sql(&pg, "GRANT mallory TO guest");
        give(take(client, "name", NULL)); /* a member trusts its own */
        snib_close(client);
        sql(&pg, "REVOKE mallory FROM guest");
        sql(&pg, "ALTER SCHEMA snib OWNER TO snib"); /* and what is in it is still mallory's */
        client = client_at(pg.port, mode ? "mode=lease" : "");
        CHECK_INT(refused(client, "name", &error), ==, SNIB_EUNSAFE);
        snib_close(client);
        sql(&pg, "REASSIGN OWNED BY mallory TO snib");
        client = client_at(pg.port, mode ? "mode=lease" : "");
        give(take(client, "name", NULL));
        snib_close(client);
        sql(&pg, "DROP SCHEMA snib CASCADE");
    }
}

TEST(a_schema_is_of_one_mode)
{
    struct server pg;
    snib_error error;
    server_postgres(&pg, (const char *const[]){"fsync=off", NULL});
    for (int mode = 0; mode < 2; mode++) {
        snib *early = client_at(pg.port, mode ? "" : "mode=lease");
        CHECK_INT(snib_break(early, "name", 7, NULL), ==, SNIB_ELOST); /* greeted before */
        snib *client = client_at(pg.port, mode ? "mode=lease" : "");
        snib_lease *lease = take(client, "name", NULL);
        snib *other = client_at(pg.port, mode ? "" : "mode=lease");
        CHECK_INT(refused(other, "name", &error), ==, SNIB_EUNSAFE);
        must_say(&error, mode ? "mode=lease" : "mode=session");
        CHECK_INT(refused(early, "name", &error), ==, SNIB_EUNSAFE);
        must_say(&error, mode ? "mode=lease" : "mode=session");
        give(lease);
        snib_close(early);
        snib_close(other);
        snib_close(client);
        sql(&pg, "DROP SCHEMA snib CASCADE");
    }
}

TEST(a_schema_may_be_called_as_a_word_of_the_language)
{
    struct server pg;
    server_postgres(&pg, (const char *const[]){"fsync=off", NULL});
    static const char *const places[] = {"schema=order", "schema=select&mode=lease"};
    for (int mode = 0; mode < 2; mode++) {
        struct holder *h = holder_new(url_at(pg.port, places[mode]));
        pid_t pid = check_spawn(hold_it, h);
        snib *client = client_at(pg.port, places[mode]);
        snib_lease *lease = take(client, "name", NULL);
        check_flag_set(&h->go);
        give(lease);
        check_flag_wait(&h->held, LONG_MS);
        check_flag_set(&h->let_go);
        check_join(pid, LONG_MS);
        CHECK_INT(verdict_of(client, "rights"), ==, SNIB_GOOD);
        snib_close(client);
    }
}

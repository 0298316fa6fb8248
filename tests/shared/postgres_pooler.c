/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A pooler in between: found out, and refused unless the user says that it pools whole sessions.
 */
#include "postgres_world.h"

static void start_pooler(struct server *pooler, const struct server *pg, const char *mode)
{
    char path[256], list[256];
    server_init(pooler, "pgbouncer");
    server_program(pooler, "pgbouncer", "pgbouncer");
    snprintf(path, sizeof path, "%s/pgbouncer.ini", pooler->folder);
    snprintf(list, sizeof list, "%s/users", pooler->folder);
    FILE *file = fopen(list, "w");
    CHECK(file != NULL && fputs("\"snib\" \"\"\n", file) > 0 && fclose(file) == 0);
    file = fopen(path, "w");
    CHECK(file != NULL);
    fprintf(file,
            "[databases]\npostgres = host=127.0.0.1 port=%d\n[pgbouncer]\nlisten_addr = 127.0.0.1\n"
            "listen_port = %d\nunix_socket_dir =\nauth_type = trust\nauth_file = %s\n"
            "pool_mode = %s\nserver_reset_query = DISCARD ALL\n",
            pg->port, pooler->port, list, mode);
    CHECK(fclose(file) == 0);
    server_argument(pooler, "%s", path);
    server_user(pooler, NULL);
    server_start(pooler);
}

TEST(a_pooler_of_transactions_is_found_out_and_refused)
{
    struct server pg, pooler;
    snib_error error;
    server_postgres(&pg, NULL);
    start_pooler(&pooler, &pg, "transaction");
    for (int mode = 0; mode < 2; mode++) {
        snib *client = client_at(pooler.port, mode ? "mode=lease" : "");
        for (int i = 0; i < 3; i++) {
            CHECK_INT(refused(client, "name", &error), ==, SNIB_EUNSAFE);
            must_say(&error, "pooler");
        }
        snib_close(client);
    }
    CHECK_STR(sql(&pg, "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'"), "0");
}

TEST(a_pooler_of_sessions_will_do_if_the_user_says_so)
{
    struct server pg, pooler;
    snib_error error;
    server_postgres(&pg, NULL);
    start_pooler(&pooler, &pg, "session");
    snib *client = client_at(pooler.port, "");
    CHECK_INT(refused(client, "name", &error), ==, SNIB_EUNSAFE);
    snib_close(client);
    client = client_at(pooler.port, "pooler=session");
    snib *other = client_at(pg.port, "");
    snib_lease *lease = take(client, "name", NULL);
    CHECK_INT(refused(other, "name", NULL), ==, SNIB_EBUSY);
    CHECK_INT(snib_verify(lease, NULL), ==, SNIB_OK);
    give(lease);
    give(take(other, "name", NULL));
    snib_close(other);
    snib_close(client);
}

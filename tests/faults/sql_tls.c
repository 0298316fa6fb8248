/* SPDX-License-Identifier: Apache-2.0 */
/*
 * TLS to SQL servers: a certificate is verified, and on other hosts than this one nothing else
 * will do.
 */
#include "sql_world.h"

#include <sys/stat.h>

/* The path of a certificate or key that the TLS peer makes. The server must be able to read it,
 * whoever it runs as, and nobody else the key. */
static const char *file_of(const char *name)
{
    static char paths[8][256];
    static unsigned next;
    char folder[200], command[512];
    char *path = paths[next++ % 8];
    snprintf(folder, sizeof folder, "%s/certificates", check_tmpdir());
    if (mkdir(folder, 0755) == 0) {
        snprintf(command, sizeof command, TEST_BUILD_DIR "/tests/tls_peer certificates %s", folder);
        CHECK_INT(system(command), ==, 0);
    }
    snprintf(path, sizeof paths[0], "%s/%s", folder, name);
    if (geteuid() == 0) {
        CHECK_INT(chown(path, 65534, 65534), ==, 0);
    }
    return path;
}

/* A server that has this certificate. */
static struct world *world_with(const char *scheme, const char *name)
{
    char certificate[64], key[64], of_certificate[320], of_key[320];
    bool postgres = strcmp(scheme, "postgres") == 0;
    snprintf(certificate, sizeof certificate, "%s.crt", name);
    snprintf(key, sizeof key, "%s.pem", name);
    snprintf(of_certificate, sizeof of_certificate, "%s=%s",
             postgres ? "-cssl_cert_file" : "--ssl-cert", file_of(certificate));
    snprintf(of_key, sizeof of_key, "%s=%s", postgres ? "-cssl_key_file" : "--ssl-key",
             file_of(key));
    const char *const extra[] = {of_certificate, of_key, postgres ? "-cssl=on" : "--ssl", NULL};
    return world_new(scheme, "session", extra);
}

/* What comes of a lock there; why, if it is none. */
static int locks(const struct world *w, const char *host, const char *parameters, snib_error *error)
{
    char url[512];
    snprintf(url, sizeof url, "%s://snib@%s:%d/snib?%s", w->scheme, host, w->server.port,
             parameters);
    snib *client = client_at(url);
    int code = try_it(client, "name", error);
    snib_close(client);
    return code;
}

static void a_certificate_is_verified(const char *scheme)
{
    char right[300], wrong[300];
    snib_error error = {0};
    const struct world *w = world_with(scheme, "good");
    snprintf(right, sizeof right, "tls=verify&ca=%s", file_of("authority.crt"));
    snprintf(wrong, sizeof wrong, "tls=verify&ca=%s", file_of("stranger.crt"));
    CHECK_OK(locks(w, "127.0.0.1", right, &error), error.message);
    CHECK_OK(locks(w, "localhost", right, &error), error.message);
    CHECK_INT(locks(w, "127.0.0.1", wrong, &error), ==, SNIB_EUNREACH);
    CHECK_INT(locks(w, "127.0.0.1", "tls=verify", &error), ==, SNIB_EUNREACH); /* the system's */
}

static void a_certificate_for_another_host_is_refused(const char *scheme)
{
    char right[300];
    snib_error error = {0};
    const struct world *w = world_with(scheme, "other");
    snprintf(right, sizeof right, "tls=verify&ca=%s", file_of("authority.crt"));
    CHECK_INT(locks(w, "127.0.0.1", right, &error), ==, SNIB_EUNREACH);
}

/* 0.0.0.0 is a way to this host that does not look like one. */
static void another_host_is_never_spoken_to_in_clear_by_itself(const char *scheme, const char *off)
{
    snib_error error = {0};
    const char *const extra[] = {off, NULL};
    const struct world *w = world_new(scheme, "session", extra);
    CHECK_OK(locks(w, "127.0.0.1", "tls=auto", &error), error.message);
    CHECK_INT(locks(w, "127.0.0.1", "tls=verify", &error), ==, SNIB_EUNREACH);
    CHECK_INT(locks(w, "0.0.0.0", "tls=auto", &error), ==, SNIB_EUNREACH);
    CHECK_OK(locks(w, "0.0.0.0", "tls=no", &error), error.message);
}

TEST_LIMIT(postgres_a_certificate_is_verified, 120)
{
    a_certificate_is_verified("postgres");
}

TEST_LIMIT(postgres_a_certificate_for_another_host_is_refused, 120)
{
    a_certificate_for_another_host_is_refused("postgres");
}

TEST_LIMIT(postgres_another_host_is_never_spoken_to_in_clear_by_itself, 120)
{
    another_host_is_never_spoken_to_in_clear_by_itself("postgres", "-cssl=off");
}

TEST_LIMIT(mysql_a_certificate_is_verified, 120)
{
    a_certificate_is_verified("mysql");
}

TEST_LIMIT(mysql_a_certificate_for_another_host_is_refused, 120)
{
    a_certificate_for_another_host_is_refused("mysql");
}

TEST_LIMIT(mysql_another_host_is_never_spoken_to_in_clear_by_itself, 120)
{
    another_host_is_never_spoken_to_in_clear_by_itself("mysql", "--skip-ssl");
}

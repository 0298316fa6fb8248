/*
 * Whom a client with TLS trusts, what it shows of itself, and what it says when that fails: with a
 * private authority and a real server.
 */
#include "capture.h"
#include "tls_link.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static const char *const VERSIONS[] = {"tls=1.2", "tls=1.3"};

static void check_has(const char *text, const char *part)
{
    if (!strstr(text, part)) {
        FAIL("\"%s\" does not say \"%s\"", text, part);
    }
}

static void check_refused(const char *cert, const char *host, const char *part)
{
    struct server server;
    tls_serve(&server, cert, NULL);
    struct snib__tls *tls = tls_context();
    check_has(tls_refusal(server.port, tls, host), part);
    snib__tls_close(tls);
    server_kill(&server);
}

/* The message with which this cannot be opened. */
static const char *misfit(const struct snib__tls_options *options)
{
    static snib_error err;
    struct snib__tls *tls;
    CHECK_INT(snib__tls_open(&tls, options, &err), !=, 0);
    CHECK(!tls);
    return err.message;
}

/* ---- The server's certificate ----------------------------------------------------------- */

TEST(a_good_server_is_trusted_by_name_and_address_in_both_versions)
{
    static const char *const hosts[] = {"localhost", "localhost.", "a.lock.example",
                                        "127.0.0.1", "::1",        "::1%lo"};
    for (int v = 0; v < 2; v++) {
        struct server server;
        tls_serve(&server, "good.pem", (const char *const[]){VERSIONS[v], NULL});
        struct snib__tls *tls = tls_context();
        for (size_t i = 0; i < sizeof hosts / sizeof hosts[0]; i++) {
            struct tls_link link = tls_join(server.port, tls, hosts[i]);
            tls_say(&link, "hello");
            tls_hear(&link, "hello");
            tls_hang_up(&link);
        }
        snib__tls_close(tls);
        server_kill(&server);
    }
}

TEST(a_certificate_for_another_name_is_refused_and_its_names_are_told)
{
    check_refused("other.pem", "localhost",
                  "the certificate of localhost is for other.example, 192.0.2.7");
}

TEST(a_wildcard_stands_for_one_label)
{
    check_refused("good.pem", "a.b.lock.example", "is for localhost");
}

TEST(an_address_must_be_in_the_certificate)
{
    check_refused("good.pem", "127.0.0.2", "the certificate of 127.0.0.2 is for localhost");
}

TEST(an_unknown_authority_is_refused_with_the_remedy)
{
    check_refused("unknown.pem", "localhost",
                  "signed by an unknown authority, \"stranger\": give its certificate by ca=FILE");
}

TEST(without_ca_the_system_decides)
{
    struct server server;
    tls_serve(&server, "good.pem", NULL);
    struct snib__tls *tls = tls_context_of(&(struct snib__tls_options){0});
    check_has(tls_refusal(server.port, tls, "localhost"), "give its certificate by ca=FILE");
    snib__tls_close(tls);
    setenv("SSL_CERT_FILE", tls_file("authority.crt"), 1); /* what OpenSSL takes for the system */
    tls = tls_context_of(&(struct snib__tls_options){0});
    struct tls_link link = tls_join(server.port, tls, "localhost");
    tls_hang_up(&link);
    snib__tls_close(tls);
}

TEST(the_certificate_of_the_server_itself_can_be_the_authority)
{
    struct server server;
    tls_serve(&server, "unknown.pem", NULL);
    struct snib__tls *tls =
        tls_context_of(&(struct snib__tls_options){.ca = tls_file("unknown.crt")});
    struct tls_link link = tls_join(server.port, tls, "localhost");
    tls_hang_up(&link);
    snib__tls_close(tls);
}

TEST(an_expired_certificate_is_refused_with_its_day)
{
    char day[16], text[80];
    time_t end = time(NULL) - 10 * 86400L;
    strftime(day, sizeof day, "%Y-%m-%d", gmtime(&end));
    snprintf(text, sizeof text, "the certificate of localhost expired on %s", day);
    check_refused("expired.pem", "localhost", text);
}

TEST(a_certificate_of_tomorrow_makes_one_think_of_the_clock)
{
    check_refused("future.pem", "localhost", "is the clock right?");
}

TEST(a_certificate_for_clients_is_not_one_for_servers)
{
    check_refused("client.pem", "me", "not one for servers");
}

TEST(what_a_certificate_says_cannot_write_on_a_terminal)
{
    check_refused("hostile.pem", "localhost", "is for evil?[31m?.example");
}

TEST(a_weak_key_is_refused_in_the_words_of_openssl)
{
    struct server server;
    tls_serve(&server, "weak.pem", (const char *const[]){"tls=1.2", NULL});
    struct snib__tls *tls = tls_context();
    check_has(tls_refusal(server.port, tls, "localhost"), "is not trusted: EE certificate key too");
    snib__tls_close(tls);
}

TEST(a_name_that_is_too_long_for_a_certificate_is_refused)
{
    struct server server;
    char host[400];
    memset(host, 'a', sizeof host - 1);
    host[sizeof host - 1] = '\0';
    tls_serve(&server, "good.pem", NULL);
    struct snib__tls *tls = tls_context();
    check_has(tls_refusal(server.port, tls, host), "is no name that a certificate can be for");
    snib__tls_close(tls);
}

TEST(insecure_accepts_any_certificate)
{
    static const char *const certs[] = {"other.pem", "unknown.pem", "expired.pem"};
    struct snib__tls *tls = tls_context_of(&(struct snib__tls_options){.insecure = true});
    for (size_t i = 0; i < sizeof certs / sizeof certs[0]; i++) {
        struct server server;
        tls_serve(&server, certs[i], NULL);
        struct tls_link link = tls_join(server.port, tls, "localhost");
        tls_hang_up(&link);
        server_kill(&server);
    }
    snib__tls_close(tls);
}

TEST(the_name_is_told_to_the_server_and_an_address_is_not)
{
    struct server server;
    tls_serve(&server, "good.pem", NULL);
    struct snib__tls *tls = tls_context();
    struct tls_link link = tls_join(server.port, tls, "b.lock.example.");
    tls_await_log(&server, "sni b.lock.example\n");
    tls_hang_up(&link);
    link = tls_join(server.port, tls, "127.0.0.1");
    tls_await_log(&server, "sni (none)\n");
    tls_hang_up(&link);
    snib__tls_close(tls);
}

TEST(a_server_of_old_versions_is_refused)
{
    struct server server;
    tls_serve(&server, "good.pem", (const char *const[]){"tls=1.1", NULL});
    struct snib__tls *tls = tls_context();
    check_has(tls_refusal(server.port, tls, "localhost"), "no TLS of version 1.2 or newer");
    snib__tls_close(tls);
}

TEST(the_protocol_that_is_asked_for_must_be_offered)
{
    struct server server;
    tls_serve(&server, "good.pem", (const char *const[]){"alpn=h2", NULL});
    struct snib__tls_options options = {.ca = tls_file("authority.crt"), .alpn = "h2"};
    struct snib__tls *tls = tls_context_of(&options);
    struct tls_link link = tls_join(server.port, tls, "localhost");
    tls_hang_up(&link);
    snib__tls_close(tls);
    options.alpn = "other";
    tls = tls_context_of(&options);
    check_has(tls_refusal(server.port, tls, "localhost"), "does not offer other over TLS");
    snib__tls_close(tls);
}

/* ---- Our own certificate ---------------------------------------------------------------- */

TEST(a_server_that_wants_a_client_certificate_says_so_in_both_versions)
{
    for (int v = 0; v < 2; v++) {
        struct server server;
        char ca[300];
        snprintf(ca, sizeof ca, "ca=%s", tls_file("authority.crt"));
        tls_serve(&server, "good.pem", (const char *const[]){VERSIONS[v], ca, NULL});
        struct snib__tls_options options = {.ca = tls_file("authority.crt")};
        struct snib__tls *tls = tls_context_of(&options);
        CHECK_STR(tls_refusal(server.port, tls, "localhost"),
                  "localhost wants a client certificate: give cert= and key=");
        snib__tls_close(tls);
        options.cert = tls_file("client.crt");
        options.key = tls_file("client.pem");
        tls = tls_context_of(&options);
        struct tls_link link = tls_join(server.port, tls, "localhost");
        tls_say(&link, "it is me");
        tls_hear(&link, "it is me");
        tls_hang_up(&link);
        snib__tls_close(tls);
        options.cert = tls_file("unknown.pem"); /* with its key, by somebody else's authority */
        options.key = NULL;
        tls = tls_context_of(&options);
        check_has(tls_refusal(server.port, tls, "localhost"),
                  "localhost does not accept the certificate in cert=");
        snib__tls_close(tls);
        server_kill(&server);
    }
}

TEST(a_server_that_asks_for_a_certificate_and_hangs_up_is_understood)
{
    struct server server;
    tls_serve(&server, "good.pem", (const char *const[]){"hang-up=yes", NULL});
    struct snib__tls *tls = tls_context();
    check_has(tls_refusal(server.port, tls, "localhost"),
              "asked for a client certificate and hung up: give cert= and key=");
    snib__tls_close(tls);
}

TEST(a_key_that_everybody_can_read_is_refused)
{
    struct snib__tls_options options = {.cert = tls_file("client.crt"),
                                        .key = tls_file("client.pem")};
    chmod(options.key, 0640);
    snib__tls_close(tls_context_of(&options));
    chmod(options.key, 0604);
    check_has(misfit(&options), "can be read or changed by every user of this host (mode 604)");
    chmod(options.key, 0602);
    check_has(misfit(&options), "chmod o= that file");
}

TEST(a_key_with_a_passphrase_is_refused_and_nobody_is_asked)
{
    struct snib__tls_options options = {.cert = tls_file("client.crt"),
                                        .key = tls_file("client.locked")};
    check_has(misfit(&options), "has a passphrase");
}

TEST(a_key_must_belong_to_the_certificate)
{
    struct snib__tls_options options = {.cert = tls_file("client.crt"),
                                        .key = tls_file("good.pem")};
    check_has(misfit(&options), "does not belong to the certificate in cert=");
    options.cert = NULL;
    check_has(misfit(&options), "give cert=");
}

TEST(a_file_that_is_not_what_it_should_be_is_named)
{
    char none[256];
    snprintf(none, sizeof none, "%s", tls_file("none.pem"));
    check_has(misfit(&(struct snib__tls_options){.ca = none}), "none.pem: No such file");
    check_has(misfit(&(struct snib__tls_options){.cert = none}), "none.pem: No such file");
    check_has(misfit(&(struct snib__tls_options){.cert = tls_file("client.crt"), .key = none}),
              "none.pem: No such file");
    check_has(misfit(&(struct snib__tls_options){.ca = "/dev/null"}), "ca=/dev/null: no certif");
    check_has(misfit(&(struct snib__tls_options){.cert = "/dev/null"}), "cert=/dev/null: no certi");
    check_has(
        misfit(&(struct snib__tls_options){.cert = tls_file("client.crt"), .key = "/dev/null"}),
        "key=/dev/null is not a file with a key");
    check_has(misfit(&(struct snib__tls_options){.cert = tls_file("client.crt")}),
              "has no private key in it: give key=FILE");
    check_has(misfit(&(struct snib__tls_options){.alpn = ""}), "no name of a protocol");
}

/* ---- The library ------------------------------------------------------------------------ */

/* Is there a line with this in the memory map of the calling process? */
static bool mapped(const char *part)
{
    char line[512];
    bool found = false;
    FILE *maps = fopen("/proc/self/maps", "re");
    CHECK(maps);
    while (fgets(line, sizeof line, maps)) {
        found = found || strstr(line, part);
    }
    fclose(maps);
    return found;
}

TEST(openssl_is_loaded_by_the_first_who_needs_it)
{
    CHECK(!mapped("libssl"));
    snib__tls_close(tls_context_of(&(struct snib__tls_options){0}));
    CHECK(mapped("libssl"));
}

TEST(a_command_that_locks_a_file_does_not_load_openssl)
{
    char url[256];
    snprintf(url, sizeof url, "file://%s/locks", check_tmpdir());
    setenv("SNIB_URL", url, 1);
    const struct capture *said = capture("run", "name", "--", "sh", "-c", "cat /proc/$PPID/maps");
    CHECK_INT(said->status, ==, 0);
    check_has(said->out, "libsnib.so");
    CHECK(!strstr(said->out, "libssl"));
    CHECK(!strstr(said->out, "libcrypto"));
}

TEST(where_openssl_cannot_be_loaded_the_package_is_named)
{
    struct rlimit none;
    getrlimit(RLIMIT_NOFILE, &none);
    rlim_t before = none.rlim_cur;
    none.rlim_cur = 0; /* nothing more can be opened, as if it were not there */
    CHECK_INT(setrlimit(RLIMIT_NOFILE, &none), ==, 0);
    check_has(misfit(&(struct snib__tls_options){0}),
              "TLS needs OpenSSL 3, which is not installed (Debian package libssl3)");
    none.rlim_cur = before;
    setrlimit(RLIMIT_NOFILE, &none);
    snib__tls_close(tls_context_of(&(struct snib__tls_options){0}));
}

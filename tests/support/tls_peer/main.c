/*
 * The other side of a TLS connection, for tests.
 *
 *     tls_peer certificates FOLDER     an authority and what it signed, good and bad:
 * certificates.c tls_peer serve OPTION=VALUE...   a server that obeys commands: serve.c
 *
 * A program of its own, so that the tests themselves link no OpenSSL: what they test is that it
 * is found at run time.
 */
#include "tls_peer.h"

#include <openssl/err.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void give_up(const char *what)
{
    fprintf(stderr, "tls_peer: %s\n", what);
    ERR_print_errors_fp(stderr);
    exit(1);
}

int main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "certificates") == 0) {
        make_certificates(argv[2]);
        return 0;
    }
    if (argc > 2 && strcmp(argv[1], "serve") == 0) {
        return serve(argc - 2, argv + 2);
    }
    give_up("usage: tls_peer certificates FOLDER | tls_peer serve OPTION=VALUE...");
}

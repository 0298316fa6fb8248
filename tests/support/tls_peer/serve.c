/*
 * A TLS server that does what it is told, one process per connection.
 *
 * Options: port=, cert= (with its key), tls=1.1|1.2|1.3 (only that one), ca= (a client must show a
 * certificate that this signed), alpn= (offered), hang-up= (asks for a
 * certificate, and leaves those without one in silence), forward= (a port on this host: what comes
 * is passed on to it without TLS, and its answers with). Else it sends back what it gets, but for
 *
 *     !bye           ends in order
 *     !cut           closes the connection without a word of TLS
 *     !reset         likewise, by a TCP reset
 *     !renegotiate   asks for a renegotiation
 *     !update        changes keys, and wants the client to change them too
 *
 * and writes on standard output, a line each: "sni NAME", "hello N" (how many there were on this
 * connection), "broke REASON".
 */
#include "tls_peer.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static char **options;
static int option_count;
static int hellos; /* on this connection */

static const char *option(const char *key)
{
    size_t size = strlen(key);
    for (int i = 0; i < option_count; i++) {
        if (strncmp(options[i], key, size) == 0 && options[i][size] == '=') {
            return options[i] + size + 1;
        }
    }
    return NULL;
}

static int on_hello(SSL *ssl, int *alert, void *arg)
{
    (void)ssl;
    (void)alert;
    (void)arg;
    printf("hello %d\n", ++hellos);
    return SSL_CLIENT_HELLO_SUCCESS;
}

static int on_alpn(SSL *ssl, const unsigned char **out, unsigned char *size,
                   const unsigned char *offered, unsigned offered_size, void *arg)
{
    static unsigned char list[32];
    (void)ssl;
    (void)arg;
    const char *mine = option("alpn");
    list[0] = (unsigned char)strlen(mine);
    memcpy(list + 1, mine, list[0]);
    unsigned char *found;
    if (SSL_select_next_proto(&found, size, list, list[0] + 1U, offered, offered_size) !=
        OPENSSL_NPN_NEGOTIATED) {
        return SSL_TLSEXT_ERR_NOACK;
    }
    *out = found;
    return SSL_TLSEXT_ERR_OK;
}

static SSL_CTX *make_context(void)
{
    SSL_CTX *context = SSL_CTX_new(TLS_server_method());
    const char *cert = option("cert");
    const char *version = option("tls");
    if (context) {
        SSL_CTX_set_security_level(context, 0); /* the client is to refuse what is weak */
    }
    if (!context || SSL_CTX_use_certificate_chain_file(context, cert) != 1 ||
        SSL_CTX_use_PrivateKey_file(context, cert, SSL_FILETYPE_PEM) != 1) {
        give_up(cert);
    }
    if (version) {
        int number = strcmp(version, "1.1") == 0   ? TLS1_1_VERSION
                     : strcmp(version, "1.2") == 0 ? TLS1_2_VERSION
                                                   : TLS1_3_VERSION;
        SSL_CTX_set_min_proto_version(context, number);
        SSL_CTX_set_max_proto_version(context, number);
    }
    if (option("ca")) {
        SSL_CTX_load_verify_file(context, option("ca"));
        SSL_CTX_set_verify(context, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
    }
    if (option("hang-up")) {
        SSL_CTX_set_verify(context, SSL_VERIFY_PEER, NULL);
    }
    if (option("alpn")) {
        SSL_CTX_set_alpn_select_cb(context, on_alpn, NULL);
    }
    SSL_CTX_set_client_hello_cb(context, on_hello, NULL);
    return context;
}

static void report_failure(void)
{
    const char *reason = ERR_reason_error_string(ERR_peek_error());
    printf("broke %s\n", reason ? reason : "connection");
}

/* True: it was a command, and `go_on` says what becomes of the connection. */
static bool obey(SSL *ssl, int fd, const char *text, bool *go_on)
{
    struct linger hard = {.l_onoff = 1};
    *go_on = false;
    if (strncmp(text, "!bye", 4) == 0) {
        SSL_shutdown(ssl);
    } else if (strncmp(text, "!reset", 6) == 0) {
        setsockopt(fd, SOL_SOCKET, SO_LINGER, &hard, sizeof hard);
    } else if (strncmp(text, "!renegotiate", 12) == 0) {
        SSL_renegotiate(ssl);
        *go_on = SSL_do_handshake(ssl) == 1;
    } else if (strncmp(text, "!update", 7) == 0) {
        SSL_key_update(ssl, SSL_KEY_UPDATE_REQUESTED);
        *go_on = SSL_write(ssl, "updated", 7) == 7;
    } else if (strncmp(text, "!cut", 4) != 0) {
        return false;
    }
    return true;
}

/* From one side to the other until one ends. Writes block: neither side sends much at a time. */
static void forward(SSL *ssl, int fd, int port)
{
    static char bytes[16384];
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)port),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int plain = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (connect(plain, (struct sockaddr *)&address, sizeof address) != 0) {
        return;
    }
    for (;;) {
        struct pollfd fds[] = {{.fd = fd, .events = POLLIN}, {.fd = plain, .events = POLLIN}};
        if (SSL_pending(ssl) == 0 && poll(fds, 2, -1) < 0) {
            return;
        }
        if (SSL_pending(ssl) > 0 || fds[0].revents) {
            int got = SSL_read(ssl, bytes, sizeof bytes);
            if (got <= 0 || send(plain, bytes, (size_t)got, 0) != got) {
                return;
            }
        } else {
            ssize_t got = recv(plain, bytes, sizeof bytes, 0);
            if (got <= 0 || SSL_write(ssl, bytes, (int)got) != got) {
                SSL_shutdown(ssl);
                return;
            }
        }
    }
}

static void converse(SSL *ssl, int fd)
{
    static char bytes[65536];
    if (SSL_accept(ssl) != 1) {
        report_failure();
        return;
    }
    const char *name = SSL_get_servername(ssl, TLSEXT_NAMETYPE_host_name);
    printf("sni %s\n", name ? name : "(none)");
    if (option("hang-up") && !SSL_get0_peer_certificate(ssl)) {
        return;
    }
    if (option("forward")) {
        forward(ssl, fd, atoi(option("forward")));
        return;
    }
    for (;;) {
        bool go_on = true;
        int got = SSL_read(ssl, bytes, sizeof bytes - 1);
        if (got <= 0) {
            report_failure();
            return;
        }
        bytes[got] = '\0';
        if (!obey(ssl, fd, bytes, &go_on)) {
            go_on = SSL_write(ssl, bytes, got) == got;
        }
        if (!go_on) {
            return;
        }
    }
}

int serve(int argc, char **argv)
{
    option_count = argc;
    options = argv;
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)atoi(option("port"))),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int one = 1;
    int door = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    signal(SIGPIPE, SIG_IGN);
    signal(SIGCHLD, SIG_IGN);
    setvbuf(stdout, NULL, _IOLBF, 0);
    SSL_CTX *context = make_context();
    setsockopt(door, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (bind(door, (struct sockaddr *)&address, sizeof address) != 0 || listen(door, 64) != 0) {
        give_up("the port is taken");
    }
    puts("ready");
    for (;;) {
        int fd = accept4(door, NULL, NULL, SOCK_CLOEXEC);
        if (fd >= 0 && fork() == 0) {
            SSL *ssl = SSL_new(context);
            SSL_set_fd(ssl, fd);
            converse(ssl, fd);
            fflush(stdout);
            _exit(0);
        }
        close(fd);
    }
}

/*
 * A private authority, and certificates with one fault each.
 *
 * NAME.pem holds a certificate and its key (mode 0600), NAME.crt only the certificate. All keys
 * but the weak one are P-256: quick to make, and small on the wire.
 */
#include "tls_peer.h"

#include <openssl/ec.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

struct identity {
    X509 *cert;
    EVP_PKEY *key;
};

struct wish {
    const char *name;     /* of the file, and the common name */
    const char *alt;      /* subjectAltName, or NULL */
    const char *usage;    /* extendedKeyUsage, or NULL */
    int from_day, to_day; /* from today */
    bool authority;
    bool weak; /* with a key that nobody should trust any more */
};

static const char *folder;

static FILE *create(const char *name, const char *ending)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s%s", folder, name, ending);
    FILE *file = fopen(path, "we");
    if (!file || chmod(path, 0600) != 0) {
        give_up(path);
    }
    return file;
}

static void save(const char *name, const struct identity *who, const char *passphrase)
{
    FILE *both = create(name, ".pem");
    FILE *open = create(name, ".crt");
    FILE *locked = passphrase ? create(name, ".locked") : NULL;
    if (PEM_write_X509(both, who->cert) != 1 || PEM_write_X509(open, who->cert) != 1 ||
        PEM_write_PrivateKey(both, who->key, NULL, NULL, 0, NULL, NULL) != 1) {
        give_up(name);
    }
    if (locked) {
        PEM_write_PrivateKey(locked, who->key, EVP_aes_128_cbc(), NULL, 0, NULL,
                             (void *)(size_t)passphrase);
        fclose(locked);
    }
    fclose(both);
    fclose(open);
}

static void extend(X509 *cert, int nid, const char *value)
{
    X509_EXTENSION *extension = X509V3_EXT_conf_nid(NULL, NULL, nid, value);
    if (!extension || X509_add_ext(cert, extension, -1) != 1) {
        give_up(value);
    }
    X509_EXTENSION_free(extension);
}

/* A name that would write on the terminal of whoever prints it. */
static void extend_hostile(X509 *cert)
{
    static const char text[] = "evil\033[31m\n.example";
    GENERAL_NAMES *names = sk_GENERAL_NAME_new_null();
    GENERAL_NAME *name = GENERAL_NAME_new();
    ASN1_IA5STRING *value = ASN1_IA5STRING_new();
    ASN1_STRING_set(value, text, (int)strlen(text));
    GENERAL_NAME_set0_value(name, GEN_DNS, value);
    sk_GENERAL_NAME_push(names, name);
    X509_add1_ext_i2d(cert, NID_subject_alt_name, names, 0, 0);
    GENERAL_NAMES_free(names);
}

static struct identity sign(const struct wish *wish, const struct identity *issuer)
{
    static long serial = 1;
    struct identity who = {.cert = X509_new(),
                           .key = wish->weak ? EVP_RSA_gen(1024) : EVP_EC_gen("P-256")};
    if (!who.cert || !who.key) {
        give_up("no memory");
    }
    X509_set_version(who.cert, X509_VERSION_3);
    ASN1_INTEGER_set(X509_get_serialNumber(who.cert), serial++);
    X509_gmtime_adj(X509_getm_notBefore(who.cert), wish->from_day * 86400L - 3600);
    X509_gmtime_adj(X509_getm_notAfter(who.cert), wish->to_day * 86400L);
    X509_NAME_add_entry_by_txt(X509_get_subject_name(who.cert), "CN", MBSTRING_ASC,
                               (const unsigned char *)wish->name, -1, -1, 0);
    X509_set_issuer_name(who.cert, X509_get_subject_name(issuer ? issuer->cert : who.cert));
    X509_set_pubkey(who.cert, who.key);
    extend(who.cert, NID_basic_constraints, wish->authority ? "critical,CA:TRUE" : "CA:FALSE");
    if (wish->alt) {
        extend(who.cert, NID_subject_alt_name, wish->alt);
    } else if (!wish->authority) {
        extend_hostile(who.cert);
    }
    if (wish->usage) {
        extend(who.cert, NID_ext_key_usage, wish->usage);
    }
    if (X509_sign(who.cert, issuer ? issuer->key : who.key, EVP_sha256()) == 0) {
        give_up("sign");
    }
    save(wish->name, &who, wish->usage && strcmp(wish->usage, "clientAuth") == 0 ? "secret" : NULL);
    return who;
}

static void forget(struct identity who)
{
    X509_free(who.cert);
    EVP_PKEY_free(who.key);
}

void make_certificates(const char *where)
{
    static const char here[] = "DNS:localhost,DNS:*.lock.example,IP:127.0.0.1,IP:::1";
    const struct wish authority = {.name = "authority", .to_day = 30, .authority = true};
    const struct wish stranger = {.name = "stranger", .to_day = 30, .authority = true};
    const struct wish wishes[] = {
        {.name = "good", .alt = here, .usage = "serverAuth", .to_day = 30},
        {.name = "other", .alt = "DNS:other.example,IP:192.0.2.7", .to_day = 30},
        {.name = "expired", .alt = here, .from_day = -40, .to_day = -10},
        {.name = "future", .alt = here, .from_day = 10, .to_day = 40},
        {.name = "client", .alt = "DNS:me", .usage = "clientAuth", .to_day = 30},
        {.name = "hostile", .to_day = 30},
        {.name = "weak", .alt = here, .to_day = 30, .weak = true},
    };
    const struct wish unknown = {.name = "unknown", .alt = here, .to_day = 30};
    folder = where;
    struct identity root = sign(&authority, NULL);
    struct identity false_root = sign(&stranger, NULL);
    for (size_t i = 0; i < sizeof wishes / sizeof wishes[0]; i++) {
        forget(sign(&wishes[i], &root));
    }
    forget(sign(&unknown, &false_root));
    forget(root);
    forget(false_root);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Why a connection failed, as a sentence that says what to do.
 *
 * OpenSSL answers with numbers of its own, with alerts of the other side, and with a verdict about
 * the chain that is clear only while the certificate in question is at hand; so the verdict is put
 * into words when it falls, and the first reason stays. What a certificate says of itself was
 * written by a stranger: nothing but printable ASCII reaches the text.
 */
#include "net/tls_internal.h"

#include <arpa/inet.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

void snib__stream_explain(struct snib__stream *s, const char *format, ...)
{
    if (s->why[0]) {
        return;
    }
    va_list args;
    va_start(args, format);
    vsnprintf(s->why, sizeof s->why, format, args);
    va_end(args);
    for (char *c = s->why; *c; c++) {
        if (*c < ' ' || *c > '~') {
            *c = '?';
        }
    }
}

/* ---- Certificates ----------------------------------------------------------------------- */

struct text {
    char bytes[120];
    size_t used;
};

static void add(struct text *t, const char *bytes, int size)
{
    int n = snprintf(t->bytes + t->used, sizeof t->bytes - t->used, "%s%.*s", t->used ? ", " : "",
                     size, bytes);
    if (n > 0) {
        t->used += (size_t)n;
    }
    if (t->used >= sizeof t->bytes) {
        t->used = sizeof t->bytes - 1;
    }
}

static void add_name(const struct snib__openssl *o, struct text *t, const GENERAL_NAME *name)
{
    int type;
    const ASN1_STRING *value = o->GENERAL_NAME_get0_value(name, &type);
    if (type != GEN_DNS && type != GEN_IPADD) {
        return;
    }
    const unsigned char *bytes = o->ASN1_STRING_get0_data(value);
    int size = o->ASN1_STRING_length(value);
    char address[INET6_ADDRSTRLEN];
    if (type == GEN_DNS) {
        add(t, (const char *)bytes, size);
    } else if ((size == 4 || size == 16) &&
               inet_ntop(size == 4 ? AF_INET : AF_INET6, bytes, address, sizeof address)) {
        add(t, address, (int)strlen(address));
    }
}

static void add_common_name(const struct snib__openssl *o, struct text *t, const X509_NAME *name)
{
    char text[80];
    int size = o->X509_NAME_get_text_by_NID(name, NID_commonName, text, sizeof text);
    if (size <= 0) {
        size = o->X509_NAME_get_text_by_NID(name, NID_organizationName, text, sizeof text);
    }
    add(t, size > 0 ? text : "nobody", size > 0 ? size : 6);
}

/* All that a certificate is for. */
static void names_of(const struct snib__openssl *o, struct text *t, const X509 *cert)
{
    GENERAL_NAMES *names = o->X509_get_ext_d2i(cert, NID_subject_alt_name, NULL, NULL);
    const OPENSSL_STACK *stack = (const OPENSSL_STACK *)names;
    for (int i = 0; names && i < o->OPENSSL_sk_num(stack); i++) {
        add_name(o, t, o->OPENSSL_sk_value(stack, i));
    }
    o->GENERAL_NAMES_free(names);
    if (!t->used) {
        add_common_name(o, t, o->X509_get_subject_name(cert));
    }
}

static void day_of(const struct snib__openssl *o, char text[static 16], const ASN1_TIME *time)
{
    struct tm when;
    if (o->ASN1_TIME_to_tm(time, &when) != 1 || strftime(text, 16, "%Y-%m-%d", &when) == 0) {
        snprintf(text, 16, "a day unknown");
    }
}

void snib__tls_explain_cert(struct snib__stream *s, X509_STORE_CTX *store)
{
    const struct snib__openssl *o = s->tls->openssl;
    const X509 *cert = o->X509_STORE_CTX_get_current_cert(store);
    int verdict = o->X509_STORE_CTX_get_error(store);
    struct text who = {.used = 0};
    char day[16];
    switch (cert ? verdict : X509_V_ERR_UNSPECIFIED) {
    case X509_V_ERR_HOSTNAME_MISMATCH:
    case X509_V_ERR_IP_ADDRESS_MISMATCH:
        names_of(o, &who, cert);
        snib__stream_explain(s, "the certificate of %.100s is for %s", s->host, who.bytes);
        break;
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
    case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
    case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
    case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
    case X509_V_ERR_CERT_SIGNATURE_FAILURE:
        add_common_name(o, &who, o->X509_get_issuer_name(cert));
        snib__stream_explain(s,
                             "the certificate of %.100s is signed by an unknown authority, "
                             "\"%.60s\": give its certificate by ca=FILE",
                             s->host, who.bytes);
        break;
    case X509_V_ERR_CERT_HAS_EXPIRED:
        names_of(o, &who, cert);
        day_of(o, day, o->X509_get0_notAfter(cert));
        snib__stream_explain(s, "the certificate of %.100s expired on %s (the one for %s)", s->host,
                             day, who.bytes);
        break;
    case X509_V_ERR_CERT_NOT_YET_VALID:
        day_of(o, day, o->X509_get0_notBefore(cert));
        snib__stream_explain(
            s, "the certificate of %.100s is valid from %s on: is the clock right?", s->host, day);
        break;
    case X509_V_ERR_INVALID_PURPOSE:
        snib__stream_explain(s, "the certificate of %.100s is not one for servers", s->host);
        break;
    default:
        snib__stream_explain(s, "the certificate of %.100s is not trusted: %s", s->host,
                             o->X509_verify_cert_error_string(verdict));
        break;
    }
}

/* ---- Alerts and the rest ---------------------------------------------------------------- */

static bool about_certificates(int alert)
{
    return (alert >= SSL3_AD_NO_CERTIFICATE && alert <= SSL3_AD_CERTIFICATE_UNKNOWN) ||
           alert == TLS1_AD_UNKNOWN_CA || alert == TLS1_AD_ACCESS_DENIED ||
           alert == TLS13_AD_CERTIFICATE_REQUIRED;
}

/* The other side said why it does not want to go on. */
static void explain_alert(struct snib__stream *s, int alert, const char *text)
{
    bool lacking = s->cert_wanted && !s->got_data;
    if (about_certificates(alert) && s->tls->has_cert) {
        snib__stream_explain(s, "%.100s does not accept the certificate in cert=: %s", s->host,
                             text);
    } else if (about_certificates(alert) || (alert == SSL3_AD_HANDSHAKE_FAILURE && lacking)) {
        snib__stream_explain(s, "%.100s wants a client certificate: give cert= and key=", s->host);
    } else if (alert == TLS1_AD_PROTOCOL_VERSION) {
        snib__stream_explain(s, "%.100s speaks no TLS of version 1.2 or newer", s->host);
    } else if (alert == TLS1_AD_UNRECOGNIZED_NAME) {
        snib__stream_explain(s, "the server at %.100s does not know this name", s->host);
    } else {
        snib__stream_explain(s, "%.100s ended the TLS connection: %s", s->host, text);
    }
}

static void explain_end(struct snib__stream *s)
{
    if (s->cert_wanted && !s->got_data) {
        snib__stream_explain(
            s, "%.100s asked for a client certificate and hung up: give cert= and key=", s->host);
    } else if (!s->started) {
        snib__stream_explain(
            s, "%.100s hung up during the TLS handshake: does it speak TLS on this port?", s->host);
    } else {
        snib__stream_explain(
            s, "the connection to %.100s was cut off: no closing message of TLS came", s->host);
    }
}

void snib__tls_explain(struct snib__stream *s)
{
    const struct snib__openssl *o = s->tls->openssl;
    unsigned long error = o->ERR_peek_error();
    int reason = ERR_GET_LIB(error) == ERR_LIB_SSL ? ERR_GET_REASON(error) : 0;
    const char *text = o->ERR_reason_error_string(error);
    if (s->foreign) {
        snib__stream_explain(s, "%.100s speaks no TLS here: is this its port without TLS?",
                             s->host);
    } else if (reason >= SSL_AD_REASON_OFFSET && reason < SSL_AD_REASON_OFFSET + 256) {
        explain_alert(s, reason - SSL_AD_REASON_OFFSET, text ? text : "an alert without a name");
    } else if (reason == SSL_R_UNSUPPORTED_PROTOCOL || reason == SSL_R_WRONG_SSL_VERSION ||
               reason == SSL_R_WRONG_VERSION_NUMBER) {
        snib__stream_explain(s, "%.100s speaks no TLS of version 1.2 or newer", s->host);
    } else if (s->sys) {
        snib__stream_explain(s, "the connection to %.100s broke: %s", s->host,
                             strerrordesc_np(s->sys));
    } else if (s->ended) {
        explain_end(s);
    } else {
        snib__stream_explain(s, "TLS with %.100s failed: %s", s->host, text ? text : "no reason");
    }
}

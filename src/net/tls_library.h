/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_NET_TLS_LIBRARY_H
#define SNIB_NET_TLS_LIBRARY_H

/* The functions of OpenSSL that we call, found at run time. Its headers are used for types and
 * constants; its macros and inline functions are not, since they call it by name. */

#include "snib.h"

#define OPENSSL_API_COMPAT 30000
#define OPENSSL_NO_DEPRECATED
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509_vfy.h>
#include <openssl/x509v3.h>

#define SNIB__OPENSSL_FUNCTIONS(X)                                                                 \
    X(ASN1_STRING_get0_data)                                                                       \
    X(ASN1_STRING_length)                                                                          \
    X(ASN1_TIME_to_tm)                                                                             \
    X(BIO_clear_flags)                                                                             \
    X(BIO_free)                                                                                    \
    X(BIO_get_data)                                                                                \
    X(BIO_meth_free)                                                                               \
    X(BIO_meth_new)                                                                                \
    X(BIO_meth_set_ctrl)                                                                           \
    X(BIO_meth_set_read)                                                                           \
    X(BIO_meth_set_write)                                                                          \
    X(BIO_new)                                                                                     \
    X(BIO_new_mem_buf)                                                                             \
    X(BIO_set_data)                                                                                \
    X(BIO_set_flags)                                                                               \
    X(BIO_set_init)                                                                                \
    X(ERR_clear_error)                                                                             \
    X(ERR_peek_error)                                                                              \
    X(ERR_reason_error_string)                                                                     \
    X(EVP_PKEY_free)                                                                               \
    X(GENERAL_NAMES_free)                                                                          \
    X(GENERAL_NAME_get0_value)                                                                     \
    X(OPENSSL_init_ssl)                                                                            \
    X(OPENSSL_sk_num)                                                                              \
    X(OPENSSL_sk_value)                                                                            \
    X(PEM_read_bio_PrivateKey)                                                                     \
    X(SSL_CTX_check_private_key)                                                                   \
    X(SSL_CTX_ctrl)                                                                                \
    X(SSL_CTX_free)                                                                                \
    X(SSL_CTX_get0_param)                                                                          \
    X(SSL_CTX_load_verify_dir)                                                                     \
    X(SSL_CTX_load_verify_file)                                                                    \
    X(SSL_CTX_new)                                                                                 \
    X(SSL_CTX_set_alpn_protos)                                                                     \
    X(SSL_CTX_set_client_cert_cb)                                                                  \
    X(SSL_CTX_set_default_passwd_cb)                                                               \
    X(SSL_CTX_set_default_verify_paths)                                                            \
    X(SSL_CTX_set_options)                                                                         \
    X(SSL_CTX_set_verify)                                                                          \
    X(SSL_CTX_use_PrivateKey)                                                                      \
    X(SSL_CTX_use_certificate_chain_file)                                                          \
    X(SSL_ctrl)                                                                                    \
    X(SSL_do_handshake)                                                                            \
    X(SSL_free)                                                                                    \
    X(SSL_get0_alpn_selected)                                                                      \
    X(SSL_get0_param)                                                                              \
    X(SSL_get_error)                                                                               \
    X(SSL_get_ex_data)                                                                             \
    X(SSL_get_ex_data_X509_STORE_CTX_idx)                                                          \
    X(SSL_new)                                                                                     \
    X(SSL_pending)                                                                                 \
    X(SSL_read)                                                                                    \
    X(SSL_set_bio)                                                                                 \
    X(SSL_set_connect_state)                                                                       \
    X(SSL_set_ex_data)                                                                             \
    X(SSL_shutdown)                                                                                \
    X(SSL_write)                                                                                   \
    X(TLS_client_method)                                                                           \
    X(X509_NAME_get_text_by_NID)                                                                   \
    X(X509_STORE_CTX_get_current_cert)                                                             \
    X(X509_STORE_CTX_get_error)                                                                    \
    X(X509_STORE_CTX_get_ex_data)                                                                  \
    X(X509_VERIFY_PARAM_set1_host)                                                                 \
    X(X509_VERIFY_PARAM_set1_ip_asc)                                                               \
    X(X509_VERIFY_PARAM_set_flags)                                                                 \
    X(X509_VERIFY_PARAM_set_hostflags)                                                             \
    X(X509_get0_notAfter)                                                                          \
    X(X509_get0_notBefore)                                                                         \
    X(X509_get_ext_d2i)                                                                            \
    X(X509_get_issuer_name)                                                                        \
    X(X509_get_subject_name)                                                                       \
    X(X509_verify_cert_error_string)

struct snib__openssl {
#define SNIB__OPENSSL_MEMBER(name) __typeof__(name) *name;
    SNIB__OPENSSL_FUNCTIONS(SNIB__OPENSSL_MEMBER)
#undef SNIB__OPENSSL_MEMBER
};

/* Find them: 0, or a code with a message that names the package to install. Once is enough for all
 * of the process, and no harm if it is done again. */
int snib__openssl_load(snib_error *err);

/* Once they were found: the same for ever. */
const struct snib__openssl *snib__openssl(void);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loading OpenSSL when it is first needed.
 *
 * A lock on a file, or on a server without TLS, should not pay for a megabyte of cryptography; so
 * nothing is linked, and the first session with TLS opens the library. It is then kept for ever
 * (RTLD_NODELETE: OpenSSL leaves thread-specific destructors behind) and its names stay out of the
 * program's way (RTLD_LOCAL). A program that has the same OpenSSL already shares it with us; one
 * that has another version does not notice, since the symbols are versioned.
 *
 * What is shared is left as it is: no configuration, no default, no callback of the whole library
 * is set here, everything hangs on contexts of our own. Two exceptions that cannot be avoided: the
 * queue of errors of the calling thread is emptied by our calls, which OpenSSL needs to tell its
 * answers apart; and if we come first, OpenSSL does not clean up at exit, because that would pull
 * the ground from under a thread of ours that renews a lease while the program exits.
 *
 * No mutex: a child forked while another thread held it could never use TLS. Two threads that come
 * first at the same time both load, and one table is thrown away.
 *
 * Not done: other major versions. Their functions may differ in ways that no compiler would see.
 */
#include "net/tls_library.h"

#include "base/error.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define LIBRARY "libssl.so.3"

static _Atomic(const struct snib__openssl *) loaded;

/* Fill in the table; the name of the first function that is missing, or NULL. dlsym also looks
 * into what libssl itself needs, which is where libcrypto is found. */
static const char *resolve(void *library, struct snib__openssl *table)
{
    void *found;
#define RESOLVE(name)                                                                              \
    found = dlsym(library, #name);                                                                 \
    if (!found) {                                                                                  \
        return #name;                                                                              \
    }                                                                                              \
    memcpy(&table->name, &found, sizeof found);
    SNIB__OPENSSL_FUNCTIONS(RESOLVE)
#undef RESOLVE
    return NULL;
}

static int fill(struct snib__openssl *table, void *library, snib_error *err)
{
    const char *missing = resolve(library, table);
    if (missing) {
        return snib__fail(err, SNIB_ENOTSUP, 0, "TLS needs OpenSSL 3, but " LIBRARY " has no %s",
                          missing);
    }
    if (table->OPENSSL_init_ssl(OPENSSL_INIT_NO_ATEXIT, NULL) != 1) {
        return snib__fail(err, SNIB_ENOTSUP, 0,
                          "OpenSSL does not start: is its configuration in order?");
    }
    return 0;
}

int snib__openssl_load(snib_error *err)
{
    if (atomic_load(&loaded)) {
        return 0;
    }
    void *library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (!library) {
        return snib__fail(
            err, SNIB_ENOTSUP, 0,
            "TLS needs OpenSSL 3, which is not installed (Debian package libssl3): %s", dlerror());
    }
    struct snib__openssl *table = calloc(1, sizeof *table);
    if (!table) {
        return snib__fail(err, SNIB_ENOMEM, 0, "out of memory for TLS");
    }
    const struct snib__openssl *nobody = NULL;
    int rc = fill(table, library, err);
    if (rc != 0 || !atomic_compare_exchange_strong(&loaded, &nobody, table)) {
        free(table);
    }
    return rc;
}

const struct snib__openssl *snib__openssl(void)
{
    return atomic_load(&loaded);
}

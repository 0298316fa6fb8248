/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_BASE_PASSFILE_H
#define SNIB_BASE_PASSFILE_H

/*
 * A file with a password: its first line. It must belong to us or to root, and be nobody else's to
 * read.
 */

#include "snib.h"

#pragma GCC visibility push(default)

/* A copy, to be wiped and freed. EDENIED, EUNSAFE, EINVAL or ENOMEM, with `scheme` in the text. */
int snib__passfile_read(char **out, const char *path, const char *scheme, snib_error *err);

#pragma GCC visibility pop

#endif

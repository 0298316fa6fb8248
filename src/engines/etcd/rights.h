/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_ETCD_RIGHTS_H
#define SNIB_ETCD_RIGHTS_H

#include "engines/engine.h"

/* See snib_rights. */
int etcd_rights(const struct snib__session *, char *out, size_t size);

#endif

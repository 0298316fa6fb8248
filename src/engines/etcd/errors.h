/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_ETCD_ERRORS_H
#define SNIB_ETCD_ERRORS_H

/*
 * What it means that a call was refused, or not answered.
 */

#include "engines/etcd/session.h"

#define ETCD_TEXT_MAX 400

int etcd_error_code(const struct etcd_call *); /* enum snib_code */

/* What is wrong, and with whom; what to do about it, or "". For people. */
const char *etcd_error_fact(const struct etcd *, const struct etcd_call *, char out[ETCD_TEXT_MAX]);
const char *etcd_error_remedy(const struct etcd *, const struct etcd_call *,
                              char out[ETCD_TEXT_MAX]);

/* Both in one sentence. */
const char *etcd_error_text(const struct etcd *, const struct etcd_call *, char out[ETCD_TEXT_MAX]);

#endif

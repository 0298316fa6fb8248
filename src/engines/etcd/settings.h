/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_ETCD_SETTINGS_H
#define SNIB_ETCD_SETTINGS_H

#include "engines/etcd/session.h"

/* What the URL says about the cluster, and who we are there. */
int etcd_settings_read(struct etcd *, snib_error *err);
void etcd_settings_free(struct etcd *);

#endif

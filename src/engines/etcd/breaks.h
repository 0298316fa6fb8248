/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_ETCD_BREAKS_H
#define SNIB_ETCD_BREAKS_H

#include "engines/etcd/session.h"

/* It is held, and somebody may listen: hear at once when the key is marked or gone. */
void etcd_breaks_listen(struct etcd *, struct etcd_claim *);
void etcd_breaks_unlisten(struct etcd *, struct etcd_claim *);

/* What came for a watch of a key; the stream of all watches is over. */
void etcd_breaks_heard(struct etcd *, const Pb__WatchResponse *);
void etcd_breaks_deaf(struct etcd *);

int64_t etcd_breaks_keep_time(struct etcd *, int64_t now_ns);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_ETCD_WATCH_H
#define SNIB_ETCD_WATCH_H

#include "engines/etcd/session.h"

/* What a claim hears of its name. */
struct etcd_watch_upcalls {
    void (*ready)(struct etcd *, struct etcd_claim *);   /* from here on, deletions are seen */
    void (*deleted)(struct etcd *, struct etcd_claim *); /* its own key */
    void (*ahead)(struct etcd *, struct etcd_claim *, const struct etcd_gone *); /* another's */
    void (*unsure)(struct etcd *, struct etcd_claim *);      /* something was deleted: look again */
    void (*heard)(struct etcd *, const Pb__WatchResponse *); /* of a key */
    void (*deaf)(struct etcd *);                             /* all watches of keys are over */
};
extern const struct etcd_watch_upcalls etcd_watch_upcalls; /* claims.c */

/* The claim is about to ask for its name; its key is known. False: no memory. */
bool etcd_watch_join(struct etcd *, struct etcd_claim *);
void etcd_watch_leave(struct etcd *, struct etcd_claim *);

/* It stands in line: deletions must be seen. */
void etcd_watch_want(struct etcd *, struct etcd_claim *);

/* Are all deletions after `revision` known? Then *count of them stand in name->gone, oldest first
 * from *first on. */
bool etcd_watch_covers(const struct etcd_name *, int64_t revision);

/* Watch one key, puts too; its number, for `heard`. 0: that cannot be done now. */
int64_t etcd_watch_key(struct etcd *, const char *key);
void etcd_watch_key_end(struct etcd *, int64_t id);

int64_t etcd_watch_keep_time(struct etcd *, int64_t now_ns);
void etcd_watch_close(struct etcd *);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_FILE_VIEW_H
#define SNIB_FILE_VIEW_H

#include "engines/file/record.h"
#include "engines/file/ring.h"

/* Somebody in the queue. */
struct queue_entry {
    uint64_t order;
    uint32_t record;        /* 0: ours and not yet written */
    struct file_claim *own; /* NULL: somebody else's */
    bool alive;             /* known to be */
    bool gone;              /* dead, granted or failed */
};

/* Somebody to be rung when the gate is open again. */
struct ring {
    struct bell_address bell;
    uint64_t cookie;
};

/* The queue as seen from inside the gate. */
struct view {
    struct lock *lock;
    struct front front;          /* header and record 0 as read; the words are as they shall be */
    struct gate_words before;    /* the words as they are in the file */
    struct record *records;      /* [0, high) */
    struct queue_entry *entries; /* in their order */
    size_t entry_count;
    uint64_t claimed[(PERMITS_MAX + 63) / 64]; /* permits somebody has, as far as known */
    bool swept;                                /* of permits of dead holders */
    struct ring rings[RINGS_MAX];
    size_t ring_count;
    struct flock slot;   /* who had it when it was last looked at, if `slot_seen` */
    size_t bytes;        /* there were, at most what was asked for */
    bool looked;         /* the file was found whole in the same breath */
    bool slot_seen;      /* somebody else had the slot, after ours were written down */
    bool joined;         /* somebody of ours was written down just now */
    bool refused;        /* somebody of ours was answered BUSY */
    bool replaced;       /* found while taking: this is not the file any more */
    bool let_go;         /* the slot was locked and unlocked again: ring afterwards */
    bool waits_for_rung; /* the one whose turn it is was rung, and has not come yet */
    bool blind;          /* somebody we wait for cannot be watched */
};

enum entered { ENTERED, GATE_BUSY, ENTER_FAILED, ENTER_REPLACED };

enum entered snib__file_view_enter(struct view *, struct lock *, struct failure *);
int snib__file_view_reload(struct view *, struct failure *);
int snib__file_view_write_words(struct view *);        /* errno */
uint32_t snib__file_view_waiting(const struct view *); /* those written down */
void snib__file_view_leave(struct view *); /* writes what changed, opens the gate, rings */

/* A free record with its alive byte locked; 0: none left. */
uint32_t snib__file_view_take_record(struct view *, struct failure *);
void snib__file_view_prune(struct view *, uint32_t index); /* its owner is dead */
bool snib__file_view_sift(struct view *,
                          struct queue_entry *);          /* false: gone; the dead are pruned */
void snib__file_view_ring(struct view *, uint32_t index); /* when the gate is open again */
/* What was decided about one of ours; see snib__file_claim_conclude. */
void snib__file_view_conclude(struct view *, struct queue_entry *, enum snib__status,
                              const struct failure *);

#endif

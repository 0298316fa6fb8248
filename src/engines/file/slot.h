/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_FILE_SLOT_H
#define SNIB_FILE_SLOT_H

#include "engines/file/record.h"

enum taken { TAKEN, NOT_FREE, TAKE_FAILED, TAKE_REPLACED };

/* The uncontended exclusive acquire. NOT_FREE: go through the gate. */
enum taken snib__file_slot_take_fast(struct file_claim *, struct failure *);
/* The slot, when it is this claim's turn. The record of a shared holder is the caller's work. */
enum taken snib__file_slot_take_exclusive(struct file_claim *, struct failure *);
enum taken snib__file_slot_take_shared(struct file_claim *, struct failure *);
/* Without the gate, by the first waiter, which was rung or saw a holder die. NOT_FREE: go through
 * the gate; it is not free, or this one is not the first, or that cannot be told. */
enum taken snib__file_slot_take_called(struct file_claim *);
/* Either mode, without the gate: as safe, but out of order. */
enum taken snib__file_slot_take_ungated(struct file_claim *, struct failure *);
void snib__file_slot_drop_exclusive(struct file_claim *);
void snib__file_slot_drop_shared(struct file_claim *);
/* Could a claim of anybody go? `*found`: who is in the way, F_UNLCK if that is one of ours. */
bool snib__file_slot_is_open(const struct lock *, int mode, struct flock *found);
uint64_t snib__file_slot_next_token(uint64_t last, int64_t now_us); /* 0: there is none left */

#endif

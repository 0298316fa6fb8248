/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_FILE_LAYOUT_H
#define SNIB_FILE_LAYOUT_H

/*
 * What is in a lock file, and which bytes of it are locked for what.
 *
 * The contents are 256 bytes of header and then records of 256 bytes. They are notes: who is
 * excluded is decided by kernel locks alone, on bytes far behind the contents, and a note is
 * believed only as far as a lock stands behind it.
 *
 *   gate     1 byte, for writing: whoever holds it may change the queue. Held for microseconds,
 *            never waited for in the kernel, because its holder may be stopped.
 *   permits  byte k, for writing: permit k of a counted lock
 *   alive    byte i, for writing: the writer of record i lives. Who gets the slot frees its record,
 *            but keeps the byte until it gives the slot back: one unlock is enough for both.
 *   slot     exclusive holders lock it for writing, shared ones for reading. All ranges start at
 *            the same byte, so they exclude; their length spells the holder, so F_OFD_GETLK
 *            tells who it is even when nothing was written.
 *
 * Who may write what:
 *
 *   header words     whoever holds the gate
 *   record 0         the exclusive holder, who holds the slot for writing. Its token is the last
 *                    one given. While the name is a counted lock: whoever holds the gate.
 *   record i         its owner, who has locked alive byte i; taken and pruned under the gate
 *   record i, rung   anybody: when the waiter with that number was called
 */

#include <stdint.h>
#include <sys/types.h>

#define GATE_AT ((off_t)1 << 40)
#define PERMIT_AT ((off_t)1 << 41)
#define ALIVE_AT ((off_t)1 << 42)
#define SLOT_AT ((off_t)1 << 62)

#define FILE_BYTES 4096 /* reserved at once, so that a full disk is met before the first grant */
#define RECORDS_MAX 4096U
#define PAGE_RECORDS 15U /* that many are within FILE_BYTES, record 0 among them */
#define PERMITS_MAX 1000U
#define FILE_MAGIC "snib\r\n\032\001"
#define FILE_VERSION 1U

enum kind { KIND_NONE, KIND_RW, KIND_COUNTED };
enum record_state { RECORD_FREE, RECORD_WAITING, RECORD_HOLDING };
enum { HAS_BELL = 1, LISTENS = 2 };

struct record {
    uint32_t state, mode;
    uint64_t order; /* in the queue */
    uint64_t token;
    uint64_t cookie;  /* names the claim to its owner; secret to those who cannot read the file */
    uint64_t session; /* with pid, the address of the owner's bell */
    uint32_t pid, pid_space;
    uint32_t net_space, flags;
    uint32_t nonce, permit;
    int64_t since_ms;
    uint64_t rung_order; /* the number that was called; the waiter clears it when it has come */
    uint64_t rung_at;    /* and when: see struct rung_time */
    char who[104];
    char label[64];
};

/* The part under the gate. */
struct gate_words {
    uint32_t kind, permits;
    uint64_t next_order;
    uint32_t waiting; /* never less than the number of live waiters; records tell exactly */
    uint32_t high;    /* records in use are below */
};

struct header {
    char magic[8];
    uint32_t version, name_length;
    char name[200];
    struct gate_words words;
    uint64_t reserved[2];
};

struct front { /* what an uncontended acquire reads */
    struct header header;
    struct record holder;
};

_Static_assert(sizeof(struct record) == 256, "records are 256 bytes");
_Static_assert(sizeof(struct header) == 256, "the header is 256 bytes");
_Static_assert(sizeof(struct header) + PAGE_RECORDS * sizeof(struct record) == FILE_BYTES,
               "header and first records fill the page");

static inline off_t record_at(uint32_t index)
{
    return (off_t)sizeof(struct header) + (off_t)index * (off_t)sizeof(struct record);
}

/* ---- When a waiter was called: 48 bits of milliseconds, 16 of whose clock that is ---------- */

struct rung_time {
    uint32_t clock; /* folded: the time namespace, whose CLOCK_BOOTTIME may be anything */
    int64_t ms;
};

static inline uint64_t rung_at(struct rung_time t)
{
    return (uint64_t)t.clock << 48 | ((uint64_t)t.ms & 0xffffffffffffULL);
}

static inline struct rung_time rung_time_of(uint64_t at)
{
    return (struct rung_time){.clock = (uint32_t)(at >> 48),
                              .ms = (int64_t)(at & 0xffffffffffffULL)};
}

/* ---- The length of a slot lock: 22 bits of pid, 16 of its pid namespace, 23 of a nonce ---- */

struct slot_owner {
    uint32_t pid;   /* 0: somebody who looks for a moment */
    uint32_t space; /* folded */
    uint32_t nonce; /* 0: shared */
};

#define NONCE_MASK 0x7fffffU

static inline uint32_t fold_space(uint32_t space)
{
    return (space ^ space >> 16) & 0xffffU;
}

static inline off_t slot_length(struct slot_owner o)
{
    return (off_t)(1 + ((uint64_t)o.pid | (uint64_t)o.space << 22 | (uint64_t)o.nonce << 38));
}

static inline struct slot_owner slot_owner_of(off_t length)
{
    uint64_t bits = (uint64_t)length - 1;
    return (struct slot_owner){.pid = (uint32_t)(bits & 0x3fffffU),
                               .space = (uint32_t)(bits >> 22 & 0xffffU),
                               .nonce = (uint32_t)(bits >> 38 & NONCE_MASK)};
}

#endif

/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_FILE_SESSION_H
#define SNIB_FILE_SESSION_H

/*
 * A session of the file engine: a directory, the open lock files, what wakes it, and what is the
 * same in everything it writes.
 *
 * The layers below the engine never answer the core. They put claims whose fate is decided into
 * `outcomes`, and the engine says it when they have returned: so answers come from one place, and
 * nobody is called back from below.
 */

#include "base/list.h"
#include "base/table.h"
#include "engines/engine.h"
#include "engines/file/bell.h"
#include "engines/file/directory.h"
#include "engines/file/layout.h"
#include "engines/file/lockfile.h"
#include "engines/file/waking.h"
#include "engines/file/watch.h"

struct file_session {
    struct snib__session *session;
    struct directory directory;
    struct cache cache;
    struct waking waking;
    struct watches watches;
    struct bell bell;

    struct record self;         /* what all records of this session have in common, */
    struct record draft;        /* and one of them */
    struct snib__result held;   /* an answer, likewise */
    uint32_t clock;             /* our time namespace, folded; 0: not needed yet */
    uint64_t number;            /* of claims: random at first, then counted */
    struct snib__table cookies; /* of claims that can be rung or asked */
    struct snib__list outcomes; /* claims with something to say */
    bool in_gate;

    struct record *records; /* room for a queue, with the header before its first record */
    size_t record_room;
};

#endif

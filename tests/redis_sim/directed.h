/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REDIS_SIM_DIRECTED_H
#define REDIS_SIM_DIRECTED_H

/*
 * Worlds by script: a case says what happens, and when. All of them use the first name.
 */

#include "world.h"

#define DIRECTED(name) TEST_CASE(name, 60, no_seed)

struct config plain(int machines, int64_t ttl_ms);
struct machine *machine(int index);

/* Ask, or ask and have it soon. */
struct ask *ask_mode(int index, int mode, int64_t ttl_ms);
struct ask *ask_x(int index);
struct ask *get_mode(int index, int mode, int64_t ttl_ms);
struct ask *get_x(int index);

/* Everybody gives back; the world is looked at once more. */
void finish(void);

#endif

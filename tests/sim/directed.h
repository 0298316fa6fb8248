/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_TESTS_SIM_DIRECTED_H
#define SNIB_TESTS_SIM_DIRECTED_H

#include "sim.h"

#define DIRECTED(name) TEST_CASE(name, 30, sim_no_seed)

/* Worlds by script: nothing happens but what the test says and what follows from it. */
struct sim_config directed_world(int machines, int64_t ttl_ms);
struct machine *machine(int index);
struct ask *ask_for(int machine, int64_t wait_ms); /* name 0, exclusive */
struct ask *ask_and_get(int machine);
bool holds(struct ask *ask); /* believes so, by its own clock */
enum snib__stage stage_of(const struct ask *ask);
void cut_off(int machine, int64_t ms);
void finish(void); /* everything is given back, and nothing is left */

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the worlds by script share.
 */
#include "directed.h"

struct config plain(int machines, int64_t ttl_ms)
{
    return (struct config){
        .seed = 1,
        .scripted = true,
        .show = check_option("show") != NULL,
        .machines = machines,
        .names = 1,
        .asks = 100,
        .ttl_ms = ttl_ms,
        .timeout_ms = 1000,
        .max_lease_ms = ttl_ms,
        .retention_ms = 3600000,
        .version = 7,
        .quarantine = true,
        .seen = true,
        .delay_ms = 1,
    };
}

struct machine *machine(int index)
{
    return &world.machines[index];
}

struct ask *ask_mode(int index, int mode, int64_t ttl_ms)
{
    snib_options o = SNIB_OPTIONS;
    o.mode = mode;
    o.ttl_ms = ttl_ms;
    return ask_for(machine(index), 0, &o);
}

struct ask *ask_x(int index)
{
    return ask_mode(index, SNIB_EXCLUSIVE, 0);
}

struct ask *get_mode(int index, int mode, int64_t ttl_ms)
{
    struct ask *ask = ask_mode(index, mode, ttl_ms);
    world_for(50);
    SIM_CHECK(ask->lease, "a free lock is not to be had");
    return ask;
}

struct ask *get_x(int index)
{
    return get_mode(index, SNIB_EXCLUSIVE, 0);
}

void finish(void)
{
    for (int i = 0; i < world.config.machines; i++) {
        for (int k = 0; k < ASKS; k++) {
            give_back(&machine(i)->asks[k]);
        }
    }
    world_calm();
    world_end();
}

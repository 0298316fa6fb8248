/*
 * Steps the clock of a server while it runs.
 *
 *     struct clock_shim clock;
 *     clock_shim_open(&clock);
 *     server_init(&redis, "redis");
 *     clock_shim_use(&clock, &redis);
 *     server_redis_prepare(&redis, NULL);
 *     server_start(&redis);
 *     clock_shim_wall(&clock, 60000);      for this server it is now a minute later
 *
 * clock_shim.so is loaded into the server by LD_PRELOAD and adds the numbers of a memory-mapped
 * file to what the kernel says. Any number of servers can share one file or have one each.
 */
#ifndef SNIB_TESTS_CLOCK_SHIM_H
#define SNIB_TESTS_CLOCK_SHIM_H

#include <stdatomic.h>
#include <stdint.h>

#define CLOCK_SHIM_VARIABLE "SNIB_CLOCK_FILE"

/* The contents of the file. */
struct clock_shim_offsets {
    _Atomic int64_t wall_ms;   /* CLOCK_REALTIME*, gettimeofday, time */
    _Atomic int64_t steady_ms; /* CLOCK_MONOTONIC*, CLOCK_BOOTTIME */
};

struct server;

struct clock_shim {
    char path[224];
    struct clock_shim_offsets *offsets;
};

/* A new file with both offsets zero, in the folder of the case. */
void clock_shim_open(struct clock_shim *shim);

/* Before server_start. SKIPs the case if clock_shim.so cannot be found: it is looked for in the
 * variable SNIB_CLOCK_SHIM, then beside the test program and upwards. */
void clock_shim_use(struct clock_shim *shim, struct server *server);

/* In force at once. */
void clock_shim_wall(struct clock_shim *shim, int64_t offset_ms);
void clock_shim_steady(struct clock_shim *shim, int64_t offset_ms);

#endif

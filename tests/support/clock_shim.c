/*
 * The part of the clock shim that lives inside the server: an LD_PRELOAD library over the calls
 * that read a clock, which adds the offsets of a mapped file to what the kernel says.
 *
 * It asks the kernel directly instead of looking up the next definition, so that there is nothing
 * to initialise in the wrong order; that costs the vDSO, which a test can pay. Without the file
 * it adds nothing.
 *
 * Not done: sleeping and timers. A time-out that is already armed runs on real time, and so does
 * one that is armed with an absolute time; servers arm theirs with spans.
 */
#include "clock_shim.h"

#include <fcntl.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

static const struct clock_shim_offsets *offsets;

__attribute__((constructor)) static void map_file(void)
{
    const char *path = getenv(CLOCK_SHIM_VARIABLE);
    int descriptor = path != NULL ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (descriptor < 0) {
        return;
    }
    void *memory = mmap(NULL, sizeof *offsets, PROT_READ, MAP_SHARED, descriptor, 0);
    close(descriptor);
    if (memory != MAP_FAILED) {
        offsets = memory;
    }
}

static int64_t offset_of(clockid_t clock)
{
    if (offsets == NULL) {
        return 0;
    }
    switch (clock) {
    case CLOCK_REALTIME:
    case CLOCK_REALTIME_COARSE:
    case CLOCK_REALTIME_ALARM:
    case CLOCK_TAI:
        return atomic_load_explicit(&offsets->wall_ms, memory_order_relaxed);
    case CLOCK_MONOTONIC:
    case CLOCK_MONOTONIC_RAW:
    case CLOCK_MONOTONIC_COARSE:
    case CLOCK_BOOTTIME:
    case CLOCK_BOOTTIME_ALARM:
        return atomic_load_explicit(&offsets->steady_ms, memory_order_relaxed);
    default:
        return 0; /* CPU time and dynamic clocks */
    }
}

EXPORT int clock_gettime(clockid_t clock, struct timespec *out)
{
    if (syscall(SYS_clock_gettime, clock, out) != 0) {
        return -1;
    }
    int64_t offset_ms = offset_of(clock);
    int64_t nanoseconds = out->tv_nsec + offset_ms % 1000 * 1000000;
    out->tv_sec += offset_ms / 1000;
    if (nanoseconds < 0) {
        out->tv_sec--;
        nanoseconds += 1000000000;
    } else if (nanoseconds >= 1000000000) {
        out->tv_sec++;
        nanoseconds -= 1000000000;
    }
    out->tv_nsec = nanoseconds;
    return 0;
}

EXPORT int gettimeofday(struct timeval *restrict out, void *restrict zone)
{
    struct timespec now;
    if (zone != NULL) {
        struct timezone *utc = zone;
        utc->tz_minuteswest = 0;
        utc->tz_dsttime = 0;
    }
    clock_gettime(CLOCK_REALTIME, &now);
    out->tv_sec = now.tv_sec;
    out->tv_usec = now.tv_nsec / 1000;
    return 0;
}

EXPORT time_t time(time_t *out)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (out != NULL) {
        *out = now.tv_sec;
    }
    return now.tv_sec;
}

EXPORT int timespec_get(struct timespec *out, int base)
{
    if (base != TIME_UTC) {
        return 0;
    }
    clock_gettime(CLOCK_REALTIME, out);
    return base;
}

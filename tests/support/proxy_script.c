/*
 * The decisions of a fault script: a pure function of the seed, so that a run can be repeated and
 * a failing step picked out. Times are drawn with the rest, never measured.
 */
#include "proxy_internal.h"

/* splitmix64 */
static uint64_t draw(uint64_t *state)
{
    uint64_t value = (*state += UINT64_C(0x9e3779b97f4a7c15));
    value = (value ^ (value >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    value = (value ^ (value >> 27)) * UINT64_C(0x94d049bb133111eb);
    return value ^ (value >> 31);
}

static int between(uint64_t *state, const int range[2])
{
    uint64_t span = range[1] > range[0] ? (uint64_t)(range[1] - range[0]) + 1 : 1;
    return range[0] + (int)(draw(state) % span);
}

static enum proxy_fault choose(uint64_t *state, unsigned faults)
{
    unsigned allowed = faults & PROXY_FAULT_ALL;
    uint64_t left = draw(state) % (unsigned)__builtin_popcount(allowed);
    for (unsigned bit = 1;; bit <<= 1) {
        if ((allowed & bit) != 0 && left-- == 0) {
            return (enum proxy_fault)bit;
        }
    }
}

void proxy_script_next(const struct proxy_script *script, uint64_t *state, struct proxy_step *step)
{
    static const int value_range[2] = {1, 50};
    step->fault = choose(state, script->faults);
    step->way = (enum proxy_way)(1 + draw(state) % 3);
    step->value_ms = between(state, value_range);
    step->fault_ms = between(state, script->fault_ms);
    step->rest_ms = between(state, script->rest_ms);
}

void proxy_script_plan(const struct proxy_script *script, struct proxy_step *steps, size_t count)
{
    uint64_t state = script->seed;
    for (size_t i = 0; i < count; i++) {
        proxy_script_next(script, &state, &steps[i]);
    }
}

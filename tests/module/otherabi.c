/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A module of another version of snib: nothing in it may be used, so nothing is in it.
 */
#include "engines/engine.h"

extern const struct snib__engine snib_engine_module;

const struct snib__engine snib_engine_module = {
    .abi = SNIB__ENGINE_ABI + 1,
    .scheme = "otherabi",
    .aliases = "",
};

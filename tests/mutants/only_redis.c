/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The other engines that are built in, for programs that use none of them.
 */
#include "engines/engine.h"

extern const struct snib__engine snib__engine_file, snib__engine_redlock, snib__engine_zookeeper;

const struct snib__engine snib__engine_file = {.scheme = "file", .aliases = ""};
const struct snib__engine snib__engine_redlock = {.scheme = "redlock", .aliases = ""};
const struct snib__engine snib__engine_zookeeper = {.scheme = "zookeeper", .aliases = ""};

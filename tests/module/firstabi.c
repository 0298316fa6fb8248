/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A module as it was built for snib 0.1: the first word says ABI 1, and everything behind it was
 * laid out otherwise, so that reading on would be reading nonsense.
 */
struct first_engine {
    unsigned abi;
    const void *rest[32];
};

extern const struct first_engine snib_engine_module;

const struct first_engine snib_engine_module = {.abi = 1, .rest = {(const void *)1}};

/* SPDX-License-Identifier: Apache-2.0 */
/* Another part of the program: the C header first, and both handles of one thing side by side. */
#include <snib.h>
#include <snib.hpp>

std::uint64_t token_by_c(::snib *client, const char *name);

std::uint64_t token_by_c(::snib *client, const char *name)
{
    snib_lease *raw = nullptr;
    if (snib_acquire(&raw, client, name, nullptr, nullptr) < 0) {
        return 0;
    }
    snib::lease owned(raw);
    return owned.token();
}

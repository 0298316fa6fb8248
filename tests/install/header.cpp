/* SPDX-License-Identifier: Apache-2.0 */
/* Valid C++17: the wrapper before anything else, twice, and the C header behind it. */
#include <snib.hpp>
#include <snib.hpp>
#include <snib.h>

snib::lease header_acquire(snib::client &client);

snib::lease header_acquire(snib::client &client)
{
    return client.acquire("header", snib::options().shared().wait(std::chrono::seconds(1)));
}

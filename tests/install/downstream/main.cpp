/* SPDX-License-Identifier: Apache-2.0 */
/* A C++ program of somebody else: it has the installed headers and libsnib. */
#include <snib.hpp>

#include <iostream>

int main(int argc, char **argv)
{
    try {
        snib::client client(argc == 2 ? argv[1] : "");
        snib::lease lease = client.acquire("downstream");
        std::cout << "snib " << snib_version() << ", token " << lease.token() << '\n';
        return lease.release() == SNIB_OK ? 0 : 1;
    } catch (const snib::error &e) {
        std::cerr << e.what() << '\n';
        return 1;
    }
}

/*
 * Claiming ports.
 *
 * Binding port 0 and closing it again leaves two holes: another test may get the same number
 * before the server binds it, and while a server is down for a restart any outgoing connection on
 * the machine may be given its port. So ports come from outside of the kernel's ephemeral range,
 * and the claim is an abstract Unix socket with the number in its name: exclusive on the machine,
 * and gone with the process, however that ends.
 *
 * Other programs do not know these claims; whoever starts a server retries with another port if
 * it does not come up.
 */
#include "port.h"

#include "check.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { LOWEST = 10240, HIGHEST = 65500, ENOUGH = 1000, TRIES = 5000 };

static struct sockaddr_in loopback(int port)
{
    struct sockaddr_in address = {
        .sin_family = AF_INET,
        .sin_port = htons((uint16_t)port),
        .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
    };
    return address;
}

/* The larger part of the ports that is not ephemeral; all of them if there is hardly any. */
static void port_range(int *low, int *high)
{
    int first = 32768;
    int last = 60999;
    FILE *file = fopen("/proc/sys/net/ipv4/ip_local_port_range", "re");
    if (file != NULL) {
        if (fscanf(file, "%d %d", &first, &last) != 2) {
            first = 32768;
            last = 60999;
        }
        fclose(file);
    }
    *low = LOWEST;
    *high = HIGHEST;
    if (first - LOWEST >= HIGHEST - last && first - LOWEST >= ENOUGH) {
        *high = first - 1;
    } else if (HIGHEST - last >= ENOUGH) {
        *low = last + 1;
    }
}

/* True when the port is claimed; the descriptor stays open with this process. */
static bool claim(int port)
{
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    int length = snprintf(name.sun_path + 1, sizeof name.sun_path - 1, "snib-test-port-%d", port);
    int descriptor = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (descriptor < 0) {
        FAIL("socket: %s", strerror(errno));
    }
    socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length);
    if (bind(descriptor, (struct sockaddr *)&name, size) != 0) {
        close(descriptor);
        return false;
    }
    return true;
}

static bool is_free(int port)
{
    struct sockaddr_in address = loopback(port);
    int one = 1;
    int descriptor = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (descriptor < 0) {
        FAIL("socket: %s", strerror(errno));
    }
    setsockopt(descriptor, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    bool bound = bind(descriptor, (struct sockaddr *)&address, sizeof address) == 0;
    close(descriptor);
    return bound;
}

int port_claim(void)
{
    int low;
    int high;
    port_range(&low, &high);
    for (int i = 0; i < TRIES; i++) {
        uint32_t random;
        if (getrandom(&random, sizeof random, 0) != (ssize_t)sizeof random) {
            FAIL("getrandom: %s", strerror(errno));
        }
        int port = low + (int)(random % (uint32_t)(high - low + 1));
        if (is_free(port) && claim(port)) {
            return port;
        }
    }
    FAIL("no free port from %d to %d", low, high);
}

int port_connect(int port)
{
    struct sockaddr_in address = loopback(port);
    int descriptor = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (descriptor < 0) {
        return -1;
    }
    if (connect(descriptor, (struct sockaddr *)&address, sizeof address) != 0) {
        int cause = errno;
        close(descriptor);
        errno = cause;
        return -1;
    }
    return descriptor;
}

#include "check.h"
#include "etcd_gateway.h"
#include "etcd_links.h"
#include "port.h"

#include <arpa/inet.h>
#include <poll.h>
#include <stdlib.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

enum { LINKS_MOST = 256, HEAD_ROOM = 4096, LOOK_MS = 10 };

/* One connection: from `ends[0]`, a member that calls, to `ends[1]`, the one that is called. */
struct link {
    int ends[2];
    int to;
    uint64_t from; /* 0: not said */
    bool severed;
    size_t head_size;
    char head[HEAD_ROOM]; /* until it is known who calls */
};

static struct link all[LINKS_MOST];
static size_t count;

static void drop(struct link *link)
{
    close(link->ends[0]);
    if (link->ends[1] >= 0) {
        close(link->ends[1]);
    }
    *link = all[--count];
}

static bool is_severed(const struct etcd_links *links, const struct link *link)
{
    int cut = atomic_load(&links->cut) - 1;
    return cut >= 0 &&
           (link->to == cut || (link->from != 0 && link->from == atomic_load(&links->ids[cut])));
}

static bool send_all(int descriptor, const char *bytes, size_t size)
{
    while (size > 0) {
        ssize_t put = send(descriptor, bytes, size, MSG_NOSIGNAL);
        if (put <= 0) {
            return false;
        }
        bytes += put;
        size -= (size_t)put;
    }
    return true;
}

/* The head of the first request says who it is. */
static bool hear_head(const struct etcd_links *links, struct link *link)
{
    static const char header[] = "\r\nX-Server-From: ";
    ssize_t got =
        recv(link->ends[0], link->head + link->head_size, HEAD_ROOM - 1 - link->head_size, 0);
    if (got <= 0) {
        return false;
    }
    link->head_size += (size_t)got;
    link->head[link->head_size] = '\0';
    if (strstr(link->head, "\r\n\r\n") == NULL && link->head_size < HEAD_ROOM - 1) {
        return true;
    }
    const char *from = strcasestr(link->head, header);
    link->from = from != NULL ? strtoull(from + sizeof header - 1, NULL, 16) : 0;
    link->ends[1] = port_connect(links->targets[link->to]);
    return link->ends[1] >= 0 && send_all(link->ends[1], link->head, link->head_size);
}

static bool pass_on(struct link *link, int from)
{
    char bytes[16384];
    ssize_t got = recv(link->ends[from], bytes, sizeof bytes, 0);
    return got > 0 && send_all(link->ends[1 - from], bytes, (size_t)got);
}

static void take_call(const struct etcd_links *links, int to)
{
    int descriptor = accept(links->listeners[to], NULL, NULL);
    if (descriptor >= 0 && count < LINKS_MOST) {
        all[count++] = (struct link){.ends = {descriptor, -1}, .to = to};
    } else if (descriptor >= 0) {
        close(descriptor);
    }
}

/* What there is to do for one link; false: it is over. */
static bool step(const struct etcd_links *links, struct link *link)
{
    if (is_severed(links, link)) {
        link->severed = true; /* whatever is sent waits */
        return true;
    }
    if (link->severed) {
        return false; /* mended: they call again */
    }
    struct pollfd ends[2] = {{.fd = link->ends[0], .events = POLLIN},
                             {.fd = link->ends[1], .events = POLLIN}};
    if (poll(ends, 2, 0) <= 0) {
        return true;
    }
    if (link->ends[1] < 0) {
        return hear_head(links, link);
    }
    return (ends[0].revents == 0 || pass_on(link, 0)) && (ends[1].revents == 0 || pass_on(link, 1));
}

static void serve(void *arg)
{
    struct etcd_links *links = arg;
    static struct pollfd fds[ETCD_MEMBERS + 2 * LINKS_MOST];
    for (;;) {
        nfds_t n = 0;
        for (int i = 0; i < ETCD_MEMBERS; i++) {
            fds[n++] = (struct pollfd){.fd = links->listeners[i], .events = POLLIN};
        }
        for (size_t i = 0; i < count; i++) {
            for (int end = 0; end < 2 && !all[i].severed; end++) {
                fds[n++] = (struct pollfd){.fd = all[i].ends[end], .events = POLLIN};
            }
        }
        (void)poll(fds, n, LOOK_MS);
        for (int i = 0; i < ETCD_MEMBERS; i++) {
            if (fds[i].revents != 0) {
                take_call(links, i);
            }
        }
        for (size_t i = count; i-- > 0;) {
            if (!step(links, &all[i])) {
                drop(&all[i]);
            }
        }
    }
}

static int listen_at(int port)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)port),
                                  .sin_addr = {.s_addr = htonl(INADDR_LOOPBACK)}};
    int yes = 1, descriptor = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(descriptor >= 0);
    CHECK(setsockopt(descriptor, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) == 0);
    CHECK(bind(descriptor, (struct sockaddr *)&address, sizeof address) == 0);
    CHECK(listen(descriptor, 64) == 0);
    return descriptor;
}

struct etcd_links *etcd_links_start(struct server members[ETCD_MEMBERS])
{
    struct etcd_links *links = check_shared(sizeof *links);
    server_etcd_cluster_init(members, ETCD_MEMBERS);
    for (int i = 0; i < ETCD_MEMBERS; i++) {
        links->targets[i] = members[i].ports[1];
        links->ports[i] = port_claim();
        links->listeners[i] = listen_at(links->ports[i]);
    }
    links->pid = check_spawn(serve, links);
    for (int i = 0; i < ETCD_MEMBERS; i++) {
        close(links->listeners[i]);
    }
    server_etcd_cluster_start(members, ETCD_MEMBERS, links->ports, NULL);
    for (int i = 0; i < ETCD_MEMBERS; i++) {
        const char *id =
            strstr(etcd_post(&members[i], "maintenance/status", "{}"), "\"member_id\":\"");
        CHECK(id != NULL);
        atomic_store(&links->ids[i], strtoull(id + 13, NULL, 10));
    }
    return links;
}

void etcd_links_cut(struct etcd_links *links, int member)
{
    atomic_store(&links->cut, 1 + member);
}

void etcd_links_mend(struct etcd_links *links)
{
    atomic_store(&links->cut, 0);
}

void etcd_links_end(struct etcd_links *links)
{
    check_kill(links->pid);
}

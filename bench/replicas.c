/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What waiting for replicas costs: acquire and release at a master with two of them, all on this
 * machine, with wait= and without.
 */
#include "measure.h"
#include "snib.h"

#include <arpa/inet.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

enum { NODES = 3, COUNT = 10 };

static _Noreturn void die(const char *why)
{
    fprintf(stderr, "bench: %s\n", why);
    exit(1);
}

static int free_port(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (bind(fd, (struct sockaddr *)&address, size) < 0 ||
        getsockname(fd, (struct sockaddr *)&address, &size) < 0) {
        die("no port is free");
    }
    close(fd);
    return ntohs(address.sin_port);
}

/* It dies with us. */
static pid_t start(const char *folder, int port, int master)
{
    char own[12], of[40];
    snprintf(own, sizeof own, "%d", port);
    snprintf(of, sizeof of, "127.0.0.1 %d", master);
    pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (!freopen("/dev/null", "w", stdout) || chdir(folder) < 0) {
            _exit(1);
        }
        execlp("redis-server", "redis-server", "--port", own, "--bind", "127.0.0.1", "--save", "",
               "--repl-diskless-sync", "yes", "--repl-diskless-sync-delay", "0",
               master ? "--replicaof" : "--appendonly", master ? of : "no", (char *)NULL);
        _exit(127);
    }
    return pid;
}

static void pair(snib *client, int64_t wait_ms)
{
    snib_options options = SNIB_OPTIONS;
    snib_lease *lease;
    snib_error error;
    options.wait_ms = wait_ms;
    options.flags = SNIB_RETRY;
    if (snib_acquire(&lease, client, "bench", &options, &error) < 0 ||
        snib_release(&lease, &error) < 0) {
        die(error.message);
    }
}

static double pairs(void *arg, long count)
{
    int64_t begun_ns = measure_now_ns();
    for (long i = 0; i < count; i++) {
        pair(arg, 10000);
    }
    return measure_each(begun_ns, count);
}

static snib *client_with(int port, const char *parameters)
{
    char url[300];
    snib *client;
    snib_error error;
    snprintf(url, sizeof url, "redis://127.0.0.1:%d?quarantine=no&ttl=1s&max-lease=1s%s", port,
             parameters);
    if (snib_open(&client, url, &error) < 0) {
        die(error.message);
    }
    pair(client, 30000); /* the servers have started, and a quarantine is over */
    return client;
}

int main(int argc, char **argv)
{
    char folder[256];
    int ports[NODES];
    pid_t pids[NODES];
    measure_make_folder(folder, sizeof folder, argc, argv);
    for (int i = 0; i < NODES; i++) {
        ports[i] = free_port();
        pids[i] = start(folder, ports[i], i ? ports[0] : 0);
    }
    snib *plain = client_with(ports[0], "");
    snib *one = client_with(ports[0], "&wait=1&prefix=one");
    snib *majority = client_with(ports[0], "&wait=majority&prefix=majority");
    snib *all = client_with(ports[0], "&wait=all&prefix=all");
    const struct measure_subject subjects[] = {
        {"without wait", pairs, plain, COUNT, -1, 0, 1},
        {"wait=1", pairs, one, COUNT, 0, 0, 1},
        {"wait=majority", pairs, majority, COUNT, 0, 0, 1},
        {"wait=all", pairs, all, COUNT, 0, 0, 1},
    };
    measure(subjects, sizeof subjects / sizeof subjects[0]);
    snib_close(plain);
    snib_close(one);
    snib_close(majority);
    snib_close(all);
    for (int i = 0; i < NODES; i++) {
        kill(pids[i], SIGKILL);
        waitpid(pids[i], NULL, 0);
    }
    measure_remove_folder(folder);
    return 0;
}

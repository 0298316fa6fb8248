/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which process is this, and random bytes that no other process has.
 *
 * Both must notice fork, whoever called it and however: a handler of pthread_atfork is not run
 * by a bare clone(2). A page that the kernel wipes on fork is: it reads 0 in a child, once.
 * Where the kernel has no such page, getpid is called every time.
 *
 * Random bytes are drawn in small stocks per thread, because a system call for each lock would be
 * a third of the cost of an uncontended file lock. A stock remembers the process it belongs to.
 */
#include "core/process.h"

#include "engines/engine.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

static pthread_once_t once = PTHREAD_ONCE_INIT;
_Atomic(_Atomic pid_t *) snib__pid_page;
static void (*random_source)(void *, size_t);

static void make_page(void)
{
    long size = sysconf(_SC_PAGESIZE);
    void *p = mmap(NULL, (size_t)size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) {
        return;
    }
    if (madvise(p, (size_t)size, MADV_WIPEONFORK) < 0) {
        munmap(p, (size_t)size);
        return;
    }
    atomic_store_explicit(&snib__pid_page, p, memory_order_release);
}

pid_t snib__pid_ask(void)
{
    pid_t pid = getpid();
    pthread_once(&once, make_page);
    _Atomic pid_t *page = atomic_load_explicit(&snib__pid_page, memory_order_acquire);
    if (page) {
        atomic_store_explicit(page, pid, memory_order_relaxed);
    }
    return pid;
}

void snib__random_replace(void (*source)(void *out, size_t size))
{
    random_source = source;
}

static void from_kernel(unsigned char *out, size_t size)
{
    while (size > 0) {
        ssize_t n = getrandom(out, size, 0);
        if (n < 0) {
            if (errno == EINTR) {
                continue;
            }
            abort(); /* a lock with a guessable owner is worse than no program */
        }
        out += n;
        size -= (size_t)n;
    }
}

void snib__random(void *out, size_t size)
{
    static _Thread_local struct {
        pid_t pid;
        size_t left;
        unsigned char bytes[256];
    } stock;

    if (random_source) {
        random_source(out, size);
        return;
    }
    if (size > sizeof stock.bytes) {
        from_kernel(out, size);
        return;
    }
    if (stock.left < size || stock.pid != snib__pid()) {
        from_kernel(stock.bytes, sizeof stock.bytes);
        stock.left = sizeof stock.bytes;
        stock.pid = snib__pid();
    }
    stock.left -= size;
    memcpy(out, stock.bytes + stock.left, size);
    memset(stock.bytes + stock.left, 0, size);
}

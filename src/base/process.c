/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which process is this?
 *
 * Fork must be noticed, whoever called it and however: a handler of pthread_atfork is not run by a
 * bare clone(2). A page that the kernel wipes on fork is: it reads 0 in a child, once. Where the
 * kernel has no such page, getpid is called every time.
 */
#include "base/process.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <unistd.h>

static pthread_once_t once = PTHREAD_ONCE_INIT;
_Atomic(_Atomic pid_t *) snib__pid_page;

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

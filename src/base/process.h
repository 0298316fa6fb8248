/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_BASE_PROCESS_H
#define SNIB_BASE_PROCESS_H

#include <stdatomic.h>
#include <sys/types.h>

extern _Atomic(_Atomic pid_t *) snib__pid_page; /* private to the next two */
pid_t snib__pid_ask(void);

/* The id of this process, without a system call. Changes in a forked child. */
static inline pid_t snib__pid(void)
{
    _Atomic pid_t *page = atomic_load_explicit(&snib__pid_page, memory_order_acquire);
    pid_t pid = page ? atomic_load_explicit(page, memory_order_relaxed) : 0;
    return pid ? pid : snib__pid_ask();
}

#endif

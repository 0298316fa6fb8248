/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_PROCESS_H
#define SNIB_PROCESS_H

#include <sys/types.h>

/* The id of this process, without a system call. Changes in a forked child. */
pid_t snib__pid(void);

/* Where random bytes come from. The simulation replaces it; NULL is the kernel. */
void snib__random_replace(void (*source)(void *out, size_t size));

#endif

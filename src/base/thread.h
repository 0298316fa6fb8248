/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_BASE_THREAD_H
#define SNIB_BASE_THREAD_H

#include <pthread.h>

#pragma GCC visibility push(default)

/* A thread that takes no signals: they are the program's. 0 or an errno. */
int snib__thread_start(pthread_t *, void *(*run)(void *), void *arg);

#pragma GCC visibility pop

#endif

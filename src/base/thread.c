/* SPDX-License-Identifier: Apache-2.0 */
/* Threads of the library. Signals are the program's: none of ours ever runs its handlers. */
#include "base/thread.h"

#include <signal.h>

int snib__thread_start(pthread_t *thread, void *(*run)(void *), void *arg)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int rc = pthread_create(thread, NULL, run, arg);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return rc;
}

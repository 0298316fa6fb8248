/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_RELEASE_H
#define SNIB_RELEASE_H

#include "snib.h"

/* Give a lease back without waiting and without a word; with the mutex held, and while no callback
 * about it runs on another thread. */
void snib__release_untold(snib_lease *);

#endif

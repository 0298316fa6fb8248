/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_MONITOR_H
#define SNIB_MONITOR_H

/* The way in and out of every call: the mutex, and how long a client's memory lives. */

#include "snib.h"

#include <stdbool.h>

bool snib__usable(const snib *client, snib_error *err); /* this process, not closing */
void snib__enter(snib *client);                         /* takes the mutex */
void snib__leave(snib *client); /* hands over what must go on; gives it up */
void snib__leave_unref(snib *client);
void snib__leave_closed(snib *client); /* gives up the user's reference, when all have left */
void snib__unref(snib *client);        /* with the mutex and not the last; or in a child */
void snib__unlock_unref(snib *client); /* perhaps the last: not to be touched any more */

#endif

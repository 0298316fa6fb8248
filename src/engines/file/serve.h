/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_FILE_SERVE_H
#define SNIB_FILE_SERVE_H

#include "engines/file/view.h"

/* Everybody of ours whose turn it is gets what they wait for, the rest stands in the queue and
 * watches whom it waits for; others whose turn it is will be rung. */
void snib__file_serve(struct view *);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_FILE_KIND_H
#define SNIB_FILE_KIND_H

#include "engines/file/view.h"

/* Make the name the kind of lock that the claim wants. False: it is in use as another kind. */
bool snib__file_kind_bind(struct view *, const struct file_claim *, struct failure *);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_CONFIG_H
#define SNIB_CONFIG_H

#include "snib.h"

/* The URL to use when the caller names none: SNIB_URL, the user's snib.conf, the system's, else
 * "file:". *out and *origin, for people ("SNIB_URL", "/etc/snib.conf:3"), are malloc'd. A
 * configuration that must not be trusted is an error, not skipped. */
int snib__config_url(char **out, char **origin, snib_error *err);

/* One configuration file; *out stays NULL if the file is not there or names no URL. */
int snib__config_read(char **out, const char *path, snib_error *err);

#endif

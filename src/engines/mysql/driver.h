/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_MYSQL_DRIVER_H
#define SNIB_MYSQL_DRIVER_H

#include "engines/sql/driver.h"

/* link->settings is a struct mysql_settings. */
extern const struct sql_driver mysql_driver;

#endif

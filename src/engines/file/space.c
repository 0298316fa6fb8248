/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Namespaces: where a process number, the address of a bell or a time means what it means here.
 *
 * They have the same numbers on every host. On a network file system the boot id tells hosts apart.
 */
#include "engines/file/space.h"

#include "base/hash.h"
#include "base/random.h"

#include <stdio.h>
#include <sys/stat.h>

static uint32_t host_number(void)
{
    char id[40] = "";
    FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");
    if (!file || !fgets(id, sizeof id, file)) {
        snib__random(id, sizeof id - 1);
    }
    if (file) {
        fclose(file);
    }
    return (uint32_t)snib__hash_bytes(SNIB__HASH_START, id, sizeof id);
}

uint32_t snib__file_space(const char *kind, bool network)
{
    char path[40];
    struct stat st;
    snprintf(path, sizeof path, "/proc/self/ns/%s", kind);
    uint32_t number = stat(path, &st) == 0 ? (uint32_t)st.st_ino : 0;
    return network ? number ^ host_number() : number;
}

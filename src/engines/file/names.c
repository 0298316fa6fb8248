/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names of locks as names of files.
 *
 * The name as it is, with '/', '%' and a leading '.' written as %XX, and ".lock" behind it: so
 * that `ls` can be read, two names never meet, and no name escapes the directory or hides in it.
 * A name too long for that is cut and gets "%~" and a hash in place of its tail; the whole name
 * then stands in the file's header, where it is compared. "%~" cannot come from escaping.
 *
 * A name that is a path has many spellings and one lock: it is made canonical before.
 */
#include "engines/file/names.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#define SUFFIX ".lock"
#define LONGEST 240U /* file systems take 255; some stacked ones less */
#define CUT 160U     /* of a long name, readable */

__extension__ typedef unsigned __int128 wide;

static wide wide_hash_of(const char *name)
{
    wide prime = ((wide)1 << 88) + 0x13b;
    wide hash = ((wide)0x6c62272e07bb0142ULL << 64) + 0x62b821756295c58dULL;
    for (; *name; name++) {
        hash = (hash ^ (unsigned char)*name) * prime;
    }
    return hash;
}

static bool plain(unsigned char c, size_t at)
{
    return c >= 0x20 && c != 0x7f && c != '/' && c != '%' && !(c == '.' && at == 0);
}

/* How many bytes of `name` fit into `room` when escaped; never part of a character. */
static size_t escape(char *out, size_t *used, const char *name, size_t room)
{
    size_t i = 0;
    *used = 0;
    while (name[i]) {
        char unit[16];
        size_t n = 0;
        size_t next = i;
        do {
            unsigned char c = (unsigned char)name[next];
            if (plain(c, next)) {
                unit[n++] = (char)c;
            } else {
                n += (size_t)snprintf(unit + n, 4, "%%%02X", c);
            }
            next++;
        } while (((unsigned char)name[next] & 0xc0) == 0x80 && n < 12);
        if (*used + n > room) {
            break;
        }
        memcpy(out + *used, unit, n);
        *used += n;
        i = next;
    }
    return i;
}

void snib__file_name_encode(char out[FILE_NAME_BYTES], const char *name)
{
    size_t used;
    size_t done = escape(out, &used, name, LONGEST - strlen(SUFFIX));
    if (name[done] == '\0') {
        memcpy(out + used, SUFFIX, sizeof SUFFIX);
        return;
    }
    wide hash = wide_hash_of(name);
    escape(out, &used, name, CUT);
    snprintf(out + used, FILE_NAME_BYTES - used, "%%~%016llx%016llx" SUFFIX,
             (unsigned long long)(hash >> 64), (unsigned long long)hash);
}

static int digit(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

int snib__file_name_decode(char out[FILE_NAME_BYTES], const char *file_name)
{
    size_t length = strlen(file_name);
    size_t suffix = strlen(SUFFIX);
    if (length <= suffix || length >= FILE_NAME_BYTES ||
        strcmp(file_name + length - suffix, SUFFIX) != 0) {
        return -1;
    }
    if (strstr(file_name, "%~")) {
        return 1;
    }
    size_t n = 0;
    for (size_t i = 0; i < length - suffix; i++) {
        char c = file_name[i];
        if (c == '%') {
            int high = digit(file_name[i + 1]);
            int low = high < 0 ? -1 : digit(file_name[i + 2]);
            if (low < 0) {
                return -1;
            }
            c = (char)(high * 16 + low);
            i += 2;
        }
        out[n++] = c;
    }
    out[n] = '\0';
    /* Only what we would write ourselves: two files must not show as one name. */
    char again[FILE_NAME_BYTES];
    if (n == 0 || n > 200 || memchr(out, '\0', n)) {
        return -1;
    }
    snib__file_name_encode(again, out);
    return strcmp(again, file_name) == 0 ? 0 : -1;
}

const char *snib__file_name_canonical(char room[FILE_NAME_BYTES], const char *name)
{
    char *out = room;
    if (!snib__file_name_is_path(name)) {
        return name;
    }
    while (*name) {
        const char *part = name + strspn(name, "/");
        size_t length = strcspn(part, "/");
        name = part + length;
        if (length > 0 && !(length == 1 && part[0] == '.')) {
            *out++ = '/';
            memcpy(out, part, length);
            out += length;
        }
    }
    if (out == room) {
        *out++ = '/';
    }
    *out = '\0';
    return room;
}

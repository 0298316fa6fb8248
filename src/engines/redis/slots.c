/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Slots of a cluster: CRC16 of a key, the map that CLUSTER SLOTS answers, MOVED and ASK.
 *
 * All of it comes from the network and is read strictly: a map with one range that makes no sense
 * is none, since a lock that is asked for at the wrong server costs a round trip, but two clients
 * with half a map each could ask for ever. A server may leave its host out of what it says (an
 * empty one, or none): it means the one by which it was reached. "?" is a server whose name it does
 * not know; its slots have no owner then.
 *
 * Nothing here allocates or waits.
 */
#include "engines/redis/slots.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Slots ------------------------------------------------------------------------------ */

/* CRC-16/XMODEM: polynomial 0x1021, most significant bit first, from 0. */
static unsigned crc_step(unsigned crc, char byte)
{
    crc ^= (unsigned)(unsigned char)byte << 8;
    for (int bit = 0; bit < 8; bit++) {
        crc = crc & 0x8000 ? (crc << 1 ^ 0x1021) & 0xffff : crc << 1;
    }
    return crc;
}

static unsigned crc16(const char *bytes, size_t size)
{
    unsigned crc = 0;
    for (size_t i = 0; i < size; i++) {
        crc = crc_step(crc, bytes[i]);
    }
    return crc;
}

/* From the first '{' to the next '}', if there is anything between them; else the whole key. */
unsigned snib__slot_of(const char *key)
{
    const char *open = strchr(key, '{');
    const char *close = open ? strchr(open, '}') : NULL;
    if (close && close > open + 1) {
        return crc16(open + 1, (size_t)(close - open) - 1) % SNIB__SLOTS;
    }
    return crc16(key, strlen(key)) % SNIB__SLOTS;
}

/* Every slot has some among the 238,328; on average it is found after 16,384. */
void snib__slot_tag(char out[4], unsigned slot)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
    for (const char *a = letters; *a; a++) {
        unsigned first = crc_step(0, *a);
        for (const char *b = letters; *b; b++) {
            unsigned second = crc_step(first, *b);
            for (const char *c = letters; *c; c++) {
                if (crc_step(second, *c) % SNIB__SLOTS == slot) {
                    snprintf(out, 4, "%c%c%c", *a, *b, *c);
                    return;
                }
            }
        }
    }
    out[0] = '\0';
}

/* ---- The map ---------------------------------------------------------------------------- */

bool snib__place_is(const struct snib__place *place, const char *host, int port)
{
    return place->port == port && strcmp(place->host, host) == 0;
}

/* Its number, from 1; 0: there is no room. */
static size_t number_of(struct snib__slot_map *map, const struct snib__place *place)
{
    for (size_t i = 0; i < map->count; i++) {
        if (snib__place_is(&map->places[i], place->host, place->port)) {
            return i + 1;
        }
    }
    if (map->count == SNIB__PLACES) {
        return 0;
    }
    map->places[map->count] = *place;
    map->places[map->count].master = false;
    return ++map->count;
}

bool snib__slots_set(struct snib__slot_map *map, unsigned slot, const struct snib__place *place)
{
    size_t number = number_of(map, place);
    if (number == 0 || slot >= SNIB__SLOTS) {
        return false;
    }
    map->places[number - 1].master = true;
    map->owner[slot] = (uint16_t)number;
    return true;
}

unsigned snib__slots_covered(const struct snib__slot_map *map)
{
    unsigned covered = 0;
    for (size_t i = 0; i < SNIB__SLOTS; i++) {
        covered += map->owner[i] != 0;
    }
    return covered;
}

static bool set_place(struct snib__place *place, const char *host, size_t size, int64_t port,
                      const struct snib__place *from)
{
    if (port < 1 || port > 65535 || size >= sizeof place->host) {
        return false;
    }
    if (size == 0) {
        host = from->host;
        size = strlen(host);
    }
    memcpy(place->host, host, size);
    place->host[size] = '\0';
    place->port = (int)port;
    place->master = false;
    return true;
}

/* [host, port, id, ...] */
static bool read_place(struct snib__place *place, const struct snib__reply *item,
                       const struct snib__place *from)
{
    const char *host = item ? snib__reply_text(item, 0) : "";
    return item && item->type == REDIS_REPLY_ARRAY && item->count >= 2 &&
           set_place(place, host, strlen(host), snib__reply_number(item, 1), from);
}

/* [first, last, master, replica...] */
static bool read_range(struct snib__slot_map *map, const struct snib__reply *range,
                       const struct snib__place *from)
{
    struct snib__place place;
    if (!range || range->type != REDIS_REPLY_ARRAY || range->count < 3 || !range->items[0]) {
        return false;
    }
    int64_t first = snib__reply_number(range, 0), last = snib__reply_number(range, 1);
    if (range->items[0]->type != REDIS_REPLY_INTEGER || first < 0 || last < first ||
        last >= SNIB__SLOTS) {
        return false;
    }
    for (size_t i = 2; i < range->count; i++) {
        if (!read_place(&place, range->items[i], from)) {
            return false;
        }
        if (strcmp(place.host, "?") == 0) {
            continue;
        }
        size_t number = number_of(map, &place);
        if (number == 0) {
            return false;
        }
        if (i == 2) {
            map->places[number - 1].master = true;
            for (int64_t slot = first; slot <= last; slot++) {
                map->owner[slot] = (uint16_t)number;
            }
        }
    }
    return true;
}

bool snib__slots_read(struct snib__slot_map *map, const struct snib__reply *reply,
                      const struct snib__place *from)
{
    if (reply->type != REDIS_REPLY_ARRAY) {
        return false;
    }
    for (size_t i = 0; i < reply->count; i++) {
        if (!read_range(map, reply->items[i], from)) {
            return false;
        }
    }
    return true;
}

/* ---- Redirections ----------------------------------------------------------------------- */

/* The port is behind the last ':', so that an address of IPv6 needs no brackets. */
bool snib__redirect_read(struct snib__redirect *out, const char *text,
                         const struct snib__place *from)
{
    char *rest;
    bool moved = strncmp(text, "MOVED ", 6) == 0;
    if (!moved && strncmp(text, "ASK ", 4) != 0) {
        return false;
    }
    text += moved ? 6 : 4;
    long slot = strtol(text, &rest, 10);
    if (rest == text || *rest != ' ' || slot < 0 || slot >= SNIB__SLOTS) {
        return false;
    }
    const char *host = rest + 1;
    size_t size = strcspn(host, " \r\n");
    const char *colon = memrchr(host, ':', size);
    if (!colon || (colon == host + 1 && *host == '?')) {
        return false;
    }
    long port = strtol(colon + 1, &rest, 10);
    out->asking = !moved;
    out->slot = (unsigned)slot;
    return rest == host + size && set_place(&out->to, host, (size_t)(colon - host), port, from);
}

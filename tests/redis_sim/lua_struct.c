/* SPDX-License-Identifier: Apache-2.0 */
/*
 * struct.pack, struct.unpack, struct.size and bit.*, as Redis has them.
 *
 *   > < = endianness   !N alignment   x a zero byte   b B h H l L T i IN signed and unsigned
 *   f d numbers        s ends with a zero             cN N bytes, c0 as many as there are or as the
 *                                                     number in front says
 */
#include "model.h"

#include <ctype.h>
#include <lauxlib.h>
#include <lua.h>
#include <string.h>

struct format {
    const char *at;
    bool big;
    size_t align;
    size_t size; /* of the letter that was read last */
};

static size_t digits(struct format *f, size_t normal)
{
    if (!isdigit((unsigned char)*f->at)) {
        return normal;
    }
    size_t n = 0;
    while (isdigit((unsigned char)*f->at)) {
        n = n * 10 + (size_t)(*f->at++ - '0');
    }
    return n;
}

/* The next letter that is about data, 0 at the end; what is about the format itself is done. */
static char next(lua_State *l, struct format *f)
{
    for (;;) {
        char letter = *f->at;
        if (!letter) {
            return 0;
        }
        f->at++;
        switch (letter) {
        case ' ':
            continue;
        case '<':
        case '>':
            f->big = letter == '>';
            continue;
        case '!':
            f->align = digits(f, 8);
            continue;
        case 'b':
        case 'B':
        case 'x':
            f->size = 1;
            return letter;
        case 'h':
        case 'H':
            f->size = 2;
            return letter;
        case 'i':
        case 'I':
            f->size = digits(f, 4);
            luaL_argcheck(l, f->size >= 1 && f->size <= 8, 1, "integral size out of limits");
            return letter;
        case 'l':
        case 'L':
        case 'T':
        case 'd':
            f->size = 8;
            return letter;
        case 'f':
            f->size = 4;
            return letter;
        case 'c':
            f->size = digits(f, 1);
            return letter;
        case 's':
            f->size = 0;
            return letter;
        default:
            luaL_error(l, "invalid format option '%c'", letter);
        }
    }
}

static size_t padding(const struct format *f, char letter, size_t at)
{
    size_t size = f->size > f->align ? f->align : f->size;
    return letter == 'c' || letter == 's' || size <= 1 ? 0
                                                       : (size - (at & (size - 1))) & (size - 1);
}

static void put_integer(luaL_Buffer *b, const struct format *f, uint64_t value)
{
    for (size_t i = 0; i < f->size; i++) {
        size_t shift = 8 * (f->big ? f->size - 1 - i : i);
        luaL_addchar(b, (char)(value >> shift & 255));
    }
}

static uint64_t get_integer(const unsigned char *at, const struct format *f, bool is_signed)
{
    uint64_t value = 0;
    for (size_t i = 0; i < f->size; i++) {
        value = value << 8 | at[f->big ? i : f->size - 1 - i];
    }
    if (is_signed && f->size > 0 && f->size < 8 && value >> (8 * f->size - 1) & 1) {
        value |= ~UINT64_C(0) << (8 * f->size);
    }
    return value;
}

static void put_float(luaL_Buffer *b, const struct format *f, double number)
{
    unsigned char raw[8];
    float narrow = (float)number;
    memcpy(raw, f->size == 4 ? (void *)&narrow : (void *)&number, f->size);
    for (size_t i = 0; i < f->size; i++) {
        luaL_addchar(b, (char)raw[f->big ? f->size - 1 - i : i]);
    }
}

static double get_float(const unsigned char *at, const struct format *f)
{
    unsigned char raw[8] = {0};
    double wide;
    float narrow;
    for (size_t i = 0; i < f->size; i++) {
        raw[i] = at[f->big ? f->size - 1 - i : i];
    }
    memcpy(&wide, raw, sizeof wide);
    memcpy(&narrow, raw, sizeof narrow);
    return f->size == 4 ? (double)narrow : wide;
}

static int struct_pack(lua_State *l)
{
    struct format f = {.at = luaL_checkstring(l, 1), .align = 1};
    luaL_Buffer b;
    size_t total = 0;
    int arg = 2;
    char letter;
    lua_pushnil(l); /* keeps arguments and buffer apart */
    luaL_buffinit(l, &b);
    while ((letter = next(l, &f))) {
        for (size_t pad = padding(&f, letter, total); pad > 0; pad--, total++) {
            luaL_addchar(&b, '\0');
        }
        if (letter == 'x') {
            luaL_addchar(&b, '\0');
        } else if (letter == 's' || letter == 'c') {
            size_t size;
            const char *text = luaL_checklstring(l, arg++, &size);
            size_t wanted = letter == 's' || f.size == 0 ? size : f.size;
            luaL_argcheck(l, size >= wanted, arg - 1, "string too short");
            luaL_addlstring(&b, text, wanted);
            if (letter == 's') {
                luaL_addchar(&b, '\0');
            }
            f.size = wanted + (letter == 's');
        } else if (letter == 'f' || letter == 'd') {
            put_float(&b, &f, luaL_checknumber(l, arg++));
        } else {
            double n = luaL_checknumber(l, arg++);
            put_integer(&b, &f, n < 0 ? (uint64_t)(int64_t)n : (uint64_t)n);
        }
        total += f.size;
    }
    luaL_pushresult(&b);
    return 1;
}

static int struct_unpack(lua_State *l)
{
    struct format f = {.at = luaL_checkstring(l, 1), .align = 1};
    size_t size;
    const char *data = luaL_checklstring(l, 2, &size);
    size_t at = (size_t)luaL_optinteger(l, 3, 1) - 1;
    char letter;
    lua_settop(l, 2);
    while ((letter = next(l, &f))) {
        luaL_checkstack(l, 2, "too many results");
        at += padding(&f, letter, at);
        if (letter == 'c' && f.size == 0) {
            luaL_argcheck(l, lua_isnumber(l, -1), 1, "format 'c0' needs a previous size");
            f.size = (size_t)lua_tonumber(l, -1);
            lua_pop(l, 1);
        } else if (letter == 's') {
            size_t most = at <= size ? size - at : 0;
            f.size = strnlen(data + (most ? at : 0), most) + 1;
            luaL_argcheck(l, f.size <= most, 1, "unfinished string in data");
        }
        luaL_argcheck(l, at + f.size <= size, 2, "data string too short");
        const unsigned char *from = (const unsigned char *)data + at;
        if (letter == 'c' || letter == 's') {
            lua_pushlstring(l, data + at, f.size - (letter == 's'));
        } else if (letter == 'f' || letter == 'd') {
            lua_pushnumber(l, get_float(from, &f));
        } else if (letter != 'x') {
            bool is_signed = islower((unsigned char)letter);
            uint64_t value = get_integer(from, &f, is_signed);
            lua_pushnumber(l, is_signed ? (lua_Number)(int64_t)value : (lua_Number)value);
        }
        at += f.size;
    }
    lua_pushinteger(l, (lua_Integer)at + 1);
    return lua_gettop(l) - 2;
}

static int struct_size(lua_State *l)
{
    struct format f = {.at = luaL_checkstring(l, 1), .align = 1};
    size_t at = 0;
    char letter;
    while ((letter = next(l, &f))) {
        luaL_argcheck(l, letter != 's' && !(letter == 'c' && f.size == 0), 1,
                      "variable-size format");
        at += padding(&f, letter, at) + f.size;
    }
    lua_pushinteger(l, (lua_Integer)at);
    return 1;
}

/* ---- bit -------------------------------------------------------------------------------- */

static uint32_t bits(lua_State *l, int arg)
{
    return (uint32_t)(int64_t)luaL_checknumber(l, arg);
}

static int give(lua_State *l, uint32_t value)
{
    lua_pushnumber(l, (lua_Number)(int32_t)value);
    return 1;
}

static int bit_and(lua_State *l)
{
    uint32_t value = bits(l, 1);
    for (int i = 2; i <= lua_gettop(l); i++) {
        value &= bits(l, i);
    }
    return give(l, value);
}

static int bit_or(lua_State *l)
{
    uint32_t value = bits(l, 1);
    for (int i = 2; i <= lua_gettop(l); i++) {
        value |= bits(l, i);
    }
    return give(l, value);
}

static int bit_xor(lua_State *l)
{
    uint32_t value = bits(l, 1);
    for (int i = 2; i <= lua_gettop(l); i++) {
        value ^= bits(l, i);
    }
    return give(l, value);
}

static int bit_not(lua_State *l)
{
    return give(l, ~bits(l, 1));
}

static int bit_left(lua_State *l)
{
    return give(l, bits(l, 1) << (bits(l, 2) & 31));
}

static int bit_right(lua_State *l)
{
    return give(l, bits(l, 1) >> (bits(l, 2) & 31));
}

void host_open_struct(struct lua_State *l)
{
    static const luaL_Reg structs[] = {
        {"pack", struct_pack}, {"unpack", struct_unpack}, {"size", struct_size}, {NULL, NULL}};
    static const luaL_Reg bit[] = {{"band", bit_and}, {"bor", bit_or},      {"bxor", bit_xor},
                                   {"bnot", bit_not}, {"lshift", bit_left}, {"rshift", bit_right},
                                   {NULL, NULL}};
    luaL_register(l, "struct", structs);
    luaL_register(l, "bit", bit);
    lua_pop(l, 2);
}

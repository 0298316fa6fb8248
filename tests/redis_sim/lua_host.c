/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Scripts, run by liblua 5.1 as the server runs them: redis.call and its like, KEYS and ARGV, no
 * globals of their own, numbers cut to integers on their way out, errors worded as the server does.
 *
 * There is one Lua for all servers of a program. A script is compiled when it is first seen; which
 * server knows it is kept with the server.
 */
#include "model.h"

#include <assert.h>
#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SCRIPTS = 64, CALL_ARGS = 64 };

static lua_State *lua;
static struct {
    char sha1[41];
    char *text;
    size_t size;
    int function;
} scripts[SCRIPTS];
static int script_count;
static struct call *current; /* the EVAL that runs */

/* ---- SHA-1 ------------------------------------------------------------------------------ */

static uint32_t rotated(uint32_t x, int by)
{
    return x << by | x >> (32 - by);
}

static void sha1_block(uint32_t h[5], const unsigned char *p)
{
    uint32_t w[80];
    for (int i = 0; i < 16; i++) {
        w[i] = (uint32_t)p[4 * i] << 24 | (uint32_t)p[4 * i + 1] << 16 |
               (uint32_t)p[4 * i + 2] << 8 | p[4 * i + 3];
    }
    for (int i = 16; i < 80; i++) {
        w[i] = rotated(w[i - 3] ^ w[i - 8] ^ w[i - 14] ^ w[i - 16], 1);
    }
    uint32_t a = h[0], b = h[1], c = h[2], d = h[3], e = h[4];
    for (int i = 0; i < 80; i++) {
        uint32_t f = i < 20   ? ((b & c) | (~b & d)) + 0x5a827999
                     : i < 40 ? (b ^ c ^ d) + 0x6ed9eba1
                     : i < 60 ? ((b & c) | (b & d) | (c & d)) + 0x8f1bbcdc
                              : (b ^ c ^ d) + 0xca62c1d6;
        uint32_t t = rotated(a, 5) + f + e + w[i];
        e = d, d = c, c = rotated(b, 30), b = a, a = t;
    }
    h[0] += a, h[1] += b, h[2] += c, h[3] += d, h[4] += e;
}

void host_sha1(const char *at, size_t size, char out[41])
{
    uint32_t h[5] = {0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0};
    unsigned char block[64];
    size_t done = 0;
    for (; size - done >= 64; done += 64) {
        sha1_block(h, (const unsigned char *)at + done);
    }
    size_t rest = size - done;
    memset(block, 0, sizeof block);
    memcpy(block, at + done, rest);
    block[rest] = 0x80;
    if (rest >= 56) {
        sha1_block(h, block);
        memset(block, 0, sizeof block);
    }
    for (int i = 0; i < 8; i++) {
        block[63 - i] = (unsigned char)((uint64_t)size * 8 >> (8 * i));
    }
    sha1_block(h, block);
    for (int i = 0; i < 5; i++) {
        snprintf(out + 8 * i, 9, "%08x", h[i]);
    }
}

/* ---- From Redis to Lua ------------------------------------------------------------------ */

static const char *push_reply(const char *at)
{
    const char *end = strstr(at, "\r\n");
    long long number = strtoll(at + 1, NULL, 10);
    const char *next = end + 2;
    switch (at[0]) {
    case ':':
        lua_pushnumber(lua, (lua_Number)number);
        return next;
    case '$':
        if (number < 0) {
            lua_pushboolean(lua, 0);
            return next;
        }
        lua_pushlstring(lua, next, (size_t)number);
        return next + number + 2;
    case '*':
        lua_createtable(lua, (int)number, 0);
        for (int i = 1; i <= number; i++) {
            next = push_reply(next);
            lua_rawseti(lua, -2, i);
        }
        return next;
    default:
        lua_createtable(lua, 0, 1);
        lua_pushlstring(lua, at + 1, (size_t)(end - at - 1));
        lua_setfield(lua, -2, at[0] == '-' ? "err" : "ok");
        return next;
    }
}

/* Why the server does not run this in a script; NULL: it does. */
static const char *objection(const struct model *m, const struct command *c, int argc)
{
    if (!c) {
        return "ERR Unknown Redis command called from script";
    }
    if (!command_fits(c, argc)) {
        return "ERR Wrong number of args calling Redis command from script";
    }
    if (c->flags & OUTSIDE) {
        return "ERR This Redis command is not allowed from script";
    }
    if (m->replica && c->flags & WRITES) {
        return "READONLY You can't write against a read only replica.";
    }
    if (m->script_full && !m->wrote && c->flags & GROWS) {
        return "OOM command not allowed when used memory > 'maxmemory'.";
    }
    return NULL;
}

static int redis_run(lua_State *l, bool protected)
{
    static struct bytes out;
    struct arg argv[CALL_ARGS];
    char numbers[CALL_ARGS][40];
    struct model *m = current->model;
    int argc = lua_gettop(l);
    if (argc == 0 || argc > CALL_ARGS) {
        return luaL_error(l, "Please specify at least one argument for this redis.call() call");
    }
    argv[0] = (struct arg){"", 0};
    for (int i = 0; i < argc; i++) {
        if (lua_type(l, i + 1) == LUA_TNUMBER) {
            int n = snprintf(numbers[i], sizeof numbers[i], "%.17g", lua_tonumber(l, i + 1));
            argv[i] = (struct arg){numbers[i], (size_t)n};
        } else if (lua_type(l, i + 1) == LUA_TSTRING) {
            argv[i].at = lua_tolstring(l, i + 1, &argv[i].size);
        } else {
            return luaL_error(l, "Lua redis lib command arguments must be strings or integers");
        }
    }
    const struct command *c = command_find(argv[0]);
    const char *no = objection(m, c, argc);
    out.size = 0;
    m->calls++;
    if (no) {
        answer_error(&out, "%s", no);
    } else {
        struct call call = {m, current->peer, argc, argv, &out};
        c->run(&call);
        m->wrote = m->wrote || c->flags & WRITES;
    }
    bytes_add(&out, "", 1);
    push_reply(out.at);
    if (out.at[0] == '-' && !protected) {
        luaL_where(l, 1);
        lua_setfield(l, -2, "where");
        return lua_error(l);
    }
    return 1;
}

static int redis_call(lua_State *l)
{
    return redis_run(l, false);
}

static int redis_pcall(lua_State *l)
{
    return redis_run(l, true);
}

static int redis_sha1hex(lua_State *l)
{
    size_t size;
    char out[41];
    const char *at = luaL_checklstring(l, 1, &size);
    host_sha1(at, size, out);
    lua_pushstring(l, out);
    return 1;
}

static int one_field(lua_State *l, const char *name)
{
    lua_createtable(l, 0, 1);
    lua_pushvalue(l, 1);
    lua_setfield(l, -2, name);
    return 1;
}

static int redis_error(lua_State *l)
{
    luaL_checkstring(l, 1);
    return one_field(l, "err");
}

static int redis_status(lua_State *l)
{
    luaL_checkstring(l, 1);
    return one_field(l, "ok");
}

static int redis_nothing(lua_State *l)
{
    lua_pushboolean(l, 1);
    return 1;
}

static int no_such_global(lua_State *l)
{
    return luaL_error(l, "Script attempted to access nonexistent global variable '%s'",
                      lua_tostring(l, 2));
}

static int no_new_global(lua_State *l)
{
    return luaL_error(l, "Attempt to modify a readonly table script");
}

static void open_host(void)
{
    static const luaL_Reg redis[] = {
        {"call", redis_call},           {"pcall", redis_pcall},
        {"sha1hex", redis_sha1hex},     {"error_reply", redis_error},
        {"status_reply", redis_status}, {"replicate_commands", redis_nothing},
        {"log", redis_nothing},         {NULL, NULL},
    };
    lua = luaL_newstate();
    assert(lua);
    luaL_openlibs(lua);
    luaL_register(lua, "redis", redis);
    lua_pop(lua, 1);
    host_open_struct(lua);
    lua_createtable(lua, 0, 2);
    lua_pushcfunction(lua, no_such_global);
    lua_setfield(lua, -2, "__index");
    lua_pushcfunction(lua, no_new_global);
    lua_setfield(lua, -2, "__newindex");
    lua_pushvalue(lua, LUA_GLOBALSINDEX);
    lua_pushvalue(lua, -2);
    lua_setmetatable(lua, -2);
    lua_pop(lua, 2);
}

/* ---- From Lua to Redis ------------------------------------------------------------------ */

static void answer_value(struct bytes *out)
{
    struct arg text;
    switch (lua_type(lua, -1)) {
    case LUA_TNUMBER:
        answer_number(out, (int64_t)lua_tonumber(lua, -1));
        break;
    case LUA_TSTRING:
        text.at = lua_tolstring(lua, -1, &text.size);
        answer_text(out, text);
        break;
    case LUA_TBOOLEAN:
        if (lua_toboolean(lua, -1)) {
            answer_number(out, 1);
        } else {
            answer_nil(out);
        }
        break;
    case LUA_TTABLE: {
        int count = 0;
        static const char *const words[] = {"err", "ok"};
        for (int i = 0; i < 2; i++) {
            lua_pushstring(lua, words[i]);
            lua_rawget(lua, -2);
            if (lua_type(lua, -1) == LUA_TSTRING) {
                bytes_format(out, "%c%s\r\n", i == 0 ? '-' : '+', lua_tostring(lua, -1));
                lua_pop(lua, 1);
                return;
            }
            lua_pop(lua, 1);
        }
        for (;; count++) {
            lua_rawgeti(lua, -1, count + 1);
            bool end = lua_isnil(lua, -1);
            lua_pop(lua, 1);
            if (end) {
                break;
            }
        }
        answer_array(out, (size_t)count);
        for (int i = 1; i <= count; i++) {
            lua_rawgeti(lua, -1, i);
            answer_value(out);
            lua_pop(lua, 1);
        }
        break;
    }
    default:
        answer_nil(out);
        break;
    }
}

/* What the script died of is on the stack. */
static void answer_death(const struct model *m, struct bytes *out, const char *sha1)
{
    char text[700];
    const char *where = "user_script:1: ";
    bool told = lua_istable(lua, -1);
    if (told) {
        lua_getfield(lua, -1, "where");
        if (lua_isstring(lua, -1)) {
            where = lua_tostring(lua, -1);
        }
        lua_getfield(lua, -2, "err");
    }
    const char *what = lua_isstring(lua, -1) ? lua_tostring(lua, -1) : "?";
    snprintf(text, sizeof text, "%s", what);
    if (m->version == 6) {
        answer_error(out, "ERR Error running script (call to f_%s): @%s@%s%s%s", sha1, where, where,
                     told ? "-" : "", text);
    } else {
        answer_error(out, "%s%s script: %s, on @%s", told ? "" : "ERR ", text, sha1, where);
    }
}

/* ---- EVAL ------------------------------------------------------------------------------- */

/* The number of a script; -1: it does not compile, and that was answered. */
static int compile(struct call *c, struct arg text)
{
    for (int i = 0; i < script_count; i++) {
        if (scripts[i].size == text.size && memcmp(scripts[i].text, text.at, text.size) == 0) {
            return i;
        }
    }
    assert(script_count < SCRIPTS);
    if (luaL_loadbuffer(lua, text.at, text.size, "@user_script") != 0) {
        answer_error(c->out, "ERR Error compiling script (new function): %s",
                     lua_tostring(lua, -1));
        lua_pop(lua, 1);
        return -1;
    }
    host_sha1(text.at, text.size, scripts[script_count].sha1);
    scripts[script_count].text = malloc(text.size + 1);
    assert(scripts[script_count].text);
    memcpy(scripts[script_count].text, text.at, text.size);
    scripts[script_count].size = text.size;
    scripts[script_count].function = luaL_ref(lua, LUA_REGISTRYINDEX);
    return script_count++;
}

static int known(const struct call *c, struct arg sha1)
{
    for (int i = 0; i < script_count; i++) {
        if (c->model->known_scripts >> i & 1 && arg_is(sha1, scripts[i].sha1)) {
            return i;
        }
    }
    return -1;
}

static void set_global(const char *name, const struct arg *argv, int count)
{
    lua_createtable(lua, count, 0);
    for (int i = 0; i < count; i++) {
        lua_pushlstring(lua, argv[i].at, argv[i].size);
        lua_rawseti(lua, -2, i + 1);
    }
    lua_pushstring(lua, name);
    lua_insert(lua, -2);
    lua_rawset(lua, LUA_GLOBALSINDEX);
}

void host_eval(struct call *c, bool by_sha1)
{
    struct model *m = c->model;
    if (!lua) {
        open_host();
    }
    char count[16] = "";
    memcpy(count, c->argv[2].at, c->argv[2].size < 15 ? c->argv[2].size : 15);
    int keys = (int)strtol(count, NULL, 10);
    if (keys < 0 || keys > c->argc - 3) {
        answer_error(c->out, "ERR Number of keys can't be greater than number of args");
        return;
    }
    int number = by_sha1 ? known(c, c->argv[1]) : compile(c, c->argv[1]);
    if (number < 0) {
        if (by_sha1) {
            answer_error(c->out, "NOSCRIPT No matching script. Please use EVAL.");
        }
        return;
    }
    m->known_scripts |= UINT64_C(1) << number;
    set_global("KEYS", c->argv + 3, keys);
    set_global("ARGV", c->argv + 3 + keys, c->argc - 3 - keys);
    current = c;
    m->calls = 0;
    m->script_full = m->full;
    m->wrote = false;
    lua_rawgeti(lua, LUA_REGISTRYINDEX, scripts[number].function);
    if (lua_pcall(lua, 0, 1, 0) == 0) {
        answer_value(c->out);
    } else {
        answer_death(m, c->out, scripts[number].sha1);
    }
    lua_settop(lua, 0);
    m->calls_most = m->calls > m->calls_most ? m->calls : m->calls_most;
}

void host_forget(void)
{
    while (script_count > 0) {
        script_count--;
        luaL_unref(lua, LUA_REGISTRYINDEX, scripts[script_count].function);
        free(scripts[script_count].text);
    }
}

void host_script(struct call *c)
{
    if (!lua) {
        open_host();
    }
    if (arg_is(c->argv[1], "LOAD") && c->argc == 3) {
        int number = compile(c, c->argv[2]);
        if (number >= 0) {
            c->model->known_scripts |= UINT64_C(1) << number;
            answer_text(c->out, (struct arg){scripts[number].sha1, 40});
        }
    } else if (arg_is(c->argv[1], "EXISTS") && c->argc > 2) {
        answer_array(c->out, (size_t)c->argc - 2);
        for (int i = 2; i < c->argc; i++) {
            answer_number(c->out, known(c, c->argv[i]) >= 0);
        }
    } else if (arg_is(c->argv[1], "FLUSH")) {
        c->model->known_scripts = 0;
        answer_ok(c->out);
    } else {
        answer_error(c->out, "ERR unknown subcommand");
    }
}

-- SPDX-License-Identifier: Apache-2.0
-- The state of one lock, as attempt, release and evict begin with it; the build puts it there.
--
-- KEYS[1] the lock's hash; ARGV[1] the owner id; ARGV[2] how long the last token is kept, in ms.
-- docs/redis-protocol.md has the fields. Numbers are printed by %d, never by `..` or tostring,
-- which keep 14 digits only. TIME is read once.
--
-- A hand-over waits for these scripts, so they are written to be quick: few calls, and pieces put
-- in by the build instead of functions, because making a function costs more than these do.

local key, id = KEYS[1], ARGV[1]
local call, match, format = redis.call, string.match, string.format

local clock = call('TIME')
local us = clock[1] * 1000000 + clock[2]
local now = math.floor(us / 1000)

local f = call('HMGET', key, 's', 'o', 'freed', 'dead', 'h:' .. id, 't:' .. id)
local o, freed, dead, mine = f[2] or '', f[3] or '', f[4] or '', f[5]
local ticket = f[6] and match(f[6], '^%d+')
local permits, last, at, n, x, due, till, head, tail, w = 0, 0, 0, 0, false, 0, 0, 1, 0, 0
if f[1] then
    local g, h
    permits, last, at, n, x, g, h, head, tail, w = match(f[1],
        '^(%d+) (%d+) (%d+) (%d+) (%d) (-?%d+) (-?%d+) (%d+) (%d+) (%d+)$')
    permits, last, at, n, x = permits + 0, last + 0, at + 0, n + 0, x == '1'
    due, till, head, tail, w = at + g, at + h, head + 0, tail + 0, w + 0
end

local changed, granted, spanned, messages = false, nil, 1, nil
local more -- set: the line needs more work than one script may do
local holder, entry, about, note -- what hold.lua leaves to store.lua to write
local last_before, till_before = last, till

-- SPDX-License-Identifier: Apache-2.0
-- All of the state of one lock, from `v`, the field `s`: for whoever finds more than a lock that is
-- free, or its own and nobody waiting. docs/redis-protocol.md has the fields.
--
-- Needs key, v, us and now. Numbers are printed by %d, never by `..` or tostring, which keep 14
-- digits only. A hand-over waits for these scripts, so they are written to be quick: few calls, and
-- pieces put in by the build instead of functions, because making a function costs more than these
-- do.

--@include version.lua
local none = '\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0' -- nobody's id
local flags, owner, last, kept, freed, tokens, expiry, lease = 0, none, 0, 0, none, 0, 0, 0
local permits, n, at, due, head, tail, w, o = 0, 0, 0, 0, 1, 0, 0, none
if v then
    flags, owner, last, kept, freed, tokens, expiry, lease =
        struct.unpack('<xBc17I8I4c15I4I8I4', v)
    if flags >= 8 then
        permits, n, at, due, head, tail, w, o = struct.unpack('<I4I4I8I8I8I8I4c17', v, 63)
    end
end
local x, marked, dead = flags % 2 == 1, flags % 8 >= 4, ''
if x then -- the only holder: no lease ends before its own, nor was it extended before
    n, at, due = 1, math.max(at, expiry - lease), expiry
end

-- Released before their attempts arrived, until their time is over.
if flags % 4 >= 2 then
    local all = call('HGET', key, 'dead') or ''
    for i = 1, #all, 25 do
        local other, till = struct.unpack('<c17I8', all, i)
        if till > now then
            dead = dead .. string.sub(all, i, i + 24)
        end
    end
end
local doomed = dead -- as it was, to see whether it changed
local had_dead = flags % 4 >= 2

local changed, wrote, more = false, false, 0 -- more: the line needs more than one script may do
local granted, spanned, messages
local field, entry -- what hold.lua leaves to store.lua to write
local keep, slack = 0, 0 -- what the key must outlive, in ms, and how much more may be kept

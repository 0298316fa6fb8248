-- SPDX-License-Identifier: Apache-2.0
-- All of the state of one lock, for whoever finds more than one that is free, or its own and nobody
-- waiting. version.lua comes before it, and us and now are needed. Numbers are printed by %d, never by `..` or tostring, which keep 14
-- digits only. A hand-over waits for these scripts, so they are written to be quick: few calls, and
-- pieces put in by the build instead of functions, because making a function costs more than these
-- do.

local pack, unpack, sub, format = struct.pack, struct.unpack, string.sub, string.format
local permits, n, at, due, head, tail, w, o = 0, 0, 0, 0, 1, 0, 0, none
if flags >= 8 then
    permits, n, at, due, head, tail, w, o = unpack('<I4I4I8I8I8I8I4c17', v, 63)
end
local x, marked, dead = flags % 2 == 1, flags % 8 >= 4, ''
if x then -- the only holder: no lease ends before its own, nor was it extended before
    n, due = 1, expiry
    if expiry - lease > at then
        at = expiry - lease
    end
end

-- Released before their attempts arrived, until their time is over.
if flags % 4 >= 2 then
    local all = call('HGET', key, 'dead') or ''
    for i = 1, #all, 25 do
        local other, till = unpack('<c17I8', all, i)
        if till > now then
            dead = dead .. sub(all, i, i + 24)
        end
    end
end
local doomed = dead -- as it was, to see whether it changed
local had_dead = flags % 4 >= 2

local changed, wrote, more = false, false, 0 -- more: the line needs more than one script may do
local granted, spanned, messages, to, message
local field, entry, field2, entry2 -- what is left to store.lua to write
local released -- the last one who did, if it has to make room for a holder
local keep, slack = 0, 0 -- what the key must outlive, in ms, and how much more may be kept

-- SPDX-License-Identifier: Apache-2.0
-- Acquire, or look who has it. Idempotent by owner id.
--
-- KEYS[1] the lock, a string   KEYS[2] its fence
-- ARGV[1] TTL   ARGV[2] TTL and RETENTION   ARGV[3] NOT-AFTER, 0: none; as text, which SET takes as it is
-- ARGV[4] the owner id   ARGV[5] who and label
-- ARGV[6] is there at one server of several: the least token, unless it is a second ahead of our clock.
-- ARGV[7] too: it is the token of a lease that goes on at the others
--
-- H token left span now | B more place token left now info | L now | D now

local call, key, fence, id = redis.call, KEYS[1], KEYS[2], ARGV[4]
--@include ../clock.lua
if ARGV[3] ~= '0' and now > ARGV[3] + 0 then
    return struct.pack('<BI8', 76, now)
end

local both = call('MGET', key, fence)
local v, f = both[1], both[2]
if not v then
    --@include ../fence.lua
    if freed == id or (dead ~= '' and string.find(dead, id, 1, true)) then
        return struct.pack('<BI8', 68, now) -- a release for this id has overtaken us
    end
    local token = last < us and us or last + 1
    local least = (ARGV[6] or 0) + 0
    if ARGV[7] or (token < least and least < us + 1000000) then
        token = least
    end
    if not call('SET', key, string.format('snib:%s:%d %s', id, token, ARGV[5]), 'NX', 'PX',
            ARGV[1]) then
        return redis.error_reply('WRONGTYPE the key is no string') -- MGET does not tell
    end
    last = last < token and token or last
    call('SET', fence, struct.pack('<BI8c34c34B', 1, last, freed, none, 0) .. dead, 'PX', ARGV[2])
    return struct.pack('<BI8I4I4I8', 72, token, ARGV[1], 1, now)
end

local owner, token, info = string.match(v, '^snib:(%x+):(%d+) (.*)$')
local left = call('PTTL', key)
left = left > 0 and left or 0
if owner == id then
    -- Ours already: say for how long, and add nothing. Not without a write: a server that has become a
    -- replica refuses that, and what it has may be old.
    call('PEXPIRE', fence, ARGV[2])
    return struct.pack('<BI8I4I4I8', 72, token + 0, left, 1, now)
end
--@include ../busy.lua
return struct.pack('<BBI4I8I4I8', 66, 0, 0, (token or 0) + 0, left, now) ..
    (info or 'another-program ')

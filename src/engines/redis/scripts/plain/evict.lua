-- SPDX-License-Identifier: Apache-2.0
-- Break what is held with this token.
--
-- Asked: whoever holds it is marked in the fence. A renewal then answers X and extends nothing, so
-- that it ends by itself at the latest. Asking again tells how it stands. Forced: taken away. Either way
-- all who listen are told, once. Another program's holder has no token: a number made from what is
-- in the key stands for it, and it cannot be asked.
--
-- KEYS[1] the lock   KEYS[2] its fence
-- ARGV[1] TOKEN RETENTION FORCED, 1 or 0   ARGV[2] who breaks it   ARGV[3] the channel for that
-- ARGV[4] the channel of those who wait
-- A now left | B more place token left now info | G or N more now

local call, key, fence = redis.call, KEYS[1], KEYS[2]
--@include ../clock.lua
local both = call('MGET', key, fence)
local v, f = both[1], both[2]
--@include ../fence.lua
local wanted, retention, forced = struct.unpack('<I8I4B', ARGV[1])
local id, token = string.match(v or '', '^snib:(%x+):(%d+) ')
local held = (token or 0) + 0
if v and not id then
    for i = 1, math.min(#v, 64) do
        held = (held * 131 + string.byte(v, i)) % 35184372088832
    end
    held = held + 1
end
if not v or held ~= wanted then
    return struct.pack('<BBI8', 78, 0, now)
end

local ttl = call('PTTL', key)
ttl = ttl > 0 and ttl or 0
if forced == 1 then
    call('DEL', key)
    broken, breaker = none, ''
    --@include keep.lua
    redis.pcall('PUBLISH', ARGV[4], '0')
elseif not id then
    return struct.pack('<BBI4I8I4I8', 66, 0, 0, held, ttl, now) .. 'another-program '
elseif broken == id then
    return struct.pack('<BI8I4', 65, now, ttl)
else
    broken, breaker = id, string.sub(ARGV[2], 1, 180)
    call('PEXPIRE', fence, retention + ttl) -- passes when the memory is full; after it, so does SET
    --@include keep.lua
end
redis.pcall('PUBLISH', ARGV[3], ARGV[2] .. ' ' .. key)
if forced == 1 then
    return struct.pack('<BBI8', 71, 0, now)
end
return struct.pack('<BI8I4', 65, now, ttl)

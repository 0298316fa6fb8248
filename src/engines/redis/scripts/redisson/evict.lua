-- SPDX-License-Identifier: Apache-2.0
-- Break what is held with this token.
--
-- Asked: whoever holds it is marked in the fence. A renewal then answers X and extends nothing, so
-- that it ends by itself at the latest. Forced: taken away, as forceUnlock does it. Either way all who
-- listen are told, once. A holder of Redisson has no token that could be seen: a number made from its
-- field stands for it, and it cannot be asked.
--
-- KEYS[1] the lock   KEYS[2] its fence
-- ARGV[1] TOKEN FORCED, 1 or 0   ARGV[2] who breaks it   ARGV[3] the channel for that
-- ARGV[4] the channel of those who wait
-- A now left | B more place token left now info | G or N more now

local call, key, fence = redis.call, KEYS[1], KEYS[2]
--@include ../clock.lua
local all = call('HGETALL', key)
local f = call('GET', fence)
--@include ../fence.lua
local wanted, forced = struct.unpack('<I8B', ARGV[1])
local field, note
for i = 1, #all, 2 do
    if all[i] == 'mode' then
        return redis.error_reply('LAYOUT ' .. key .. ' is a read-write lock of Redisson: its readers have ' ..
            'leases in other keys; it is not broken from here')
    elseif all[i] == 'snib' then
        note = all[i + 1]
    else
        field = all[i]
    end
end
local held = (string.match(note or '', '^(%d+) ') or 0) + 0
if field and held == 0 then
    for i = 1, math.min(#field, 64) do
        held = (held * 131 + string.byte(field, i)) % 35184372088832
    end
    held = held + 1
end
if not field or held ~= wanted then
    return struct.pack('<BBI8', 78, 0, now)
end

local ttl = call('PTTL', key)
ttl = ttl > 0 and ttl or 0
-- Our fields are 16 bytes as a UUID, and one as a number; ids have all of them as digits.
local id = note and string.gsub(string.sub(field, 1, 36), '-', '') ..
    string.format('%02x', string.sub(field, 38) + 0)
if forced == 1 then
    call('DEL', key)
    broken, breaker = none, ''
    --@include ../minute.lua
    redis.pcall('PUBLISH', ARGV[4], '0')
elseif not id then
    return struct.pack('<BBI4I8I4I8', 66, 0, 0, held, ttl, now) .. 'redisson '
elseif broken == id then
    return struct.pack('<BI8I4', 65, now, ttl)
else
    broken, breaker = id, string.sub(ARGV[2], 1, 180)
    call('PEXPIRE', key, ttl > 0 and ttl or 1) -- passes when the memory is full; after it, so does SET
    --@include ../minute.lua
end
redis.pcall('PUBLISH', ARGV[3], ARGV[2] .. ' ' .. key)
if forced == 1 then
    return struct.pack('<BBI8', 71, 0, now)
end
return struct.pack('<BI8I4', 65, now, ttl)

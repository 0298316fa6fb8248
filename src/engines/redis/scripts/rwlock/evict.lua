-- SPDX-License-Identifier: Apache-2.0
-- Break what is held with this token: by a writer, or by all readers of a snib that have it.
--
-- Asked: whoever holds it is marked in its lease. A renewal then answers X and extends nothing, so that
-- it ends by itself at the latest. Forced: taken away. Either way all who listen are told, once. A holder of
-- Redisson has no token that could be seen: a number made from its field stands for it, and it cannot be
-- asked.
--
-- KEYS[1] the lock
-- ARGV[1] TOKEN FORCED, 1 or 0   ARGV[2] who breaks it   ARGV[3] the channel for that
-- ARGV[4] the channel of those who wait   ARGV[5] what is in front of leases
-- A now left | B more place token left now info | G or N more now

local call, key, before = redis.call, KEYS[1], ARGV[5]
--@include ../clock.lua
--@include alive.lua
local all = call('HGETALL', key)
local wanted, forced = struct.unpack('<I8B', ARGV[1])
local found, news, left, strange = false, false, 0, false
for i = 1, #all, 2 do
    local field, count = all[i], tonumber(all[i + 1]) or 0
    local lease = before .. field .. ':rwlock_timeout:'
    local note = count > 0 and call('GET', lease .. '1') or ''
    local held = string.match(string.gsub(note, '^!%S+ ', ''), '^(%d+) ')
    local odd = not held and count > 0
    if odd then
        held = 0
        for n = 1, math.min(#field, 64) do
            held = (held * 131 + string.byte(field, n)) % 35184372088832
        end
        held = held + 1
    end
    if held and held + 0 == wanted then
        found, strange = true, strange or odd
        left = math.max(left, call('PTTL', odd and key or lease .. '1'))
        if forced == 1 then
            news = call('HDEL', key, field) == 1
            for n = 1, count do
                call('DEL', lease .. n)
            end
        elseif not odd and string.sub(note, 1, 1) ~= '!' then
            news = true
            call('PEXPIRE', key, math.max(call('PTTL', key), 1)) -- passes when the memory is full; so does SET
            call('SET', lease .. '1', '!' .. string.sub(ARGV[2], 1, 180) .. ' ' .. note, 'KEEPTTL')
        end
    end
end
if not found then
    return struct.pack('<BBI8', 78, 0, now)
elseif forced ~= 1 and strange then
    return struct.pack('<BBI4I8I4I8', 66, 0, 0, wanted, left, now) .. 'redisson '
end
if forced == 1 and not alive() then
    call('DEL', key)
    redis.pcall('PUBLISH', ARGV[4], '1')
end
if news then
    redis.pcall('PUBLISH', ARGV[3], ARGV[2] .. ' ' .. key)
end
if forced == 1 then
    return struct.pack('<BBI8', 71, 0, now)
end
return struct.pack('<BI8I4', 65, now, left)

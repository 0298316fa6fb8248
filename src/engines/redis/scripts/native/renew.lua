-- SPDX-License-Identifier: Apache-2.0
-- Extend what is still ours. An entry that is there was never taken by anybody else, so it is
-- extended even if its time was over by the server's clock: a clock that was set forward is no
-- loss. Passes when the memory is full.
--
-- KEYS[1] the lock's hash; ARGV[1] ID TTL RETENTION
-- H token left-before span now | N now | X now who: somebody wants it given up

local call, key = redis.call, KEYS[1]
--@include ../clock.lua
local v = call('HGET', key, 's')
--@include version.lua
local id, ttl, retention = struct.unpack('<c17I4I4', ARGV[1])
if not v then
    return struct.pack('<BI8', 78, now)
end

local ends, keep = now + ttl, last / 1000 + retention
if ends > keep then
    keep = ends
end
local moves = keep > kept * 1000
if moves then
    kept = math.ceil((keep + retention / 2) / 1000)
end

if flags % 2 == 1 then -- the only holder is in the state itself
    if owner ~= id then
        return struct.pack('<BI8', 78, now)
    elseif flags % 8 >= 4 then
        return struct.pack('<BI8', 88, now) .. (call('HGET', key, 'b') or '')
    end
    local state = struct.pack('<BBc17I8I4c15I4I8I4', 2, flags, id, last, kept, freed, tokens, ends,
        ttl)
    if flags >= 8 then
        state = state .. string.sub(v, 63)
    end
    if moves or redis.pcall('HSET', key, 's', state) ~= 0 then
        call('PEXPIREAT', key, string.format('%d', kept * 1000))
        call('HSET', key, 's', state)
    end
    local left = expiry < now + lease and expiry - now or lease
    return struct.pack('<BI8I4I4I8', 72, last - tokens + 1, left > 0 and left or 0, tokens,
        now)
end

local f = call('HMGET', key, 'h:' .. id, 'b:' .. id)
if flags < 8 or not f[1] then
    return struct.pack('<BI8', 78, now)
elseif f[2] then
    return struct.pack('<BI8', 88, now) .. f[2]
end
-- `at` may not go back here: whoever sweeps must see that the clock did.
local at, due = struct.unpack('<I8I8', v, 71)
v = string.sub(v, 1, 27) .. struct.pack('<I4', kept) .. string.sub(v, 32, 70) ..
    struct.pack('<I8I8', math.max(now, at), math.min(due, ends)) .. string.sub(v, 87)
local token, before, time, since = struct.unpack('<I8I8I4I8', f[1])
call('PEXPIREAT', key, string.format('%d', kept * 1000))
call('HSET', key, 's', v, 'h:' .. id,
    struct.pack('<I8I8I4I8', token, ends, ttl, since) .. string.sub(f[1], 29))
local left = math.max(0, math.min(before, now + time) - now)
return struct.pack('<BI8I4I4I8', 72, token, left, 1, now)

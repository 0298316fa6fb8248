-- SPDX-License-Identifier: Apache-2.0
-- Acquire as RLock and RFencedLock do, or look who has it. Idempotent by owner id, unlike theirs.
--
-- KEYS[1] the lock, a hash   KEYS[2] its fence   KEYS[3] the counter of RFencedLock   KEYS[4] the queue of
-- RFairLock
-- ARGV[1] TTL NOT-AFTER   ARGV[2] the owner id   ARGV[3] our field   ARGV[4] who and label
--
-- H token left span now | B more place token left now info | L now | D now

local call, key, fence, id, field = redis.call, KEYS[1], KEYS[2], ARGV[2], ARGV[3]
--@include ../clock.lua
local ttl, limit = struct.unpack('<I4I8', ARGV[1])
if limit > 0 and now > limit then
    return struct.pack('<BI8', 76, now)
end

local h = call('HMGET', key, field, 'snib', 'mode')
if h[3] then
    return redis.error_reply('LAYOUT ' .. key .. ' is a read-write lock of Redisson: its readers have leases ' ..
        'in other keys; use a lock of its own')
end
if not h[1] and call('EXISTS', key) == 0 then
    local f = call('GET', fence)
    --@include ../fence.lua
    if freed == id or (dead ~= '' and string.find(dead, id, 1, true)) then
        return struct.pack('<BI8', 68, now) -- a release for this id has overtaken us
    elseif call('EXISTS', KEYS[4]) == 1 then
        return redis.error_reply('LAYOUT ' .. key .. ' is a fair lock of Redisson that others wait for: ' ..
            'we would overtake them, and not wake them')
    end
    local token = call('INCR', KEYS[3])
    call('HSET', key, field, '1', 'snib', string.format('%d ', token) .. ARGV[4])
    call('PEXPIRE', key, ttl)
    if broken ~= none then
        broken, breaker = none, ''
        --@include ../minute.lua
    end
    return struct.pack('<BI8I4I4I8', 72, token, ttl, 1, now)
end

local token, info = string.match(h[2] or '', '^(%d+) (.*)$')
local left = call('PTTL', key)
left = left > 0 and left or 0
if h[1] then
    -- Ours already: say for how long, and add nothing. Not without a write: a server that has become a
    -- replica refuses that, and what it has may be old.
    call('PEXPIRE', key, left > 0 and left or 1)
    return struct.pack('<BI8I4I4I8', 72, (token or 1) + 0, left, 1, now)
end
--@include ../busy.lua
return struct.pack('<BBI4I8I4I8', 66, 0, 0, (token or 0) + 0, left, now) .. (info or 'redisson ')

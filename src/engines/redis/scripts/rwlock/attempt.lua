-- SPDX-License-Identifier: Apache-2.0
-- Acquire as the two halves of RReadWriteLock do, or look who has it. Idempotent by owner id, unlike
-- theirs.
--
-- KEYS[1] the lock, a hash   KEYS[2] its fence   KEYS[3] the counter of tokens   KEYS[4] our lease
-- ARGV[1] TTL NOT-AFTER SHARED, 1 or 0   ARGV[2] the owner id   ARGV[3] our field   ARGV[4] who and label
--
-- H token left span now | B more place token left now info | L now | D now

local call, key, fence, id, field, lease = redis.call, KEYS[1], KEYS[2], ARGV[2], ARGV[3], KEYS[4]
--@include ../clock.lua
local ttl, limit, shared = struct.unpack('<I4I8B', ARGV[1])
if limit > 0 and now > limit then
    return struct.pack('<BI8', 76, now)
end

local h = call('HMGET', key, 'mode', field)
local mode, rest = h[1], call('PTTL', key)
if not mode and rest ~= -2 then
    return redis.error_reply('LAYOUT ' .. key .. ' is an RLock, of Redisson or of layout=redisson: its ' ..
        'read-write locks do not respect it; use another name')
end
rest = rest == -1 and ttl or rest -- somebody's hand; ours always end
local note = h[2] and call('GET', lease)
if note then
    -- Ours already: say for how long, and add nothing. Not without a write: a server that has become a
    -- replica refuses that, and what it has may be old.
    local left = math.max(math.min(call('PTTL', lease), rest, ttl), 0)
    call('PEXPIRE', key, math.max(rest, 1))
    note = string.gsub(note, '^!%S+ ', '')
    return struct.pack('<BI8I4I4I8', 72, string.match(note, '^(%d+) ') + 0, left, 1, now)
end

if not mode or (shared == 1 and mode == 'read') then
    local f = call('GET', fence)
    --@include ../fence.lua
    if freed == id or (dead ~= '' and string.find(dead, id, 1, true)) then
        return struct.pack('<BI8', 68, now) -- a release for this id has overtaken us
    end
    local token = shared == 1 and call('GET', KEYS[3]) or call('INCR', KEYS[3])
    call('HSET', key, 'mode', shared == 1 and 'read' or 'write', field, '1')
    call('SET', lease, string.format('%d ', token) .. ARGV[4], 'PX', ttl)
    if rest < ttl then
        call('PEXPIRE', key, ttl)
    end
    return struct.pack('<BI8I4I4I8', 72, token + 0, ttl, 1, now)
end

local token, info = 0, 'redisson '
if mode == 'write' then
    local before = string.sub(lease, 1, -1 - #field - #':rwlock_timeout:1')
    for _, other in ipairs(call('HKEYS', key)) do
        local theirs = call('GET', before .. other .. ':rwlock_timeout:1') or ''
        local number, text = string.match(string.gsub(theirs, '^!%S+ ', ''), '^(%d+) (.*)$')
        if number then
            token, info = number + 0, text
        end
    end
elseif mode == 'read' then
    token, info = (call('GET', KEYS[3]) or 0) + 0, 'readers '
end
--@include ../busy.lua
return struct.pack('<BBI4I8I4I8', 66, 0, 0, token, math.max(rest, 0), now) .. info

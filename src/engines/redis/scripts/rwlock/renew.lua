-- SPDX-License-Identifier: Apache-2.0
-- Extend what is still ours: our lease, and the lock's if that is shorter. Passes when the memory is full.
--
-- KEYS[1] the lock   KEYS[2] our lease as a reader   KEYS[3] as a writer
-- ARGV[1] TTL   ARGV[2] our field as a reader   ARGV[3] as a writer
-- H token left-before span now | N now | X now who: somebody wants it given up

local call, key = redis.call, KEYS[1]
--@include ../clock.lua
local h = call('HMGET', key, ARGV[2], ARGV[3])
local lease = h[1] and KEYS[2] or KEYS[3]
local note = (h[1] or h[2]) and call('GET', lease)
if not note then
    return struct.pack('<BI8', 78, now)
end
local breaker = string.match(note, '^!(%S+) ')
if breaker then
    return struct.pack('<BI8', 88, now) .. breaker
end
local ttl = struct.unpack('<I4', ARGV[1])
local left = call('PTTL', lease)
call('PEXPIRE', lease, ttl)
if call('PTTL', key) < ttl then
    call('PEXPIRE', key, ttl)
end
return struct.pack('<BI8I4I4I8', 72, string.match(note, '^(%d+) ') + 0, math.max(left, 0), 1, now)

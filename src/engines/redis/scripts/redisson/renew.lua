-- SPDX-License-Identifier: Apache-2.0
-- Extend what is still ours. Passes when the memory is full.
--
-- KEYS[1] the lock   KEYS[2] its fence   ARGV[1] TTL   ARGV[2] the owner id   ARGV[3] our field
-- H token left-before span now | N now | X now who: somebody wants it given up

local call, key, fence, id = redis.call, KEYS[1], KEYS[2], ARGV[2]
--@include ../clock.lua
local h = call('HMGET', key, ARGV[3], 'snib')
if not h[1] then
    return struct.pack('<BI8', 78, now)
end
local f = call('GET', fence)
--@include ../fence.lua
if broken == id then
    return struct.pack('<BI8', 88, now) .. breaker
end
local ttl = struct.unpack('<I4', ARGV[1])
local left = call('PTTL', key)
local token = string.match(h[2] or '', '^(%d+) ')
call('PEXPIRE', key, ttl)
return struct.pack('<BI8I4I4I8', 72, (token or 1) + 0, left > 0 and left or 0, 1, now)

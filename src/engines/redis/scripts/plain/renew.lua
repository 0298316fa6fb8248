-- SPDX-License-Identifier: Apache-2.0
-- Extend what is still ours. Passes when the memory is full.
--
-- KEYS[1] the lock   KEYS[2] its fence   ARGV[1] TTL RETENTION   ARGV[2] the owner id
-- H token left-before span now | N now | X now who: somebody wants it given up

local call, key, fence, id = redis.call, KEYS[1], KEYS[2], ARGV[2]
--@include ../clock.lua
local both = call('MGET', key, fence)
local v, f = both[1], both[2]
local owner, token = string.match(v or '', '^snib:(%x+):(%d+) ')
if owner ~= id then
    return struct.pack('<BI8', 78, now)
end
--@include ../fence.lua
if broken == id then
    return struct.pack('<BI8', 88, now) .. breaker
end
local ttl, retention = struct.unpack('<I4I4', ARGV[1])
local left = call('PTTL', key)
call('PEXPIRE', key, ttl)
call('PEXPIRE', fence, retention + ttl)
return struct.pack('<BI8I4I4I8', 72, token + 0, left > 0 and left or 0, 1, now)

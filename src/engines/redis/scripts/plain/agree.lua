-- SPDX-License-Identifier: Apache-2.0
-- One server of several: what is ours gets the token that all of them are to have. That counts unless a
-- larger one was given here. Idempotent.
--
-- KEYS[1] the lock   KEYS[2] its fence   ARGV[1] TOKEN RETENTION   ARGV[2] the owner id
-- H token left span now, the token being the largest that was given here | N now

local call, key, fence, id = redis.call, KEYS[1], KEYS[2], ARGV[2]
--@include ../clock.lua
local both = call('MGET', key, fence)
local v, f = both[1], both[2]
local owner, token, info = string.match(v or '', '^snib:(%x+):(%d+) (.*)$')
if owner ~= id then
    return struct.pack('<BI8', 78, now)
end
--@include ../fence.lua
local wanted, retention = struct.unpack('<I8I4', ARGV[1])
local ttl = call('PTTL', key)
ttl = ttl > 0 and ttl or 1
if token + 0 ~= wanted then
    call('SET', key, string.format('snib:%s:%d %s', id, wanted, info), 'PX', ttl)
end
if last < wanted then
    last = wanted
    --@include keep.lua
end
return struct.pack('<BI8I4I4I8', 72, last, ttl, 1, now)

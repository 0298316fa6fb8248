-- SPDX-License-Identifier: Apache-2.0
-- Enough replicas of this master have acknowledged its epoch: the quarantine begins to count now.
--
-- KEYS[1] the epoch; ARGV[1] the replication id that they acknowledged
-- 1: it counts | 0: it is another epoch by now, or counts already

local call = redis.call
--@include ../clock.lua
local rid = string.match(call('INFO', 'replication'), 'master_replid:(%x+)')
local e = call('HMGET', KEYS[1], 'rid', 'ok')
if rid ~= ARGV[1] or e[1] ~= rid or e[2] ~= '0' then
    return 0
end
call('HSET', KEYS[1], 'at', string.format('%d', now), 'ok', '1')
return 1

-- SPDX-License-Identifier: Apache-2.0
-- A write behind all that was granted so far, for WAIT to count; and whether this master may grant.
--
-- KEYS[1] the epoch: a hash of rid, at, ok, n, max; KEYS[2] what is written
-- ARGV[1] the quarantine in ms, 0 for none; ARGV[2] how many servers there are; ARGV[3] max-lease
--
-- OPEN 0 rid | QUAR left rid: renewals only | PENDING 0 rid: its replicas have not acknowledged the
-- epoch yet | OTHER n max: somebody has other settings | MANY replicas rid: more than there should
-- be, and renewals only; without rid: nothing at all
--
-- The replication id changes with each promotion and each start, so an epoch of another one, or none
-- at all, means that this copy may lack what was granted elsewhere. It also changes when a master has
-- had no replicas for long (repl-backlog-ttl), and then nothing in it tells of a promotion before.

local call = redis.call
--@include ../clock.lua
local word, left, id = 'OPEN', 0, ''
if ARGV[1] ~= '0' then
    local info = call('INFO', 'replication')
    local rid = string.match(info, 'master_replid:(%x+)')
    local replicas, known = 0, {} -- one that came back is told twice for a while
    local line = 'slave%d+:(ip=[^,]*,port=(%d+)),state=[^,]*,offset=(%d+)'
    for where, port, offset in string.gmatch(info, line) do
        local reads = port == '0' and offset == '0' -- along, and acknowledges nothing
        if not known[where] and not reads then
            known[where], replicas = true, replicas + 1
        end
    end
    local e = call('HMGET', KEYS[1], 'rid', 'ok', 'at', 'n', 'max')
    if e[1] and (e[4] ~= ARGV[2] or e[5] ~= ARGV[3]) then
        return {'OTHER', e[4], e[5]}
    end
    local many = replicas >= tonumber(ARGV[2])
    if many and (e[1] ~= rid or e[2] ~= '1') then
        return {'MANY', replicas, ''}
    end
    if e[1] ~= rid then
        e[2] = '0'
        call('HSET', KEYS[1], 'rid', rid, 'at', string.format('%d', now), 'ok', '0', 'n', ARGV[2],
            'max', ARGV[3])
    end
    id = rid
    if e[2] ~= '1' then
        word = 'PENDING'
    else
        left = math.min(e[3] + ARGV[1] - now, tonumber(ARGV[1])) -- the clock may have been set back
        word = left > 0 and 'QUAR' or 'OPEN'
        if many then
            word, left = 'MANY', replicas
        end
    end
end

-- Passes when the memory is full, if it is there already.
if call('PEXPIREAT', KEYS[2], string.format('%d', now + 3600000)) == 0 then
    call('HSET', KEYS[2], 't', '1')
    call('PEXPIREAT', KEYS[2], string.format('%d', now + 3600000))
end
return {word, math.max(0, left), id}

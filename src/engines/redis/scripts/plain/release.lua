-- SPDX-License-Identifier: Apache-2.0
-- Give back, and tell those who wait. Passes when the memory is full.
--
-- KEYS[1] the lock   KEYS[2] its fence
-- ARGV[1] the owner id   ARGV[2] the channel of those who wait   ARGV[3] RETENTION
-- ARGV[4] is there if an attempt of this owner may still arrive: until when, in server ms, -1 for
-- nobody knows. Until then the id is remembered as dead and refused.
-- G: it was ours | F: done before | N: not here; each alone

local call, key, fence, id = redis.call, KEYS[1], KEYS[2], ARGV[1]
local both = call('MGET', key, fence)
local v, f = both[1], both[2]
local ours = v and string.sub(v, 1, 40) == 'snib:' .. id .. ':'
if ours and not ARGV[4] and f and #f == 78 and string.byte(f) == 1 then
    -- As mostly: nobody was asked to give it up, and nobody is dead. The fence, which outlives the lease
    -- by the retention, has who freed it from its tenth byte on.
    call('DEL', key)
    call('SETRANGE', fence, 9, id)
    redis.pcall('PUBLISH', ARGV[2], '0') -- a word that is not allowed undoes nothing
    return 'G'
end
--@include ../fence.lua
local retention, ttl, answer = ARGV[3] + 0, 0, 'N'
if ours then
    answer = 'G'
    call('DEL', key)
elseif freed == id then
    answer = 'F'
end
if ours or ARGV[4] then
    if ARGV[4] or dead ~= '' then
        --@include ../clock.lua
        --@include ../dead.lua
    end
    if ours then
        freed, broken, breaker = id, none, ''
    end
    --@include keep.lua
end
if ours then
    redis.pcall('PUBLISH', ARGV[2], '0')
end
return answer

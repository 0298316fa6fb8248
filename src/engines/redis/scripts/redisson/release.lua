-- SPDX-License-Identifier: Apache-2.0
-- Give back, and tell those who wait, as Redisson does. Passes when the memory is full.
--
-- KEYS[1] the lock   KEYS[2] its fence
-- ARGV[1] the owner id   ARGV[2] the channel of those who wait   ARGV[3] our field
-- ARGV[4] is there if an attempt of this owner may still arrive: until when, in server ms, -1 for
-- nobody knows. Until then the id is remembered as dead and refused.
-- G: it was ours | F: done before | N: not here; each alone

local call, key, fence, id = redis.call, KEYS[1], KEYS[2], ARGV[1]
local held = call('HEXISTS', key, ARGV[3]) == 1
local f = call('GET', fence)
--@include ../fence.lua
local ttl, answer = 0, 'N'
if held then
    answer = 'G'
    call('DEL', key)
elseif freed == id then
    answer = 'F'
end
if held or ARGV[4] then
    if ARGV[4] or dead ~= '' then
        --@include ../clock.lua
        --@include ../dead.lua
    end
    if held then
        freed = id
        if broken == id then
            broken, breaker = none, ''
        end
    end
    --@include ../minute.lua
end
if held then
    redis.pcall('PUBLISH', ARGV[2], '0') -- a word that is not allowed undoes nothing
end
return answer

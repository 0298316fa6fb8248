-- SPDX-License-Identifier: Apache-2.0
-- Give back, and tell those who wait if nobody else has it, as Redisson does: a writer says 1, the last
-- reader 0. Passes when the memory is full.
--
-- KEYS[1] the lock   KEYS[2] its fence   KEYS[3] our lease as a reader   KEYS[4] as a writer
-- ARGV[1] the owner id   ARGV[2] the channel of those who wait   ARGV[3] our field as a reader
-- ARGV[4] is there if an attempt of this owner may still arrive: until when, in server ms, -1 for
-- nobody knows. Until then the id is remembered as dead and refused.
-- G: it was ours | F: done before | N: not here; each alone

local call, key, fence, id = redis.call, KEYS[1], KEYS[2], ARGV[1]
local before = string.sub(KEYS[3], 1, -1 - #ARGV[3] - #':rwlock_timeout:1')
--@include alive.lua
local h = call('HMGET', key, ARGV[3], ARGV[3] .. ':write')
local held, free = h[1] or h[2], false
local f = call('GET', fence)
--@include ../fence.lua
local ttl, answer = 0, 'N'
if held then
    answer = 'G'
    call('HDEL', key, h[1] and ARGV[3] or ARGV[3] .. ':write')
    call('DEL', h[1] and KEYS[3] or KEYS[4])
    free = not alive()
    if free then
        call('DEL', key)
    end
elseif freed == id then
    answer = 'F'
end
if held or ARGV[4] then
    if ARGV[4] or dead ~= '' then
        --@include ../clock.lua
        --@include ../dead.lua
    end
    freed = held and id or freed
    --@include ../minute.lua
end
if free then
    redis.pcall('PUBLISH', ARGV[2], h[1] and '0' or '1') -- a word that is not allowed undoes nothing
end
return answer

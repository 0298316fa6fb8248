-- SPDX-License-Identifier: Apache-2.0
-- Extend what is still ours. An entry that is there was never taken by anybody else, so it is
-- extended even if its time was over by the server's clock: a clock that was set forward is no
-- loss. Starts with PEXPIREAT, which passes when the memory is full; after it, so does HSET.
--
-- ARGV[1] owner id   ARGV[2] how long the last token is kept, ms   ARGV[3] ttl, ms
-- HELD left-before now | NONE now

local key, id, retention, ttl = KEYS[1], ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
local s = redis.call('HMGET', key, 'h:' .. id, 'n', 'due', 'until', 'last', 'at')
if not s[1] then
    return { 'NONE', now }
end

local function num(x)
    return string.format('%.0f', x)
end

local token, mode, expiry, span = string.match(s[1], '^(%d+) (%a) (%d+) (%d+)$')
local left = math.min(tonumber(expiry), now + span) - now
local due = s[2] == '1' and now + ttl or math.min(tonumber(s[3]), now + ttl)
local till = math.max(tonumber(s[4]), now + ttl)
redis.call('PEXPIREAT', key, num(math.max(till, math.floor(s[5] / 1000) + retention)))
-- `at` may not go back here: whoever sweeps must see that the clock did.
redis.call('HSET', key, 'h:' .. id, token .. ' ' .. mode .. ' ' .. num(now + ttl) .. ' ' .. num(ttl),
    'due', num(due), 'until', num(till), 'at', num(math.max(now, tonumber(s[6]))))
return { 'HELD', left, now }

-- SPDX-License-Identifier: Apache-2.0
-- Extend what is still ours. An entry that is there was never taken by anybody else, so it is
-- extended even if its time was over by the server's clock: a clock that was set forward is no
-- loss. Starts with PEXPIREAT, which passes when the memory is full; after it, so does HSET.
--
-- ARGV[1] owner id   ARGV[2] how long the last token is kept, ms   ARGV[3] ttl, ms
-- HELD token left-before now | NONE now | BROKEN now who: somebody wants it given up

local key, id, ttl = KEYS[1], ARGV[1], ARGV[3] + 0
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
local f = redis.call('HMGET', key, 'h:' .. id, 's', 'b:' .. id)
if not f[1] then
    return { 'NONE', now }
elseif f[3] then
    return { 'BROKEN', now, f[3] }
end

local token, mode, expiry, span = string.match(f[1], '^(%d+) (%a) (%d+) (%d+)$')
local left = math.min(expiry + 0, now + span) - now
local permits, last, at, n, x, due, till, queue = string.match(f[2],
    '^(%d+) (%d+) (%d+) (%d+) (%d) (-?%d+) (-?%d+) (.*)$')
-- `at` may not go back here: whoever sweeps must see that the clock did.
local stamp = math.max(now, at + 0)
due = n == '1' and now + ttl or math.min(at + due, now + ttl)
till = math.max(at + till, now + ttl)
redis.call('PEXPIREAT', key,
    string.format('%d', math.max(till, math.floor(last / 1000) + ARGV[2])))
redis.call('HSET', key, 'h:' .. id, string.format('%s %s %d %d', token, mode, now + ttl, ttl),
    's', string.format('%s %s %d %s %s %d %d %s', permits, last, stamp, n, x, due - stamp,
        till - stamp, queue))
return { 'HELD', token + 0, left, now }

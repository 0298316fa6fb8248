-- SPDX-License-Identifier: Apache-2.0
-- The resource's side of a lock, where the resource is a key in Redis: a write counts only if its
-- token is not older than the newest that was seen. A holder that was paused past its deadline and
-- writes late is refused, whatever it believes.
--
--     redis-cli --eval redis_guard.lua balance , "$SNIB_TOKEN" 100
--
-- KEYS[1]  a hash: `value` and the `token` that wrote it
-- ARGV[1]  the token of the lock (snib_token, or SNIB_TOKEN under `snib run`)
-- ARGV[2]  the value to write
--
-- Answers 1: written; 0: refused, a newer holder has been here.
--
-- Tokens are compared as text of equal length, because Lua's numbers are exact only up to 2^53.

local function padded(token)
    return string.rep('0', 20 - #token) .. token
end

local token = ARGV[1]
if not string.match(token, '^%d+$') or #token > 20 then
    return redis.error_reply('ERR the token must be a number of at most 20 digits')
end
local seen = redis.call('HGET', KEYS[1], 'token') or '0'
if padded(token) < padded(seen) then
    return 0
end
redis.call('HSET', KEYS[1], 'token', token, 'value', ARGV[2])
return 1

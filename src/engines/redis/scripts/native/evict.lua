-- SPDX-License-Identifier: Apache-2.0
--@include state.lua
--
-- Break what is held with this token; shared holders of one token go together.
--
-- Asked: whoever holds it is marked. A renewal then answers BROKEN and extends nothing, so that it
-- ends by itself at the latest; until it is released or over, it keeps others out as before. Asking
-- again tells how it stands. Forced, or over already: taken away, and handed on. Either way all who
-- listen are told, once.
--
-- ARGV[3] the token   ARGV[4] 1: forced   ARGV[5] who breaks it   ARGV[6] the channel for that
-- ASKED now left | GONE now | NONE now; GONE may have a 1 behind as in release

local answer, left, news = 'NONE', 0, false
local all = call('HGETALL', key)
for i = 1, #all, 2 do
    local owner = match(all[i], '^h:(.+)$')
    local token, expiry, span
    if owner then
        token, expiry, span = match(all[i + 1], '^(%d+) %a (%d+) (%d+)$')
    end
    if token == ARGV[3] then
        local rest = math.min(expiry + 0, now + span) - now
        if ARGV[4] ~= '1' and rest > 0 then
            if answer ~= 'ASKED' then -- which passes when memory is full; after it, so does HSET
                call('PEXPIREAT', key, format('%d', math.max(till, math.floor(last / 1000) + ARGV[2])))
            end
            news = call('HSET', key, 'b:' .. owner, ARGV[5]) == 1 or news
            answer, left = 'ASKED', math.max(left, rest)
        else
            call('HDEL', key, 'h:' .. owner, 'i:' .. owner, 'b:' .. owner)
            answer, n, changed, news = answer == 'ASKED' and answer or 'GONE', n - 1, true, true
            if o == owner then
                o = ''
            end
        end
    end
end
if changed then
    if n == 0 then
        x, due = false, 0
    end
    --@include pump.lua
    --@include store.lua
end
if news then -- a word that is not allowed undoes nothing
    redis.pcall('PUBLISH', ARGV[6], ARGV[5] .. ' ' .. key)
end
if answer == 'ASKED' then
    return { answer, now, left }
end
return { answer, now, more }

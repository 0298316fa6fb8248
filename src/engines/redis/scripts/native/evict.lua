-- SPDX-License-Identifier: Apache-2.0
-- Break what is held with this token; shared holders of one token go together.
--
-- Asked: whoever holds it is marked. A renewal then answers X and extends nothing, so that it
-- ends by itself at the latest; until it is released or over, it keeps others out as before. Asking
-- again tells how it stands. Forced, or over already: taken away, and handed on. Either way all who
-- listen are told, once.
--
-- KEYS[1] the lock's hash
-- ARGV[1] TOKEN FORCED, 1 or 0   ARGV[2] who breaks it   ARGV[3] the channel for that
-- A now left | G or N more now

local call, key, id = redis.call, KEYS[1], ''
--@include ../clock.lua
local v = call('HGET', key, 's')
--@include version.lua
--@include state.lua
local wanted, forced = unpack('<I8B', ARGV[1])
local answer, left, news, firm = 78, 0, false, true

if x then
    local rest = math.min(expiry, now + lease) - now
    if last - tokens + 1 ~= wanted then
        answer = 78
    elseif forced == 0 and rest > 0 then
        answer, left, news = 65, rest, not marked
        --@include firm.lua
        flags = marked and flags or flags + 4
        call('HSET', key, 's', sub(v, 1, 1) .. string.char(flags) .. sub(v, 3), 'b',
            ARGV[2])
    else
        answer, changed, news = 71, true, true
        x, n, due, owner, tokens, expiry, lease = false, 0, 0, none, 0, 0, 0
        if marked then
            call('HDEL', key, 'b')
            marked, wrote = false, true
        end
    end
elseif n > 0 then
    local all = call('HGETALL', key)
    for i = 1, #all, 2 do
        local token, ends, time
        if sub(all[i], 1, 2) == 'h:' then
            token, ends, time = unpack('<I8I8I4', all[i + 1])
        end
        if token == wanted then
            local holder = sub(all[i], 3)
            local rest = math.min(ends, now + time) - now
            if forced == 0 and rest > 0 then
                --@include firm.lua
                news = call('HSET', key, 'b:' .. holder, ARGV[2]) == 1 or news
                answer, left = 65, math.max(left, rest)
            else
                call('HDEL', key, all[i], 'b:' .. holder)
                answer, n, changed, wrote, news = answer == 65 and 65 or 71, n - 1, true, true, true
                if n == 0 then
                    due = 0
                end
                if o == holder then
                    o = none
                end
            end
        end
    end
end
if changed then
    --@include pump.lua
    --@include store.lua
end
if news then -- a word that is not allowed undoes nothing
    redis.pcall('PUBLISH', ARGV[3], ARGV[2] .. ' ' .. key)
end
if answer == 65 then
    return pack('<BI8I4', answer, now, left)
end
return pack('<BBI8', answer, more, now)

-- SPDX-License-Identifier: Apache-2.0
-- Forget the dead, then grant all that fit, in order; 256 places at most.

-- Look at every holder if one may be over, or if the clock was set back: no lease is longer than
-- its ttl from now.
if n > 0 and (now >= due or now < at - 1000) then
    local all = call('HGETALL', key)
    n, x, due, till, o, changed = 0, false, 0, dead ~= '' and till or now, '', true
    for i = 1, #all, 2 do
        local sort, owner = match(all[i], '^([hq]):(.+)$')
        if sort == 'h' then
            local token, mode, expiry, ttl = match(all[i + 1], '^(%d+) (%a) (%d+) (%d+)$')
            local latest = now + ttl
            expiry = expiry + 0
            if expiry <= now then
                call('HDEL', key, 'h:' .. owner, 'i:' .. owner, 'b:' .. owner)
            else
                if expiry > latest then
                    expiry = latest
                    call('HSET', key, all[i], format('%s %s %d %s', token, mode, expiry, ttl))
                end
                due = n == 0 and expiry or math.min(due, expiry)
                till = math.max(till, expiry)
                n, x, o = n + 1, mode == 'x', owner
            end
        elseif sort == 'q' then
            local who, expiry, lease, rest = match(all[i + 1], '^(%S+ %a) (%d+) (%d+)(.*)$')
            if expiry + 0 > now + lease then
                expiry = now + lease
                call('HSET', key, all[i], format('%s %d %s%s', who, expiry, lease, rest))
            end
            till = math.max(till, expiry + 0)
        end
    end
end

-- A ticket is alive while its own short lease runs and somebody listens at its inbox; NUMSUB counts
-- exactly, PUBLISH does not.
local work = 256
while w > 0 and head <= tail and not x and (permits == 0 or n < permits) do
    if work == 0 then
        more = 1 -- enough for one script: whoever asked asks again
        break
    end
    work = work - 1
    local place = format('%d', head)
    local t = call('HGET', key, 'q:' .. place)
    if t then
        local owner, mode, over, ttl, lease, span, inbox, info =
            match(t, '^(%S+) (%a) (%d+) %d+ (%d+) (%d+) (%d+) (%S+) (.*)$')
        local alive = over + 0 > now and call('PUBSUB', 'NUMSUB', inbox)[2] > 0
        if alive and mode == 'x' and n > 0 then
            break
        end
        call('HDEL', key, 'q:' .. place, 't:' .. owner)
        w, changed = w - 1, true
        if alive then
            if owner == id then
                lease = ttl
            end
            --@include hold.lua
            if owner == id then
                granted, spanned = token, span
            else
                messages = messages or {}
                messages[#messages + 1] = inbox
                messages[#messages + 1] = format('%s %d %d %s %d %s', owner, token, span, lease,
                    now, key)
            end
        end
    end
    head, changed = head + 1, true
end
if head > tail then
    w = 0
end

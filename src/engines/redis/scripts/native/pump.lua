-- SPDX-License-Identifier: Apache-2.0
-- Forget the dead, then grant all that fit, in order; 256 places at most.

-- Look at every holder if one may be over, or if the clock was set back: no lease is longer than
-- its ttl from now.
if n > 0 and (now >= due or now < at - 1000) then
    local back, all = now < at - 1000, {}
    --@include firm.lua
    if not x or (back and w > 0) then
        all = call('HGETALL', key)
    end
    changed = true
    if not x then
        n, due, o = 0, 0, none
    elseif expiry > now then
        expiry = math.min(expiry, now + lease)
        due = expiry
    else
        x, n, due, owner, tokens, expiry, lease = false, 0, 0, none, 0, 0, 0
        if marked then
            call('HDEL', key, 'b')
            marked = false
        end
    end
    for i = 1, #all, 2 do
        local sort, record = sub(all[i], 1, 2), all[i + 1]
        if sort == 'h:' then
            local token, ends, ttl, since = unpack('<I8I8I4I8', record)
            local holder = sub(all[i], 3)
            if ends <= now then
                call('HDEL', key, all[i], 'b:' .. holder)
            else
                if ends > now + ttl then
                    ends = now + ttl
                    call('HSET', key, all[i], pack('<I8I8I4I8', token, ends, ttl, since) ..
                        sub(record, 29))
                end
                due = n == 0 and ends or math.min(due, ends)
                n, o = n + 1, holder
            end
        elseif sort == 'q:' then
            local over, stay = unpack('<I8', record), unpack('<I4', record, 52)
            if over > now + stay then
                call('HSET', key, all[i], pack('<I8', now + stay) .. sub(record, 9))
            end
        end
    end
end

-- A ticket is alive while its own short lease runs and somebody listens at its inbox; NUMSUB counts
-- exactly, PUBLISH does not. In a cluster an inbox is a sharded channel, and its name says so.
local work = 256
while w > 0 and head <= tail and not x and (permits == 0 or n < permits) do
    if work == 0 then
        more = 1 -- enough for one script: whoever asked asks again
        break
    end
    work = work - 1
    local place = pack('<c2I8', 'q:', head)
    local t = call('HGET', key, place)
    if t then
        local over, who, mode, ttl, retention, _, span, size, _, time, turn =
            unpack('<I8c17BI4I4I8I4BI8I4I4', t)
        local inbox, info = sub(t, 64, 63 + size), sub(t, 64 + size)
        local count = sub(inbox, -39, -33) == ':shard:' and 'SHARDNUMSUB' or 'NUMSUB'
        local alive = over > now and call('PUBSUB', count, inbox)[2] > 0
        if alive and mode == 120 and n > 0 then
            break
        end
        call('HDEL', key, place, 't:' .. who)
        w, changed, wrote = w - 1, true, true
        if alive then
            if who == id then
                time = ttl
            end
            --@include hold.lua
            if who == id then
                granted, spanned = token, span
            else
                if to then -- all but the last; most often there is one
                    messages = messages or {}
                    messages[#messages + 1] = to
                    messages[#messages + 1] = message
                end
                to, message = inbox, pack('<Bc17I8I4I4I4', 2, who, token, span, time, turn) .. key
            end
        end
    end
    head, changed = head + 1, true
end
if head > tail then
    w = 0
end

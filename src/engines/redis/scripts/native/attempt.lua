-- SPDX-License-Identifier: Apache-2.0
--@include state.lua
--
-- Acquire, or stand in line, or look again. Idempotent by owner id.
--
-- ARGV[3] mode x, s or c      ARGV[4] permits, 0 unless counted   ARGV[5] ttl in ms
-- ARGV[6] inbox, '' for a try ARGV[7] lease of the ticket in ms   ARGV[8] hand-over lease in ms
-- ARGV[9] not after, server ms, 0 for none                        ARGV[10] tokens wanted, 1 or more
-- ARGV[11] who and label
--
-- HELD token left tokens now | QUEUED place token left now info | BUSY 0 token left now info
-- | KIND permits now | LATE now | DEAD now; QUEUED and BUSY may have a 1 behind: ask again at once
--
-- A line has 4096 places. Whoever finds it full is told BUSY.

local mode, ttl, inbox, info = ARGV[3], ARGV[5], ARGV[6], ARGV[11]
local wanted = ARGV[4] + 0

if ARGV[9] ~= '0' and now > ARGV[9] + 0 then
    return { 'LATE', now }
end
if dead ~= '' and string.find(dead, id .. ' ', 1, true) then
    return { 'DEAD', now } -- a release for this id has overtaken us
end

-- Ours already: say for how long, and add nothing. One who speaks and does not hear must not keep
-- it for ever by asking. Nobody is told so without a write: a server that has become a replica
-- refuses that, and what it has may be old.
if mine then
    local token, expiry, span = match(mine, '^(%d+) %a (%d+) (%d+)$')
    local left = math.min(expiry + 0, now + span) - now
    if left > 0 then
        call('PEXPIREAT', key, format('%d', math.max(till, math.floor(last / 1000) + ARGV[2])))
        return { 'HELD', token + 0, left, 1, now }
    end
end

if ticket and inbox ~= '' then
    --@include ticket.lua
    call('PEXPIREAT', key, format('%d', math.max(till, math.floor(last / 1000) + ARGV[2])))
    call('HSET', key, 'q:' .. ticket, record)
end
if n > 0 or w > 0 then
    --@include pump.lua
end
if not granted and w == 0 and (n == 0 or (permits == wanted and not x and
        (mode == 's' or (mode == 'c' and n < permits)))) then
    local owner, lease, span = id, ttl, ARGV[10]
    permits = wanted
    --@include hold.lua
    granted, spanned = token, span
end
if granted then
    --@include store.lua
    return { 'HELD', granted, ttl + 0, spanned + 0, now }
end

local answer, place = 'BUSY', 0
if permits ~= wanted then
    answer = 'KIND'
elseif inbox ~= '' then
    --@include sweep_line.lua
    answer = 'QUEUED'
    if ticket and call('HEXISTS', key, 't:' .. id) == 0 then
        ticket = nil
    end
    if not ticket and w >= 4096 then
        answer = 'BUSY'
    elseif not ticket then
        if w == 0 then
            head, tail = 1, 0
        elseif tail - head > 4 * w + 64 then
            --@include close_up.lua
        end
        tail, w = tail + 1, w + 1
        ticket = format('%d', tail)
        --@include ticket.lua
        call('HSET', key, 'q:' .. ticket, record, 't:' .. id, format('%d %d', tail, now))
    end
    place = ticket and math.min(ticket - head + 1, w) or 0
end
if changed then
    --@include store.lua
end
if answer == 'KIND' then
    return { answer, permits, now }
end

-- Who is in the way, as far as one look tells.
local token, left, who = 0, -1, ''
if o ~= '' then
    local seen = call('HMGET', key, 'h:' .. o, 'i:' .. o)
    if seen[1] then
        local number, expiry, span = match(seen[1], '^(%d+) %a (%d+) (%d+)$')
        token, left, who = number + 0, math.min(expiry + 0, now + span) - now, seen[2] or ''
    end
end
return { answer, place, token, left, now, who, more }

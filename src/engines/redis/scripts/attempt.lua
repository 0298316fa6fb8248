-- SPDX-License-Identifier: Apache-2.0
--@include state.lua
--
-- Acquire, or stand in line, or look again. Idempotent by owner id.
--
-- ARGV[3] mode x, s or c      ARGV[4] permits, 0 unless counted   ARGV[5] ttl in ms
-- ARGV[6] inbox, '' for a try ARGV[7] lease of the ticket in ms   ARGV[8] hand-over lease in ms
-- ARGV[9] not after, server ms, 0 for none                        ARGV[10] who and label
--
-- HELD token left now | QUEUED place token left now info | BUSY 0 token left now info
-- | KIND permits now | LATE now | DEAD now

local mode, wanted, ttl, inbox = ARGV[3], tonumber(ARGV[4]), tonumber(ARGV[5]), ARGV[6]
local lease, not_after, info = tonumber(ARGV[7]), tonumber(ARGV[9]), ARGV[10]

if not_after > 0 and now > not_after then
    return { 'LATE', now }
end
if dead ~= '' and string.find(dead, id .. ' ', 1, true) then
    return { 'DEAD', now } -- a release for this id has overtaken us
end

-- Ours already: say for how long, and add nothing. One who speaks and does not hear must not keep
-- it for ever by asking.
if mine then
    local token, _, expiry, span = match(mine, HOLDER)
    local left = min(tonumber(expiry), now + span) - now
    if left > 0 then
        return { 'HELD', tonumber(token), left, now }
    end
end

local function write_ticket(place)
    till = max(till, now + lease)
    call('HSET', key, 'q:' .. place, id .. ' ' .. mode .. ' ' .. num(now + lease) .. ' ' ..
        num(lease) .. ' ' .. num(ttl) .. ' ' .. ARGV[8] .. ' ' .. inbox .. ' ' .. info)
    changed = true
end

if ticket and inbox ~= '' then
    call('PEXPIREAT', key, num(max(till, now + lease, math.floor(last / 1000) + retention)))
    write_ticket(ticket)
end
pump()
if not granted and w == 0 and (n == 0 or (permits == wanted and not x and
        (mode == 's' or (mode == 'c' and n < permits)))) then
    permits = wanted
    hold(id, mode, ttl, ttl, info)
    granted = true
end
if granted then
    store()
    return { 'HELD', last, ttl, now }
end

local answer, place = 'BUSY', 0
if permits ~= wanted then
    answer = 'KIND'
elseif inbox ~= '' then
    answer = 'QUEUED'
    if not ticket or call('HEXISTS', key, 't:' .. id) == 0 then
        if w == 0 then
            head, tail = 1, 0
        end
        tail, w = tail + 1, w + 1
        ticket = num(tail)
        write_ticket(ticket)
        call('HSET', key, 't:' .. id, ticket .. ' ' .. num(now))
    end
    place = min(tonumber(ticket) - head + 1, w)
end
if changed then
    store()
end
if answer == 'KIND' then
    return { answer, permits, now }
end

-- Who is in the way, as far as one look tells.
local token, left, who = 0, -1, ''
if o ~= '' then
    local seen = call('HMGET', key, 'h:' .. o, 'i:' .. o)
    if seen[1] then
        local number, _, expiry, span = match(seen[1], HOLDER)
        token, left, who = tonumber(number), min(tonumber(expiry), now + span) - now, seen[2] or ''
    end
end
return { answer, place, token, left, now, who }

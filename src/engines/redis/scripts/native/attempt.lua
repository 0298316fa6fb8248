-- SPDX-License-Identifier: Apache-2.0
-- Acquire, or stand in line, or look again. Idempotent by owner id.
--
-- KEYS[1] the lock's hash
-- ARGV[1] the request: ID MODE TTL RETENTION NOT-AFTER SPAN SIZE PERMITS LEASE TIME TURN, then an inbox
-- of SIZE bytes (0: do not stand in line), then who and label. A ticket is its request behind a time,
-- so what is where in the request is known to pump.lua, sweep_line.lua and close_up.lua too.
--
-- H token left span now | Q or B more place token left now info | K permits now | L now | D now

local call, key, request = redis.call, KEYS[1], ARGV[1]
--@include ../clock.lua
local v = call('HGET', key, 's')
local id, mode, ttl, retention, limit, span, size, wanted, stay =
    struct.unpack('<c17BI4I4I8I4BI4I4', request)
if limit > 0 and now > limit then
    return struct.pack('<BI8', 76, now)
end

--@include version.lua
-- Free, and wanted by one alone: most attempts find that.
if flags == 0 and mode == 120 then
    local token = last < us and us or last + 1
    if span ~= 1 then
        span = math.max(1, math.min(span, us + 1000000 - token))
    end
    last = token + span - 1
    local keep, ends = last / 1000 + retention, now + ttl
    if ends > keep then
        keep = ends
    end
    local moves = keep > kept * 1000
    if moves then
        kept = math.ceil((keep + retention / 2) / 1000)
    end
    call('HSET', key, 's', struct.pack('<BBc17I8I4c5c10I4I8I4', 2, 1, id, last, kept, owner, freed,
        span, ends, ttl), 'i', string.sub(request, 56 + size))
    if moves then
        call('PEXPIREAT', key, string.format('%d', kept * 1000))
    end
    return struct.pack('<BI8I4I4I8', 72, token, ttl, span, now)
end

--@include state.lua
local firm = false -- without memory nothing new is granted
if dead ~= '' and string.find(dead, id, 1, true) then
    return pack('<BI8', 68, now) -- a release for this id has overtaken us
end

-- Ours already: say for how long, and add nothing. One who speaks and does not hear must not keep
-- it for ever by asking. Nobody is told so without a write: a server that has become a replica
-- refuses that, and what it has may be old.
local mine = n > 0 and not x and call('HGET', key, 'h:' .. id)
if x and owner == id then
    local left = math.min(expiry, now + lease) - now
    if left > 0 then
        call('PEXPIREAT', key, format('%d', kept * 1000))
        return pack('<BI8I4I4I8', 72, last - tokens + 1, left, tokens, now)
    end
elseif mine then
    local token, ends, time = unpack('<I8I8I4', mine)
    local left = math.min(ends, now + time) - now
    if left > 0 then
        call('PEXPIREAT', key, format('%d', kept * 1000))
        return pack('<BI8I4I4I8', 72, token, left, 1, now)
    end
end

local ticket = w > 0 and call('HGET', key, 't:' .. id)
local place = ticket and unpack('<I8', ticket)
if place and size > 0 then -- a fresh lease, also when the memory is full
    call('PEXPIREAT', key, format('%d', kept * 1000))
    --@include ticket.lua
    call('HSET', key, pack('<c2I8', 'q:', place), record)
end
if n > 0 or w > 0 then
    --@include pump.lua
end
if not granted and w == 0 and (n == 0 or (permits == wanted and not x and
        (mode == 115 or (mode == 99 and n < permits)))) then
    local who, time, info = id, ttl, sub(request, 56 + size)
    permits = wanted
    --@include hold.lua
    granted, spanned = token, span
end
if granted then
    --@include store.lua
    return pack('<BI8I4I4I8', 72, granted, ttl, spanned, now)
end

local answer, position = 66, 0
if permits ~= wanted then
    answer = 75
elseif size > 0 then
    --@include sweep_line.lua
    answer = 81
    if place and call('HEXISTS', key, 't:' .. id) == 0 then
        place = nil
    end
    if not place and w >= 4096 then
        answer = 66
    elseif not place then
        if w == 0 then
            head, tail = 1, 0
        elseif tail - head > 4 * w + 64 then
            --@include close_up.lua
        end
        tail, w = tail + 1, w + 1
        place = tail
        --@include ticket.lua
        if field then
            call('HSET', key, field, entry)
        end
        field, entry = pack('<c2I8', 'q:', place), record
        field2, entry2 = 't:' .. id, pack('<I8I8', place, now)
    end
    if place then
        position = place - head + 1
        position = position < w and position or w
    end
end
if changed then
    --@include store.lua
end
if answer == 75 then
    return pack('<BI4I8', answer, permits, now)
end

-- Who is in the way, as far as one look tells.
local token, left, info = 0, 0, ''
if x then
    token, left = last - tokens + 1, expiry - now
    left = left < lease and left or lease
    info = call('HGET', key, 'i') or ''
elseif n > 0 then
    local record = call('HGET', key, 'h:' .. o)
    if record then
        local ends, time
        token, ends, time = unpack('<I8I8I4', record)
        left, info = math.max(0, math.min(ends, now + time) - now), sub(record, 29)
    end
end
return pack('<BBI4I8I4I8', answer, more, position, token, left, now) .. info

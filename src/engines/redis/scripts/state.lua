-- SPDX-License-Identifier: Apache-2.0
-- The state of one lock, and the pump. Put in front of attempt, release and evict by the build.
--
-- KEYS[1] the lock's hash; ARGV[1] the owner id; ARGV[2] how long the last token is kept, in ms.
-- docs/redis-protocol.md has the fields. Numbers are printed by `num`, never by `..` or tostring,
-- which keep 14 digits only. TIME is read once. Nothing is published before all is written: a
-- script that fails half-way is not rolled back, and a published grant cannot be.

local key, id, retention = KEYS[1], ARGV[1], tonumber(ARGV[2])
local call, match, max, min = redis.call, string.match, math.max, math.min

-- Formatting is the dearest thing here, and the same few numbers are printed again and again.
local printed = { [0] = '0', '1', '2' }
local function num(x)
    local text = printed[x]
    if not text then
        text = string.format('%.0f', x)
        printed[x] = text
    end
    return text
end

local clock = call('TIME')
local us = clock[1] * 1000000 + clock[2]
local now = math.floor(us / 1000)

local s = call('HMGET', key, 'permits', 'last', 'at', 'n', 'x', 'due', 'until', 'head', 'tail', 'w',
    'o', 'freed', 'dead', 'h:' .. id, 't:' .. id)
local permits, last, at = tonumber(s[1] or 0), tonumber(s[2] or 0), tonumber(s[3] or 0)
local n, x, due, till = tonumber(s[4] or 0), s[5] == '1', tonumber(s[6] or 0), tonumber(s[7] or 0)
local head, tail, w = tonumber(s[8] or 1), tonumber(s[9] or 0), tonumber(s[10] or 0)
local o, freed, dead, mine = s[11] or '', s[12] or '', s[13] or '', s[14]
local ticket = s[15] and match(s[15], '^%d+')

local HOLDER = '^(%d+) (%a) (%d+) (%d+)$'
local TICKET = '^(%S+) (%a) (%d+) (%d+) (%d+) (%d+) (%S+) (.*)$'
local changed, granted, messages = false, false, {}
local permits_before, head_before, tail_before, w_before = permits, head, tail, w

-- One more holder, for `lease` ms. Shared ones carry the token of the last exclusive grant.
local function hold(owner, mode, ttl, lease, info)
    if mode ~= 's' or last == 0 then
        last = max(last + 1, us)
    end
    local expiry = now + lease
    due = n == 0 and expiry or min(due, expiry)
    till = max(till, expiry)
    n, x, o, changed = n + 1, mode == 'x', owner, true
    call('HSET', key, 'h:' .. owner,
        num(last) .. ' ' .. mode .. ' ' .. num(expiry) .. ' ' .. num(ttl),
        'i:' .. owner, num(now) .. ' ' .. info)
end

-- Look at every holder: forget those whose lease is over. No lease is longer than its ttl, even
-- when the clock was set back.
local function sweep()
    local all = call('HGETALL', key)
    n, x, due, till, o, changed = 0, false, 0, now, '', true
    for i = 1, #all, 2 do
        local sort, owner = match(all[i], '^([hq]):(.+)$')
        if sort == 'h' then
            local token, mode, expiry, ttl = match(all[i + 1], HOLDER)
            local latest = now + ttl
            expiry = tonumber(expiry)
            if expiry <= now then
                call('HDEL', key, 'h:' .. owner, 'i:' .. owner)
            else
                if expiry > latest then
                    expiry = latest
                    call('HSET', key, all[i], token .. ' ' .. mode .. ' ' .. num(expiry) .. ' ' .. ttl)
                end
                due = n == 0 and expiry or min(due, expiry)
                till = max(till, expiry)
                n, x, o = n + 1, mode == 'x', owner
            end
        elseif sort == 'q' then
            local _, _, expiry, lease = match(all[i + 1], TICKET)
            till = max(till, min(tonumber(expiry), now + lease))
        end
    end
end

-- Forget the dead, then grant all that fit, in order. A ticket is alive while its own short lease
-- runs and somebody listens at its inbox; NUMSUB counts exactly, PUBLISH does not.
local function pump()
    if n > 0 and (now >= due or now < at - 1000) then
        sweep()
    end
    while w > 0 and head <= tail do
        if x or (permits > 0 and n >= permits) then
            return
        end
        local place = num(head)
        local t = call('HGET', key, 'q:' .. place)
        if t then
            local owner, mode, expiry, lease, ttl, grant, inbox, info = match(t, TICKET)
            local alive = min(tonumber(expiry), now + lease) > now and
                call('PUBSUB', 'NUMSUB', inbox)[2] > 0
            if alive and mode == 'x' and n > 0 then
                return
            end
            call('HDEL', key, 'q:' .. place, 't:' .. owner)
            w, changed = w - 1, true
            if alive and owner == id then
                hold(owner, mode, tonumber(ttl), tonumber(ttl), info)
                granted = true
            elseif alive then
                hold(owner, mode, tonumber(ttl), tonumber(grant), info)
                messages[#messages + 1] = { inbox, owner .. ' ' .. num(last) .. ' ' .. grant .. ' ' .. key }
            end
        end
        head, changed = head + 1, true
    end
    if head > tail then
        w = 0
    end
end

-- Write what changed; then tell. What is free shrinks to its last token, kept for a while so that
-- tokens grow also when the clock is set back by less than that.
local function store()
    local expiry = math.floor(last / 1000) + retention
    if n == 0 and w == 0 then
        call('DEL', key)
        call('HSET', key, 'last', num(last), 'at', num(now), 'freed', freed)
        if dead ~= '' and till > now then
            call('HSET', key, 'dead', dead)
            expiry = max(expiry, till)
        end
    else
        call('HSET', key, 'last', num(last), 'at', num(now), 'n', num(n), 'x', x and '1' or '0',
            'due', num(due), 'until', num(till), 'o', o)
        if head ~= head_before or tail ~= tail_before or w ~= w_before then
            call('HSET', key, 'head', num(head), 'tail', num(tail), 'w', num(w))
        end
        if permits ~= permits_before then
            call('HSET', key, 'permits', num(permits))
        end
        if freed ~= (s[12] or '') or dead ~= (s[13] or '') then
            call('HSET', key, 'freed', freed, 'dead', dead)
        end
        expiry = max(expiry, till)
    end
    call('PEXPIREAT', key, num(expiry))
    for i = 1, #messages do
        call('PUBLISH', messages[i][1], messages[i][2])
    end
end

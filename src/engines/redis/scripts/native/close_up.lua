-- SPDX-License-Identifier: Apache-2.0
-- Waits that ended leave gaps in the line, and nobody passes them while the lock is held. When most
-- of it is gaps: number those who are still there anew, from 1. Only smaller numbers are given, in
-- order, so that none meets one that is still in use.

local all, places, records = call('HGETALL', key), {}, {}
for i = 1, #all, 2 do
    local number = match(all[i], '^q:(%d+)$')
    if number then
        places[#places + 1] = number + 0
        records[number + 0] = all[i + 1]
    end
end
table.sort(places)
w = 0
for i = 1, #places do
    local owner, over, lease = match(records[places[i]], '^(%S+) %a (%d+) (%d+)')
    call('HDEL', key, format('q:%d', places[i]))
    if math.min(over + 0, now + lease) > now then
        w = w + 1
        local since = match(call('HGET', key, 't:' .. owner) or '', ' (%d+)$') or format('%d', now)
        call('HSET', key, format('q:%d', w), records[places[i]], 't:' .. owner,
            format('%d %s', w, since))
    else
        call('HDEL', key, 't:' .. owner)
    end
end
head, tail = 1, w

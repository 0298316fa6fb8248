-- SPDX-License-Identifier: Apache-2.0
-- Waits that ended leave gaps in the line, and nobody passes them while the lock is held. When most
-- of it is gaps: number those who are still there anew, from 1. Only smaller numbers are given, in
-- order, so that none meets one that is still in use.

local all, places, records, came = call('HGETALL', key), {}, {}, {}
for i = 1, #all, 2 do
    local sort, name = match(all[i], '^([qt]):(.+)$')
    if sort == 'q' then
        places[#places + 1] = name + 0
        records[name + 0] = all[i + 1]
    elseif sort == 't' then
        came[name] = match(all[i + 1], ' (%d+)$')
    end
end
table.sort(places)
w = 0
for i = 1, #places do
    local owner, over, lease = match(records[places[i]], '^(%S+) %a (%d+) (%d+)')
    call('HDEL', key, format('q:%d', places[i]))
    if math.min(over + 0, now + lease) > now then
        w = w + 1
        call('HSET', key, format('q:%d', w), records[places[i]], 't:' .. owner,
            format('%d %s', w, came[owner] or format('%d', now)))
    else
        call('HDEL', key, 't:' .. owner)
    end
end
head, tail = 1, w

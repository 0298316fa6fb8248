-- SPDX-License-Identifier: Apache-2.0
-- Waits that ended leave gaps in the line, and nobody passes them while the lock is held. When most
-- of it is gaps: number those who are still there anew, from 1. Only smaller numbers are given, in
-- order, so that none meets one that is still in use.

local all, places, records, came = call('HGETALL', key), {}, {}, {}
for i = 1, #all, 2 do
    local sort, name = sub(all[i], 1, 2), sub(all[i], 3)
    if sort == 'q:' then
        local place = unpack('<I8', name)
        places[#places + 1] = place
        records[place] = all[i + 1]
    elseif sort == 't:' then
        came[name] = unpack('<I8', all[i + 1], 9)
    end
end
table.sort(places)
w = 0
for i = 1, #places do
    local old = records[places[i]]
    local over, who, time = unpack('<I8c17xxxxxxxxxxxxxxxxxxxxxxxxxxI4', old)
    call('HDEL', key, pack('<c2I8', 'q:', places[i]))
    if math.min(over, now + time) > now then
        w = w + 1
        call('HSET', key, pack('<c2I8', 'q:', w), old, 't:' .. who,
            pack('<I8I8', w, came[who] or now))
    else
        call('HDEL', key, 't:' .. who)
    end
end
head, tail = 1, w

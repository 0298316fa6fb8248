-- SPDX-License-Identifier: Apache-2.0
-- Whoever comes looks at a few of those in a long line, anywhere in it, and takes the dead out. One
-- whose lease is over is dead; when the line is a quarter full, so is one that nobody listens for.

if w >= 64 then
    local span = tail - head + 1
    local from = us % span
    for i = 1, math.min(8, span) do
        local spot = pack('<c2I8', 'q:', head + (from + i) % span)
        local t = call('HGET', key, spot)
        if t then
            local over, who, length, time =
                unpack('<I8c17xxxxxxxxxxxxxxxxxxxxxBxxxxI4', t)
            local inbox = sub(t, 64, 63 + length)
            local count = sub(inbox, -39, -33) == ':shard:' and 'SHARDNUMSUB' or 'NUMSUB'
            if who ~= id and (math.min(over, now + time) <= now or (w >= 1024 and
                    call('PUBSUB', count, inbox)[2] == 0)) then
                call('HDEL', key, spot, 't:' .. who)
                w, changed = w - 1, true
            end
        end
    end
end

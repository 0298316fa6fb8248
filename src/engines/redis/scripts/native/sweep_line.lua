-- SPDX-License-Identifier: Apache-2.0
-- Whoever comes looks at a few of those in a long line, anywhere in it, and takes the dead out. One
-- whose lease is over is dead; when the line is a quarter full, so is one that nobody listens for.

if w >= 64 then
    local span = tail - head + 1
    local at = us % span
    for i = 1, math.min(8, span) do
        local place = format('q:%d', head + (at + i) % span)
        local t = call('HGET', key, place)
        if t then
            local owner, over, lease, inbox = match(t, '^(%S+) %a (%d+) (%d+) %d+ %d+ %d+ (%S+)')
            if owner ~= id and (math.min(over + 0, now + lease) <= now or
                    (w >= 1024 and call('PUBSUB', 'NUMSUB', inbox)[2] == 0)) then
                call('HDEL', key, place, 't:' .. owner)
                w, changed = w - 1, true
            end
        end
    end
end

-- SPDX-License-Identifier: Apache-2.0
-- Write what changed; then tell: a script that fails half-way is not rolled back, and a grant that
-- was published cannot be. What is free shrinks to its last token, kept for a while so that tokens
-- grow also when the clock is set back by less than that.

local keep = math.floor(last / 1000) + ARGV[2]
local state
if n > 0 or w > 0 then
    state = format('%d %d %d %d %d %d %d %d %d %d', permits, last, now, n, x and 1 or 0,
        due - now, till - now, head, tail, w)
else
    state = format('0 %d %d 0 0 0 %d 1 0 0', last, now, dead ~= '' and till - now or 0)
end
if freed ~= (f[3] or '') then
    if holder then
        call('HSET', key, 's', state, 'o', o, 'freed', freed, holder, entry, about, note)
    else
        call('HSET', key, 's', state, 'o', o, 'freed', freed)
    end
elseif holder then
    call('HSET', key, 's', state, 'o', o, holder, entry, about, note)
else
    call('HSET', key, 's', state, 'o', o)
end
if dead ~= '' then
    if dead ~= f[4] then
        call('HSET', key, 'dead', dead)
    elseif n == 0 and w == 0 and till <= now then
        call('HDEL', key, 'dead')
    end
end
-- Most often it expires then already.
if last ~= last_before or till > till_before or till > keep or till_before > keep or dead ~= '' then
    if (n > 0 or w > 0 or dead ~= '') and till > keep then
        keep = till
    end
    call('PEXPIREAT', key, format('%d', keep))
end
if messages then
    for i = 1, #messages, 2 do
        call('PUBLISH', messages[i], messages[i + 1])
    end
end

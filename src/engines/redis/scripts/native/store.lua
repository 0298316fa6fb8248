-- SPDX-License-Identifier: Apache-2.0
-- Write what changed; then tell: a script that fails half-way is not rolled back, and a grant that
-- was published cannot be. What is free shrinks to its last token, kept for a while so that tokens
-- grow also when the clock is set back by less than that.
--
-- The key's expiry only ever moves on, and then some way ahead, so that it seldom does.

local moves = keep > kept * 1000
if moves then
    kept = math.ceil((keep + slack) / 1000)
end
flags = (x and 1 or 0) + (dead ~= '' and 2 or 0) + (marked and 4 or 0)
local state
if w > 0 or (n > 0 and not x) then
    if released then
        freed = sub(released, 1, 5) .. sub(freed, 1, 10)
    end
    state = pack('<BBc17I8I4c15I4I8I4I4I4I8I8I8I8I4c17', 2, flags + 8, owner, last, kept, freed,
        tokens, expiry, lease, permits, n, now, due, head, tail, w, o)
elseif released then
    state = pack('<BBc17I8I4c5c10I4I8I4', 2, flags, owner, last, kept, released, freed, tokens, expiry,
        lease)
else
    state = pack('<BBc17I8I4c15I4I8I4', 2, flags, owner, last, kept, freed, tokens, expiry,
        lease)
end
--@include firm.lua
if field2 then
    call('HSET', key, 's', state, field, entry, field2, entry2)
elseif field then
    call('HSET', key, 's', state, field, entry)
else
    call('HSET', key, 's', state)
end
if dead == '' and had_dead then
    call('HDEL', key, 'dead')
elseif dead ~= doomed then
    call('HSET', key, 'dead', dead)
end
if moves then
    call('PEXPIREAT', key, format('%d', kept * 1000))
end
if messages then
    for i = 1, #messages, 2 do
        if sub(messages[i], -39, -33) == ':shard:' then
            redis.pcall('SPUBLISH', messages[i], messages[i + 1])
        else
            call('PUBLISH', messages[i], messages[i + 1])
        end
    end
end
if to then
    if sub(to, -39, -33) == ':shard:' then
        redis.pcall('SPUBLISH', to, message)
    else
        call('PUBLISH', to, message)
    end
end

-- SPDX-License-Identifier: Apache-2.0
-- Give back, or leave the line, and hand on. Passes when the memory is full.
--
-- KEYS[1] the lock's hash; ARGV[1] the owner id; ARGV[2] is there if an attempt of this owner may still
-- arrive: until when, in server ms, -1 for nobody knows. Until then the id is remembered as dead and
-- refused.
-- G: it was ours | W: was waiting | F: done before | N: not here; alone, or each with more and now

local key, id = KEYS[1], ARGV[1]
local v = redis.call('HGET', key, 's')

-- Ours alone, nobody waits and there is nothing to note: its owner stays where it is, as the one
-- who released it last.
if v and #v == 62 and not ARGV[2] and string.sub(v, 1, 19) == '\2\1' .. id then
    local free = '\2\0' .. string.sub(v, 3)
    if redis.pcall('HSET', key, 's', free) ~= 0 then
        redis.call('HDEL', key, 'b') -- passes when the memory is full; after it, so does HSET
        redis.call('HSET', key, 's', free)
    end
    return 'G'
end

local call = redis.call
--@include ../clock.lua
--@include version.lua
--@include state.lua
local answer, firm = 78, true
local ticket
if x and owner == id then
    answer, changed = 71, true
    x, n, due, tokens, expiry, lease = false, 0, 0, 0, 0, 0
    if marked then
        call('HDEL', key, 'b')
        marked, wrote = false, true
    end
elseif n > 0 and not x and call('HDEL', key, 'h:' .. id, 'b:' .. id) > 0 then
    answer, changed, wrote = 71, true, true
    n = n - 1
    freed, owner = sub(owner, 1, 5) .. sub(freed, 1, 10), id
    if n == 0 then
        due = 0
    end
    if o == id then
        o = none
    end
elseif w > 0 then
    ticket = call('HGET', key, 't:' .. id)
end
if ticket then
    answer = 87
    call('HDEL', key, pack('<c2I8', 'q:', unpack('<I8', ticket)), 't:' .. id)
    w, changed, wrote = w - 1, true, true
elseif answer == 78 and ((not x and owner == id) or string.find(freed, sub(id, 1, 5), 1, true)) then
    answer = 70
end

if ARGV[2] then
    local loose = unpack('<i8', ARGV[2])
    if loose < 0 then
        loose = now + 60000
    end
    if loose > now then
        local all, count = pack('<c17I8', id, loose), 1
        for i = 1, #dead, 25 do
            if count < 256 and sub(dead, i, i + 16) ~= id then
                all, count = all .. sub(dead, i, i + 24), count + 1
            end
        end
        dead, changed, keep = all, true, math.max(keep, loose)
    end
end

if changed or (n == 0 and w > 0) then
    --@include pump.lua
    --@include store.lua
end
return pack('<BBI8', answer, more, now)

-- SPDX-License-Identifier: Apache-2.0
-- Who has it: what mode it is in ("": none), what is left of it, and of each holder its field, what is left
-- of its lease, and what is noted there. Nothing is written.
--
-- KEYS[1] the lock   ARGV[1] what is in front of leases

local call = redis.call
local all = call('HGETALL', KEYS[1])
local out = { '', call('PTTL', KEYS[1]) }
for i = 1, #all, 2 do
    local count = tonumber(all[i + 1]) or 0
    if all[i] == 'mode' then
        out[1] = all[i + 1]
    elseif count > 0 then
        local lease, left = ARGV[1] .. all[i] .. ':rwlock_timeout:', -2
        for n = 1, count do
            left = math.max(left, call('PTTL', lease .. n))
        end
        out[#out + 1] = all[i]
        out[#out + 1] = left
        out[#out + 1] = call('GET', lease .. '1') or ''
    end
end
return out

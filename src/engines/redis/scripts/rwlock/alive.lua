-- SPDX-License-Identifier: Apache-2.0
-- Has one of the others a lease that is not over? A writer needs none: it has the lock's. Redisson's
-- readers have one for each time they entered.

local function alive()
    local all = call('HGETALL', key)
    for i = 1, #all, 2 do
        local count = tonumber(all[i + 1]) or 0
        for n = count, 1, -1 do
            if call('EXISTS', before .. all[i] .. ':rwlock_timeout:' .. n) == 1 then
                return true
            end
        end
        if count > 0 and string.sub(all[i], -6) == ':write' then
            return true
        end
    end
    return false
end

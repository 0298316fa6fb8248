-- SPDX-License-Identifier: Apache-2.0
-- What is kept beside a lock: VERSION LAST FREED BROKEN SIZE, then SIZE bytes of who broke it, then those
-- released before their attempts arrived. An id has 34 hexadecimal digits.

local none = '0000000000000000000000000000000000' -- nobody's id
local last, freed, broken, breaker, dead = 0, none, none, '', ''
if f then
    if #f < 78 or string.byte(f) ~= 1 then
        return redis.error_reply('LAYOUT ' .. fence ..
            ' was written by a newer snib, or by something else: let those who use the lock ' ..
            'finish, or delete it')
    end
    local size
    last, freed, broken, size = struct.unpack('<I8c34c34B', f, 2)
    if #f > 78 then
        breaker, dead = string.sub(f, 79, 78 + size), string.sub(f, 79 + size)
    end
end

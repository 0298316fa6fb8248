-- SPDX-License-Identifier: Apache-2.0
--@include state.lua
--
-- Take it away from whoever holds it with this token, and hand on. Shared holders of one token go
-- together. They learn of it at their next renewal.
--
-- ARGV[3] the token. GONE or NONE, with now; and a 1 behind as in release.

local answer = 'NONE'
local all = call('HGETALL', key)
for i = 1, #all, 2 do
    local owner = match(all[i], '^h:(.+)$')
    if owner and match(all[i + 1], '^%d+') == ARGV[3] then
        call('HDEL', key, 'h:' .. owner, 'i:' .. owner)
        answer, n, changed = 'GONE', n - 1, true
        if o == owner then
            o = ''
        end
    end
end
if changed then
    if n == 0 then
        x, due = false, 0
    end
    --@include pump.lua
    --@include store.lua
end
return { answer, now, more }

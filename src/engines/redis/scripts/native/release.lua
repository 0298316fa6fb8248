-- SPDX-License-Identifier: Apache-2.0
--@include state.lua
--
-- Give back, or leave the line, and hand on. Starts with HDEL, which passes when memory is full.
--
-- ARGV[3] until when, in server ms, an attempt of this owner may still arrive: 0 for none can, -1
-- for nobody knows. Until then the id is remembered as dead and refused.
-- GONE: it was ours | LEFT: was waiting | FREED: done before | NONE: not here; each with now, and
-- with a 1 behind if the line needs another such script.

local loose = ARGV[3] + 0
local answer = 'NONE'

call('HDEL', key, 'h:' .. id, 'i:' .. id, 'b:' .. id)
if mine then
    answer = 'GONE'
    n, changed = n - 1, true
    if n == 0 then
        x, due = false, 0
    end
    if o == id then
        o = ''
    end
    freed = string.sub(id, 1, 12) .. (freed ~= '' and ' ' .. string.sub(freed, 1, 38) or '')
elseif ticket then
    answer = 'LEFT'
    call('HDEL', key, 'q:' .. ticket, 't:' .. id)
    w, changed = w - 1, true
elseif string.find(freed, string.sub(id, 1, 12), 1, true) then
    answer = 'FREED'
end

if loose < 0 then
    loose = now + 60000
end
if loose > now then
    local kept, count = format('%s %d', id, loose), 1
    for other, over in string.gmatch(dead, '(%S+) (%d+)') do
        if over + 0 > now and other ~= id and count < 256 then
            kept, count = kept .. ' ' .. other .. ' ' .. over, count + 1
        end
    end
    dead, changed = kept, true
    till = math.max(till, loose)
end

if changed or (n == 0 and w > 0) then
    --@include pump.lua
    --@include store.lua
end
return { answer, now, more }

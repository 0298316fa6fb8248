-- SPDX-License-Identifier: Apache-2.0
-- Released before their attempts arrived, until their time is over: this one too, if that may be. 64
-- of them at most.

local loose, all, count = ARGV[4] and struct.unpack('<i8', ARGV[4]) or 0, '', 0
if loose < 0 then
    loose = now + 60000
end
if loose > now then
    all, count = struct.pack('<c34I8', id, loose), 1
    ttl = loose - now -- the fence outlives it
end
for i = 1, #dead, 42 do
    local other, till = struct.unpack('<c34I8', dead, i)
    if till > now and other ~= id and count < 64 then
        all, count = all .. string.sub(dead, i, i + 41), count + 1
    end
end
dead = all

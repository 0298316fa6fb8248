-- SPDX-License-Identifier: Apache-2.0
-- What every lock has in its field `s`; docs/redis-protocol.md has the fields. What another version
-- of the layout has written is left alone: the first byte is the version, and the first layout had
-- text there.

local none = '\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0' -- nobody's id
local version, flags, owner, last, kept, freed, tokens, expiry, lease =
    2, 0, none, 0, 0, none, 0, 0, 0
if v and #v >= 62 then
    version, flags, owner, last, kept, freed, tokens, expiry, lease =
        struct.unpack('<BBc17I8I4c15I4I8I4', v)
end
if version ~= 2 or (v and #v < 62) then
    local byte, by = string.byte(v) or 0, 'something else than snib'
    if byte >= 48 and byte <= 57 then
        by = 'snib 0.1'
    elseif byte > 2 and byte < 32 then
        by = 'a newer snib'
    end
    return redis.error_reply('LAYOUT this lock was written by ' .. by ..
        ': let those who use it finish with that version, or delete ' .. key)
end

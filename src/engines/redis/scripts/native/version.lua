-- SPDX-License-Identifier: Apache-2.0
-- What another version of the layout has written is left alone. The first byte of `s` is the
-- version; the first layout had text there.

if v and (string.byte(v) ~= 2 or #v < 62) then
    local byte = string.byte(v) or 0
    local by = 'something else than snib'
    if byte >= 48 and byte <= 57 then
        by = 'snib 0.1'
    elseif byte > 2 and byte < 32 then
        by = 'a newer snib'
    end
    return redis.error_reply('LAYOUT this lock was written by ' .. by ..
        ': let those who use it finish with that version, or delete ' .. key)
end

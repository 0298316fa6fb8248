-- SPDX-License-Identifier: Apache-2.0
-- One more holder: `who`, in `mode`, for `time` ms, with `ttl`, `span`, `retention` and `info`. Gives
-- `token` and `span`.
--
-- Shared holders carry the last token that was given. An exclusive one may have several, `span` from
-- `token` on; tokens may run ahead of the clock by a second.

local token, ends = last, now + time
if mode ~= 115 or last == 0 then
    token = last < us and us or last + 1
    span = mode == 120 and math.max(1, math.min(span, us + 1000000 - token)) or 1
    last = token + span - 1
else
    span = 1
end
keep, slack = math.max(keep, last / 1000 + retention, ends), retention / 2
if field then
    call('HSET', key, field, entry)
end
if n == 0 or ends < due then
    due = ends
end
n, changed = n + 1, true
if mode == 120 then
    freed = string.sub(owner, 1, 5) .. string.sub(freed, 1, 10)
    x, owner, tokens, expiry, lease = true, who, span, ends, ttl
    field, entry = 'i', info
else
    o = who
    field, entry = 'h:' .. who, struct.pack('<I8I8I4I8', token, ends, ttl, now) .. info
end

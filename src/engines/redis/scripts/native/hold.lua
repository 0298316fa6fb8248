-- SPDX-License-Identifier: Apache-2.0
-- One more holder: `who`, in `mode`, for `time` ms, with `ttl`, `span`, `retention` and `info`. Gives
-- `token` and `span`.
--
-- Shared holders carry the last token that was given. An exclusive one may have several, `span` from
-- `token` on; tokens may run ahead of the clock by a second.

local token, ends = last, now + time
if mode ~= 115 or last == 0 then
    token = last < us and us or last + 1
    if mode ~= 120 then
        span = 1
    elseif span ~= 1 then
        span = math.max(1, math.min(span, us + 1000000 - token))
    end
    last = token + span - 1
else
    span = 1
end
local need = last / 1000 + retention
if ends > need then
    need = ends
end
if need > keep then
    keep, slack = need, retention / 2
end
if field then
    call('HSET', key, field, entry)
end
if n == 0 or ends < due then
    due = ends
end
n, changed = n + 1, true
if mode == 120 then
    released = owner
    x, owner, tokens, expiry, lease = true, who, span, ends, ttl
    field, entry = 'i', info
else
    o = who
    field, entry = 'h:' .. who, pack('<I8I8I4I8', token, ends, ttl, now) .. info
end

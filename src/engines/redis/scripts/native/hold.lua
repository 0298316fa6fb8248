-- SPDX-License-Identifier: Apache-2.0
-- One more holder: `owner`, in `mode`, for `lease` ms, with `ttl`, `span` and `info`. Gives `token`.
--
-- Shared holders carry the last token that was given. An exclusive one may have several, `span` from
-- `token` on; tokens may run ahead of the clock by a second.

local token = last
if mode ~= 's' or last == 0 then
    token = last + 1 > us and last + 1 or us
    span = mode == 'x' and math.max(1, math.min(span + 0, us + 1000000 - token)) or 1
    last = token + span - 1
end
local expiry = now + lease
if n == 0 or expiry < due then
    due = expiry
end
if expiry > till then
    till = expiry
end
n, x, o, changed = n + 1, mode == 'x', owner, true
if holder then
    call('HSET', key, holder, entry, about, note)
end
holder, entry = 'h:' .. owner, format('%d %s %d %d', token, mode, expiry, ttl)
about, note = 'i:' .. owner, format('%d %s', now, info)

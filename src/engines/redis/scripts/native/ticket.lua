-- SPDX-License-Identifier: Apache-2.0
-- The record of our ticket, with a fresh lease.

local record = pack('<I8', now + stay) .. request
changed = true
if now + stay > keep then
    keep, slack = now + stay, retention / 2
end

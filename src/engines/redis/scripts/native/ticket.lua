-- SPDX-License-Identifier: Apache-2.0
-- The record of our ticket, with a fresh lease.

local record = pack('<I8', now + stay) .. request
keep, slack, changed = math.max(keep, now + stay), retention / 2, true

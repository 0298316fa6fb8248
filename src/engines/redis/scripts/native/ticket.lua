-- SPDX-License-Identifier: Apache-2.0
-- The record of our ticket, with a fresh lease.

local over = now + ARGV[7]
local record = format('%s %s %d %s %s %s %s %s %s', id, mode, over, ARGV[7], ttl, ARGV[8], ARGV[10],
    inbox, info)
till, changed = math.max(till, over), true

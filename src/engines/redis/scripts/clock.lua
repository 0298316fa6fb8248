-- SPDX-License-Identifier: Apache-2.0
-- The server's clock, read once: in microseconds, and in milliseconds.

local clock = call('TIME')
local us = clock[1] * 1000000 + clock[2]
local now = (us - us % 1000) / 1000

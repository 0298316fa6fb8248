-- SPDX-License-Identifier: Apache-2.0
-- A first write that passes when the memory is full; after it, whatever else is written does too.

if firm and not wrote then
    call('PEXPIREAT', key, format('%d', kept * 1000))
    wrote = true
end

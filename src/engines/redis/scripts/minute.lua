-- SPDX-License-Identifier: Apache-2.0
-- Write the fence of a lock of Redisson: for a minute, and longer than the lease.

call('SET', fence, struct.pack('<BI8c34c34B', 1, last, freed, broken, #breaker) .. breaker .. dead,
    'PX', 60000 + ttl)

-- SPDX-License-Identifier: Apache-2.0
-- Write the fence. It outlives the lease by the retention.

call('SET', fence, struct.pack('<BI8c34c34B', 1, last, freed, broken, #breaker) .. breaker .. dead,
    'PX', retention + ttl)

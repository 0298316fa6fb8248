-- SPDX-License-Identifier: Apache-2.0
-- Before "held by somebody else" is said: a write that changes nothing and is told to no replica. A server
-- that has become a replica refuses it; what it has may be old, and who waits would ask it on and on.
-- No lock and no fence has that name.

call('DEL', fence .. ':snib-fence')

-- Begins another history in a Redis that keeps what it has: after a failover or a restart, once it is known to be whole.
--
-- KEYS epoch, filler
-- ARGV
--   expected      the epoch that the caller has read; "" = there was none
--   next          generation|server
-- REPLY
--   begun
--   changed       the epoch is another by now, or a worker fills Redis
-- JOURNALS nothing

assert(#KEYS == 2 and #ARGV == 2, 'begin_history takes 2 keys and 2 arguments')
local epoch_key, filler_key, expected, next_epoch = KEYS[1], KEYS[2], ARGV[1], ARGV[2]

if redis.call('EXISTS', filler_key) == 1 then return { 'changed' } end
if (redis.call('GET', epoch_key) or '') ~= expected then return { 'changed' } end
redis.call('SET', epoch_key, next_epoch)
return { 'begun' }

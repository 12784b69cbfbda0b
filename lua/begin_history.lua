-- Begins another history in a Redis that keeps what it has: after a failover or a restart, once it is known to be whole.
--
-- KEYS epoch, filler, journal
-- ARGV
--   expected      the epoch that the caller has read; "" = there was none
--   next_epoch    generation|server
--   last_id       of the journal, as Postgres registered the history
-- REPLY
--   begun
--   changed       the epoch or the journal is another by now, or a worker fills Redis
-- JOURNALS nothing

--#include journal_tail

if redis.call('EXISTS', filler_key) == 1 then return { 'changed' } end
if (redis.call('GET', epoch_key) or '') ~= expected then return { 'changed' } end
if last_id_of(journal_key) ~= last_id then return { 'changed' } end
redis.call('SET', epoch_key, next_epoch)
return { 'begun' }

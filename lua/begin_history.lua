-- Begins a new history in a Redis that keeps its data, after a failover or a restart that lost nothing.
--
-- KEYS epoch, filler, journal
-- ARGV
--   expected      the epoch that the caller has read; "" = none
--   next_epoch    generation|server
--   last_id       of the journal, as Postgres registered the history
-- REPLY
--   begun
--   changed       the epoch or the journal has changed, or a worker fills Redis
-- JOURNALS nothing

--#include journal_tail

if redis.call('EXISTS', filler_key) == 1 then return { 'changed' } end
if (redis.call('GET', epoch_key) or '') ~= expected then return { 'changed' } end
if last_id_of(journal_key) ~= last_id then return { 'changed' } end
redis.call('SET', epoch_key, next_epoch)
return { 'begun' }

-- Takes Redis out of service and makes the caller the only worker that may fill it.
--
-- KEYS filler, epoch
-- ARGV
--   token         names this worker's attempt, and no other
-- REPLY
--   begun
-- JOURNALS nothing

redis.call('SET', filler_key, token, 'PX', 60000)
redis.call('UNLINK', epoch_key)
return { 'begun' }

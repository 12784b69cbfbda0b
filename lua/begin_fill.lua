-- Takes Redis out of service. From now on only the caller may fill it.
--
-- KEYS filler, epoch, format
-- ARGV
--   token         unique for this attempt of this worker
--   format        number of the stored formats
-- REPLY
--   begun
-- JOURNALS nothing

redis.call('SET', filler_key, token, 'PX', 60000)
redis.call('SET', format_key, format)
redis.call('UNLINK', epoch_key)
return { 'begun' }

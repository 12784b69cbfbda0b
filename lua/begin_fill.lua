-- Takes Redis out of service and makes the caller the only worker that may fill it.
--
-- KEYS filler, epoch
-- ARGV
--   token         names this worker's attempt, and no other
-- REPLY
--   begun
-- JOURNALS nothing

assert(#KEYS == 2 and #ARGV == 1, 'begin_fill takes 2 keys and 1 argument')
local filler_key, epoch_key, token = KEYS[1], KEYS[2], ARGV[1]

redis.call('SET', filler_key, token, 'PX', 60000)
redis.call('UNLINK', epoch_key)
return { 'begun' }

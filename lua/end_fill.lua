-- Puts a filled Redis into service: the history begins that the epoch names.
--
-- KEYS filler, epoch
-- ARGV
--   token         of begin_fill
--   epoch         generation|server
-- REPLY
--   ended
--   fenced        another worker fills Redis, or Redis is in service; nothing is written
-- JOURNALS nothing

--#include fence

if not may_fill(filler_key, epoch_key, token) then return { 'fenced' } end
redis.call('SET', epoch_key, epoch)
redis.call('UNLINK', filler_key)
return { 'ended' }

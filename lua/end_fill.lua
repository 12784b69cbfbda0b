-- Puts a filled Redis into service: the history begins that the epoch names.
--
-- KEYS filler, epoch
-- ARGV
--   token         of begin_fill
--   epoch         generation|server
-- REPLY
--   ended
--   fenced        another worker fills Redis, or no one does any more: nothing is written
-- JOURNALS nothing

--#include fence

assert(#KEYS == 2 and #ARGV == 2, 'end_fill takes 2 keys and 2 arguments')
local filler_key, epoch_key, token, epoch = KEYS[1], KEYS[2], ARGV[1], ARGV[2]

if not may_fill(filler_key, epoch_key, token) then return { 'fenced' } end
redis.call('SET', epoch_key, epoch)
redis.call('UNLINK', filler_key)
return { 'ended' }

-- Returns line numbers of a bucket at known ranks, from which the position of any user among all buckets is computed.
-- Only reads.
--
-- KEYS campaign, line, epoch
-- ARGV
--   exact:int     the first ranks of which each is returned, at most 1000
--   every:int     of the others each so many, at least 16
-- REPLY
--   places waiting last_line_no line_no...     waiting: users in the line; last_line_no: the highest number so far
--       line_no: those of the ranks 0 to exact - 1, exact + every - 1, exact + 2 * every - 1 and so on
--   not_found
--   rebuilding          Redis is empty and has not been filled yet
-- JOURNALS nothing

--#include campaign

assert(exact >= 1 and exact <= 1000 and every >= 16, 'too many ranks')

local known = redis.call('HMGET', campaign_key, 'no', 'last_line_no')
if not known[1] then return no_campaign(epoch_key) end
local waiting = redis.call('ZCARD', line_key)
local reply = { 'places', tostring(waiting), known[2] }
local first = redis.call('ZRANGE', line_key, 0, exact - 1, 'WITHSCORES')
for i = 2, #first, 2 do reply[#reply + 1] = first[i] end
for rank = exact + every - 1, waiting - 1, every do
  reply[#reply + 1] = redis.call('ZRANGE', line_key, rank, rank, 'WITHSCORES')[2]
end
return reply

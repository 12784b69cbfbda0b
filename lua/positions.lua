-- The places of many people at once, for the sockets of one process. Reads only; the caller bounds the number of users.
--
-- KEYS campaign, line, epoch
-- ARGV
--   user...       at most 1000
-- REPLY
--   positions waiting position...    one for each user in their order, 0 = not in the line
--   not_found
--   rebuilding          Redis is fresh and not filled yet
-- JOURNALS nothing

--#include campaign

assert(#KEYS == 3 and #ARGV <= 1000, 'positions takes 3 keys and at most 1000 users')
local epoch_key = KEYS[3]
local campaign_key, line_key = KEYS[1], KEYS[2]

local waiting = redis.call('HGET', campaign_key, 'waiting')
if not waiting then return no_campaign(epoch_key) end
local reply = { 'positions', waiting }
for i, user in ipairs(ARGV) do
  local rank = redis.call('ZRANK', line_key, user)
  reply[i + 2] = rank and tostring(rank + 1) or '0'
end
return reply

-- The places of many people at once, for the sockets of one process. Reads only; the caller bounds the number of users.
--
-- KEYS campaign, line, epoch
-- ARGV
--   user...       at most 1000
-- REPLY
--   positions waiting pace position...    one for each user in their order, 0 = not in the line
--                                         pace: ms for each person, "" = unknown
--   not_found
--   rebuilding          Redis is fresh and not filled yet
-- JOURNALS nothing

--#include clock
--#include campaign
--#include pace
--#include presence

assert(#KEYS == 3 and #ARGV <= 1000, 'positions takes 3 keys and at most 1000 users')
local epoch_key = KEYS[3]
local campaign_key, line_key = KEYS[1], KEYS[2]

local waiting = redis.call('HGET', campaign_key, 'waiting')
if not waiting then return no_campaign(epoch_key) end
local away_known = redis.call('HGET', campaign_key, 'presence_ms') ~= '0'
local reply = { 'positions', waiting, pace_of(campaign_key, now_ms()) }
for i, user in ipairs(ARGV) do
  local rank, score = redis.call('ZRANK', line_key, user), '0'
  -- Somebody who stepped back has the place that he would come back to; few are asked for who did.
  if rank and away_known then score = redis.call('ZSCORE', line_key, user) end
  if rank and is_away(score) then
    rank = redis.call('ZCOUNT', line_key, '-inf', '(' .. string.format('%.0f', tonumber(score) - away))
  end
  reply[i + 3] = rank and tostring(rank + 1) or '0'
end
return reply

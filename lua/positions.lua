-- Returns the positions of several users, for the sockets of one process. Only reads; the caller bounds the number of
-- users.
--
-- KEYS campaign, line, epoch
-- EACH (at most 1000)
--   user
-- REPLY
--   positions queue_size pace_ms position...    one for each user in their order, 0 = not in the line; in a bucket: the
--                                         line number
--                                         pace_ms: between two promotions, "" = unknown
--   not_found
--   rebuilding          Redis is empty and has not been filled yet
-- JOURNALS nothing

--#include clock
--#include campaign
--#include pace
--#include presence

local c = read_campaign(campaign_key)
if not c then return no_campaign(epoch_key) end
local away_known = c.presence_ms ~= 0
local reply = { 'positions', tostring(c.waiting), pace_of(campaign_key, now_ms()) }
for i, user in ipairs(each_user) do
  local rank, score = redis.call('ZRANK', line_key, user), '0'
  -- A demoted user has the position that they would get back. Such users are few.
  if rank and away_known then score = redis.call('ZSCORE', line_key, user) end
  if rank and is_away(score) then
    rank = redis.call('ZCOUNT', line_key, '-inf', '(' .. string.format('%.0f', tonumber(score) - away))
  end
  if rank and c.bucket then reply[i + 3] = redis.call('ZSCORE', line_key, user)
  else reply[i + 3] = rank and tostring(rank + 1) or '0' end
end
return reply

-- Records heartbeats of waiting users. A demoted user gets their position back. Only for campaigns with
-- `presence_seconds`; users who are not in the line are ignored.
--
-- KEYS campaign, line, presence, epoch
-- EACH (at most 1000)
--   user
--   age_ms:int    time since the user was seen
-- REPLY
--   attended returned    number of users who got their position back
--   not_found
--   rebuilding          Redis is empty and has not been filled yet
-- JOURNALS nothing: after a loss of Redis all users count as seen

--#include clock
--#include campaign
--#include presence

local c = read_campaign(campaign_key)
if not c then return no_campaign(epoch_key) end
if c.presence_ms == 0 or #each_user == 0 then return { 'attended', '0' } end
local now, users, seen_at = now_ms(), {}, {}
for i, user in ipairs(each_user) do
  local seen = now - each_age_ms[i]
  if seen > now - c.presence_ms then
    table.insert(users, user)
    table.insert(seen_at, seen)
  end
end
local scores = #users > 0 and redis.call('ZMSCORE', line_key, unpack(users)) or {}
local back, returned = {}, 0
for i, score in ipairs(scores) do
  back[i] = score and is_away(score) and number_in(score)
  if back[i] then returned = returned + 1 end
end

for i, user in ipairs(users) do
  if back[i] then
    redis.call('ZADD', line_key, back[i], user)
    redis.call('ZADD', presence_key, seen_at[i], user)
  elseif scores[i] then
    redis.call('ZADD', presence_key, 'GT', seen_at[i], user)
  end
end
return { 'attended', tostring(returned) }

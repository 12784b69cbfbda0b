-- Those who wait and were just seen, by their socket or their question, stay where they are, or come back to their place.
-- For campaigns with `presence_seconds`; who is not in the line is left alone.
--
-- KEYS campaign, line, presence, epoch
-- ARGV
--   user age_ms...      at most 1000 people, and how long ago each was seen
-- REPLY
--   attended returned    how many came back to their place
--   not_found
--   rebuilding          Redis is fresh and not filled yet
-- JOURNALS nothing: after a loss of Redis everybody counts as seen

--#include clock
--#include campaign
--#include presence

assert(#KEYS == 4 and #ARGV <= 2000, 'attend takes 4 keys and at most 2000 arguments')
local epoch_key = KEYS[4]
local campaign_key, line_key, presence_key = KEYS[1], KEYS[2], KEYS[3]

local presence_ms = redis.call('HGET', campaign_key, 'presence_ms')
if not presence_ms then return no_campaign(epoch_key) end
presence_ms = tonumber(presence_ms)
local returned = 0
if presence_ms == 0 then return { 'attended', '0' } end
local now = now_ms()
for i = 1, #ARGV, 2 do
  local user, seen = ARGV[i], now - tonumber(ARGV[i + 1])
  local score = seen > now - presence_ms and redis.call('ZSCORE', line_key, user)
  if score and is_away(score) then
    come_back(line_key, presence_key, user, seen)
    returned = returned + 1
  elseif score then
    redis.call('ZADD', presence_key, 'GT', seen, user)
  end
end
return { 'attended', tostring(returned) }

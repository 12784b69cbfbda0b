-- Replaces the terms of a campaign. Its stock, line and status stay. Terms have a version, so that two writers in the
-- wrong order cannot restore old terms.
--
-- KEYS campaign, epoch
-- ARGV
--   version:int          of the terms
--   terms starts_at details    as for load_campaign
--   per_user_limit:int velocity    in `terms` too
-- REPLY
--   amended
--   known version        Redis has these terms or newer ones
--   refused per_user_limit     the new limit is below this one and the campaign is not a draft; users may have used it
--   not_found
--   rebuilding          Redis is empty and has not been filled yet
-- JOURNALS nothing: Postgres has the terms before Redis does

--#include clock
--#include campaign

-- Returns the former terms and the present ones, which end now, the latest first, as many as shared/domain/campaign.ts
-- says. A Postgres that was set back gets them from here.
local FORMER_KEPT = 20
local function former_terms(now)
  local v = redis.call('HMGET', campaign_key, 'terms', 'starts_at', 'details', 'former')
  local former = v[4] and cjson.decode(v[4]) or {}
  table.insert(former, 1, { v[1], v[2], v[3], now })
  former[FORMER_KEPT + 1] = nil
  return cjson.encode(former)
end

local c = read_campaign(campaign_key)
if not c then return no_campaign(epoch_key) end
if c.version >= version then return { 'known', c.version_text } end
if c.status ~= 'draft' and per_user_limit < c.per_user_limit then return { 'refused', tostring(c.per_user_limit) } end
-- An opening that is moved to now, and users who are counted from now on: there is nothing usual yet
-- (includes/velocity.lua).
local now = now_ms()
local now_text = string.format('%d', now)
local is_moved = c.starts_at > now and tonumber(starts_at) <= now
local is_watched = velocity ~= 'off' and c.velocity == 'off'
local former = former_terms(now)
if is_moved or is_watched then redis.call('HSET', campaign_key, 'counted_since', now_text) end
redis.call('HSET', campaign_key, 'terms', terms, 'starts_at', starts_at, 'details', details, 'former', former)
return { 'amended' }

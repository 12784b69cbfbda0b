-- Replaces the terms of a campaign. Its stock, line and status stay. Terms have a version, so that two writers in the
-- wrong order cannot restore old terms.
--
-- KEYS campaign, epoch
-- ARGV
--   version:int   of the terms
-- EACH (at most 40)
--   field value   as for load_campaign
-- REPLY
--   amended
--   known version        Redis has these terms or newer ones
--   refused per_user_limit     the new limit is below this one and the campaign is not a draft; users may have used it
--   not_found
--   rebuilding          Redis is empty and has not been filled yet
-- JOURNALS nothing: Postgres has the terms before Redis does

--#include clock
--#include campaign
--#include terms

local known = redis.call('HMGET', campaign_key, 'version', 'status', 'per_user_limit', 'type', 'starts_at', 'velocity')
if not known[1] then return no_campaign(epoch_key) end
local terms, written = new_terms(version, known[4], each_field, each_value)
if tonumber(known[1]) >= version then return { 'known', known[1] } end
if known[2] ~= 'draft' and tonumber(terms.per_user_limit) < tonumber(known[3]) then return { 'refused', known[3] } end
-- An opening that is moved to now, and users who are counted from now on: there is nothing usual yet
-- (includes/velocity.lua).
local now = now_ms()
local is_moved = tonumber(known[5] or 0) > now and tonumber(terms.starts_at) <= now
local is_watched = terms.velocity ~= 'off' and (known[6] or 'off') == 'off'
if is_moved or is_watched then
  table.insert(written, 'counted_since')
  table.insert(written, string.format('%d', now))
end
redis.call('HSET', campaign_key, unpack(written))
return { 'amended' }

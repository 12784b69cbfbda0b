-- More codes of a campaign can be used from here on. Postgres has them already.
--
-- KEYS campaign, epoch
-- ARGV
--   codes:int     how many it has in all; a smaller number than is known changes nothing
-- REPLY
--   added
--   not_found
--   rebuilding          Redis is fresh and not filled yet
-- JOURNALS nothing: Postgres has them before Redis does

--#include campaign

local known = redis.call('HGET', campaign_key, 'codes')
if not known then return no_campaign(epoch_key) end
if codes > tonumber(known) then redis.call('HSET', campaign_key, 'codes', codes) end
return { 'added' }

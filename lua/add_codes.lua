-- Raises the number of codes that a campaign has. Postgres has the codes already.
--
-- KEYS campaign, epoch
-- ARGV
--   codes:int     total number of codes; a number below the current one changes nothing
-- REPLY
--   added
--   not_found
--   rebuilding          Redis is empty and has not been filled yet
-- JOURNALS nothing: Postgres has them before Redis does

--#include campaign

local known = redis.call('HGET', campaign_key, 'codes')
if not known then return no_campaign(epoch_key) end
if codes > tonumber(known) then redis.call('HSET', campaign_key, 'codes', codes) end
return { 'added' }

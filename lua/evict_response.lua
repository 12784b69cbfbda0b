-- Evicts one idempotency record of an archived campaign. Postgres has it, and it is restored when the user repeats the
-- request. A key that has a record of another campaign stays, because a restored record would not replace that one.
--
-- KEYS campaign, idempotency, epoch
-- ARGV
--   up_to         progress of the eviction, for the worker that continues it; "" = unchanged
-- REPLY
--   forgotten removed    removed 0|1
--   not_archived
--   not_found
--   rebuilding          Redis is empty and has not been filled yet
-- JOURNALS nothing

--#include campaign
--#include responses

local known = redis.call('HMGET', campaign_key, 'no', 'archived')
if not known[1] then return no_campaign(epoch_key) end
if not known[2] then return { 'not_archived' } end
local its = known[1] .. '|'
local remembered = redis.call('GET', idempotency_key)
local removed = remembered and other_records(remembered, its) == ''
if removed then redis.call('UNLINK', idempotency_key) end
if up_to ~= '' then redis.call('HSET', campaign_key, 'forgotten', up_to) end
return { 'forgotten', removed and '1' or '0' }

-- The remembered answer to one idempotency key of an archived campaign leaves Redis: Postgres has it, and it is recalled for
-- whoever asks again. A key that belongs to another campaign by now stays.
--
-- KEYS campaign, idempotency, epoch
-- ARGV
--   up_to         how far the answers of the campaign are forgotten with this one; kept for whoever goes on. "" = say nothing
-- REPLY
--   forgotten removed    removed 0|1
--   not_archived
--   not_found
--   rebuilding          Redis is fresh and not filled yet
-- JOURNALS nothing

--#include campaign

local known = redis.call('HMGET', campaign_key, 'no', 'archived')
if not known[1] then return no_campaign(epoch_key) end
if not known[2] then return { 'not_archived' } end
local its = known[1] .. '|'
local remembered = redis.call('GET', idempotency_key)
local removed = remembered and string.sub(remembered, 1, #its) == its
if removed then redis.call('UNLINK', idempotency_key) end
if up_to ~= '' then redis.call('HSET', campaign_key, 'forgotten', up_to) end
return { 'forgotten', removed and '1' or '0' }

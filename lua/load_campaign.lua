-- Writes a campaign to Redis before its first shopper arrives. Never overwrites an existing campaign: a repeated admin
-- call or a second worker must not reset stock and buyers.
--
-- KEYS campaign, directory, displaced, filler, epoch
-- ARGV
--   no                   the campaign's number
--   product_id
--   terms                version and terms, packed (includes/campaign.lua)
--   starts_at            ms
--   details              JSON
--   status               draft | scheduled | open | paused | closed
--   codes                number of codes; codes are numbered from 1
--   total:int            units; -1 = unlimited
--   held:int redeemed:int burned:int waiting last_line_no    0 for a new campaign, else the counters of Postgres
--   archived             name of the pass when only the hash is written (lua/archive.lua); "" = Redis has the records
--   promised             reservations of an archived campaign
--   token                of the worker that fills Redis; "" = Redis is in service
--   stage                of a bucket: open or sealed; 0 = the campaign is not divided
--   moved_out arrived    transfers of a bucket: the number of the last one that left it, and as JSON for each other
--                        bucket the number of the last one that arrived from there
--   gave                 the transfers that the bucket gave last (includes/given.lua)
--   own_codes            codes of a bucket of a pool (includes/bucket_codes.lua)
--   former               former terms, as JSON (update_terms.lua); "" = there are none
-- REPLY
--   loaded
--   known version        it exists already, with this version of the terms
--   fenced               another worker fills Redis, or Redis is in service
--   rebuilding           Redis is empty and has not been filled yet
-- JOURNALS nothing

--#include clock
--#include fence
--#include campaign

if token ~= '' and not may_fill(filler_key, epoch_key, token) then return { 'fenced' } end
if token == '' and redis.call('EXISTS', epoch_key) == 0 then return { 'rebuilding' } end
local known = read_campaign(campaign_key)
if known then return { 'known', known.version_text } end
-- Numbers come from Postgres, which gives one again after it was set back. The directory has one campaign for each.
local earlier = redis.call('HGET', directory_key, no)
local free = total == -1 and 0 or total - held - redeemed - burned
assert(free >= 0, 'more is taken than there is')
-- The closing time is unknown, so the grace period begins now.
local now = now_ms()
local closed_at = status == 'closed' and archived == '' and now
redis.call('HSET', campaign_key, 'no', no, 'status', status, 'codes', codes, 'code_hint', 0, 'spent', stage,
  'total', total, 'free', free, 'held', held, 'redeemed', redeemed, 'burned', burned,
  'waiting', waiting, 'last_line_no', last_line_no, 'counted_since', now,
  'terms', terms, 'starts_at', starts_at, 'details', details)
if stage ~= '0' then
  redis.call('HSET', campaign_key, 'moved_out', moved_out, 'arrived', arrived, 'gave', gave, 'own_codes', own_codes)
end
if former ~= '' then redis.call('HSET', campaign_key, 'former', former) end
if archived ~= '' then
  redis.call('HSET', campaign_key, 'archived', archived, 'promised', promised, 'forgotten', 'done')
end
if closed_at then redis.call('HSET', campaign_key, 'closed_at', closed_at) end
-- Redis may have lost which one-time tokens were used before (lua/reserve.lua).
if token ~= '' then redis.call('HSET', campaign_key, 'restored_at', now) end
if earlier and earlier ~= product_id then redis.call('SADD', displaced_key, earlier) end
redis.call('HSET', directory_key, no, product_id)
return { 'loaded' }

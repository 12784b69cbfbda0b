-- Raises the number of codes that a campaign has. Postgres has the codes already. The new codes of a pool with several
-- buckets divide themselves by their numbers (includes/bucket_codes.lua).
--
-- KEYS campaign, codes, epoch
-- ARGV
--   codes:int     total number of codes; a number below the current one changes nothing
--   buckets:int   of the campaign
-- REPLY
--   added
--   not_found
--   rebuilding          Redis is empty and has not been filled yet
-- JOURNALS nothing: Postgres has them before Redis does

--#include campaign
--#include bucket_codes

local known = redis.call('HMGET', campaign_key, 'codes', 'no', 'own_codes')
if not known[1] then return no_campaign(epoch_key) end
local before = tonumber(known[1])
if codes <= before then return { 'added' } end
if buckets == 1 then
  redis.call('HSET', campaign_key, 'codes', codes)
  return { 'added' }
end
local bucket = bucket_of(tonumber(known[2]))
local bits, offset, pattern = foreign_codes(before, codes, bucket, buckets)
local own = tonumber(known[3] or 0) + home_codes(codes, bucket, buckets) - home_codes(before, bucket, buckets)
for _, bit in ipairs(bits) do redis.call('SETBIT', codes_key, bit, 1) end
if pattern ~= '' then redis.call('SETRANGE', codes_key, offset, pattern) end
redis.call('HSET', campaign_key, 'codes', codes, 'own_codes', own)
return { 'added' }

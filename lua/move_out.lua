-- Takes free units and unused codes out of a bucket, for another bucket of the campaign. They arrive there (`move_in`)
-- once Postgres has committed the entry. Units and codes need not come in equal numbers, and one of them may be 0.
--
-- KEYS campaign, codes, journal, news, epoch
-- ARGV
--   to            the other bucket
--   units:int     free units
--   codes:int     unused codes, the lowest ones; 0 unless the campaign is a pool
--   arrived:int   number of a transfer of this bucket: it and all before it have arrived; 0 = the caller has not looked
-- REPLY
--   moved out_no entry...     out_no: number of the transfer in this bucket
--       entry: each appended journal entry as JSON (lua/README.md)
--   short free                fewer units are free, or fewer codes are unused; free: units
--   full                      too many transfers may be on their way; the caller looks which have arrived and repeats
--   undivided                 the campaign has no buckets, or no limit
--   not_found
--   rebuilding                Redis is empty and has not been filled yet
-- JOURNALS moved_out

--#include clock
--#include generation
--#include records
--#include campaign
--#include codes
--#include bucket_codes
--#include pace
--#include news
--#include plan
--#include given

assert(units >= 0 and codes >= 0 and units + codes >= 1, 'a transfer has at least one unit or code')

local c = read_campaign(campaign_key)
if not c then return no_campaign(epoch_key) end
local generation = generation_of(epoch_key)
if not generation then return { 'rebuilding' } end
if not c.bucket or c.unlimited then return { 'undivided' } end
if c.free < units then return { 'short', tostring(c.free) } end
local numbers = codes > 0 and lowest_codes(codes_key, c, codes) or {}
if #numbers < codes then return { 'short', tostring(c.free) } end
local known = redis.call('HMGET', campaign_key, 'moved_out', 'own_codes', 'gave')
local gave = given_transfers(known[3], arrived)
if not gave then return { 'full' } end
local out_no = tonumber(known[1] or 0) + 1
local now = now_ms()
local plan = new_plan(c, keys, generation, now)
c.total, c.free = c.total - units, c.free - units
plan.fields.moved_out = out_no
table.insert(gave, given_transfer(out_no, to, units, numbers))
plan.fields.gave = cjson.encode(gave)
local entry = add_entry(plan, nil, 'kind', 'moved_out', 'no', c.no, 'at', now, 'to', to, 'units', units, 'out', out_no)
if codes > 0 then
  for _, number in ipairs(numbers) do plan.codes[number] = true end
  plan.fields.own_codes = tonumber(known[2] or 0) - codes
  table.insert(entry.fields, 'codes')
  table.insert(entry.fields, table.concat(numbers, ','))
end
return (apply(plan, { 'moved', tostring(out_no) }))

-- Puts units and codes into a bucket that have left another bucket of the campaign (`move_out`). The caller has seen in
-- Postgres that they left. It moves the transfers from one bucket to another in their order, so a number that is not
-- above the last one has arrived already, and a repetition changes nothing.
--
-- KEYS campaign, codes, journal, news, epoch
-- ARGV
--   from          the other bucket
--   out_no:int    number of the transfer there
--   units:int     of the transfer
--   codes         of the transfer: numbers with commas between them, "" = none
-- REPLY
--   moved entry...     entry: each appended journal entry as JSON (lua/README.md); none when they had arrived
--   unknown_codes highest     the bucket does not know yet that the campaign has codes up to this number (`add_codes`)
--   undivided          the campaign has no buckets, or no limit
--   not_found
--   rebuilding         Redis is empty and has not been filled yet
-- JOURNALS moved_in

--#include clock
--#include generation
--#include records
--#include campaign
--#include codes
--#include pace
--#include news
--#include plan

local c = read_campaign(campaign_key)
if not c then return no_campaign(epoch_key) end
local generation = generation_of(epoch_key)
if not generation then return { 'rebuilding' } end
if not c.bucket or c.unlimited then return { 'undivided' } end
local arrived = cjson.decode(redis.call('HGET', campaign_key, 'arrived') or '{}')
if out_no <= (arrived[from] or 0) then return { 'moved' } end
local numbers, highest = {}, 0
for number in string.gmatch(codes, '%d+') do
  numbers[#numbers + 1] = tonumber(number)
  highest = math.max(highest, tonumber(number))
end
-- Codes that become known later are marked as those of their homes, so the bucket must know of these first.
if highest > c.codes then return { 'unknown_codes', tostring(highest) } end
local own = #numbers > 0 and tonumber(redis.call('HGET', campaign_key, 'own_codes') or 0)
local now = now_ms()
local plan = new_plan(c, keys, generation, now)
for _, number in ipairs(numbers) do plan.codes[number] = false end
if own then plan.fields.own_codes = own + #numbers end
arrived[from] = out_no
c.total, c.free = c.total + units, c.free + units
plan.fields.arrived = cjson.encode(arrived)
add_entry(plan, nil, 'kind', 'moved_in', 'no', c.no, 'at', now, 'from', from, 'units', units, 'out', out_no)
return (apply(plan, { 'moved' }))

-- Restores the records of one user of an archived campaign from Postgres, all at once, so that the script that missed
-- them can decide. Existing records stay as they are.
--
-- KEYS campaign, people, reservations, epoch, payments
-- ARGV
--   archived      the pass that the caller received before it read Postgres
--   user
--   person        the user's packed record
-- EACH (at most 10000)
--   reservation_id
--   record        the user's reservation, packed
--   references    of its payments (includes/payments.lua), "" = none
-- REPLY
--   recalled
--   late          the campaign has another pass, or none: the records may be outdated, and nothing is written
--   not_found
--   rebuilding          Redis is empty and has not been filled yet
-- JOURNALS nothing: Postgres has the records

--#include clock
--#include campaign

local c = read_campaign(campaign_key)
if not c then return no_campaign(epoch_key) end
if c.archived ~= archived then return { 'late' } end
local now, lacking = now_ms(), {}
local lacks_person = redis.call('HEXISTS', people_key, user) == 0
for i, id in ipairs(each_reservation_id) do
  if redis.call('HEXISTS', reservations_key, id) == 0 then table.insert(lacking, i) end
end

if lacks_person then redis.call('HSET', people_key, user, person) end
for _, i in ipairs(lacking) do
  redis.call('HSET', reservations_key, each_reservation_id[i], each_record[i])
  if each_references[i] ~= '' then redis.call('HSET', payments_key, each_reservation_id[i], each_references[i]) end
end
if lacks_person or lacking[1] then redis.call('HSETNX', campaign_key, 'recalled_at', now) end
return { 'recalled' }

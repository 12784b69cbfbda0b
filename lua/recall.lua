-- Somebody comes back to an archived campaign: what Postgres has of him is in Redis again, all of it at once, and the script
-- that missed it decides as ever. Whatever is there already stays as it is.
--
-- KEYS campaign, people, reservations, epoch, payments
-- ARGV
--   archived      the pass that the caller was told of before he read Postgres
--   user
--   person        his packed record
--   reservation record references...    each of his, packed, with the references of its payments (includes/payments.lua), "" =
--                 none; at most 10000
-- REPLY
--   recalled
--   late          another pass was made since, or none: what the caller has read may be old, and nothing is written
--   not_found
--   rebuilding          Redis is fresh and not filled yet
-- JOURNALS nothing: it is in Postgres

--#include clock
--#include campaign

assert(#KEYS == 5 and #ARGV <= 30003, 'recall takes 5 keys and at most 30003 arguments')
local campaign_key, people_key, reservations_key, epoch_key = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local payments_key = KEYS[5]
local archived, user, person = ARGV[1], ARGV[2], ARGV[3]
local first_reservation = 4

local c = read_campaign(campaign_key)
if not c then return no_campaign(epoch_key) end
if c.archived ~= archived then return { 'late' } end
local now, lacking = now_ms(), {}
local lacks_person = redis.call('HEXISTS', people_key, user) == 0
for i = first_reservation, #ARGV, 3 do
  if redis.call('HEXISTS', reservations_key, ARGV[i]) == 0 then table.insert(lacking, { ARGV[i], ARGV[i + 1], ARGV[i + 2] }) end
end

if lacks_person then redis.call('HSET', people_key, user, person) end
for _, reservation in ipairs(lacking) do
  redis.call('HSET', reservations_key, reservation[1], reservation[2])
  if reservation[3] ~= '' then redis.call('HSET', payments_key, reservation[1], reservation[3]) end
end
if lacks_person or lacking[1] then redis.call('HSETNX', campaign_key, 'recalled_at', now) end
return { 'recalled' }

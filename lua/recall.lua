-- Somebody comes back to an archived campaign: what Postgres has of him is in Redis again, all of it at once, and the script
-- that missed it decides as ever. Whatever is there already stays as it is.
--
-- KEYS campaign, people, reservations, epoch
-- ARGV
--   archived      the pass that the caller was told of before he read Postgres
--   user
--   person        his packed record
--   reservation record...    each of his, packed; at most 10000
-- REPLY
--   recalled
--   late          another pass was made since, or none: what the caller has read may be old, and nothing is written
--   not_found
--   rebuilding          Redis is fresh and not filled yet
-- JOURNALS nothing: it is in Postgres

--#include clock
--#include campaign

assert(#KEYS == 4 and #ARGV <= 20003, 'recall takes 4 keys and at most 20003 arguments')
local campaign_key, people_key, reservations_key, epoch_key = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local archived, user, person = ARGV[1], ARGV[2], ARGV[3]
local first_reservation = 4

local c = read_campaign(campaign_key)
if not c then return no_campaign(epoch_key) end
if c.archived ~= archived then return { 'late' } end
local written = redis.call('HSETNX', people_key, user, person)
for i = first_reservation, #ARGV, 2 do
  written = written + redis.call('HSETNX', reservations_key, ARGV[i], ARGV[i + 1])
end
if written > 0 then redis.call('HSETNX', campaign_key, 'recalled_at', now_ms()) end
return { 'recalled' }

-- Returns the stock of a bucket and the first users in its line, for the rounds that assign free units to the lowest
-- line numbers of all buckets. Only reads.
--
-- KEYS campaign, people, line, codes, epoch
-- ARGV
--   limit:int     users in the reply, at most 1000
-- REPLY
--   heads stage status total free held waiting unused own codes line_no qty...     stage: open, sealed or spent; status
--       of the campaign as this bucket has it; of a pool, else "": unused: codes that the bucket can give, exact up to
--       2000; own: its codes, used ones included; codes: those of the campaign; the last two for each user, in the order of the line; qty 0: the record of the user is
--       malformed or does not wait
--   undivided          the campaign has no buckets, or no limit
--   not_found
--   rebuilding         Redis is empty and has not been filled yet
-- JOURNALS nothing

--#include records
--#include campaign
--#include bucket_codes

assert(limit >= 0 and limit <= 1000, 'limit must be from 0 to 1000')

local c = read_campaign(campaign_key)
if not c then return no_campaign(epoch_key) end
if not c.bucket or c.unlimited then return { 'undivided' } end
local reply = { 'heads', c.bucket, c.status, tostring(c.total), tostring(c.free), tostring(c.held), tostring(c.waiting),
  '', '', '' }
if c.type == 'pool' then
  reply[8], reply[9] = tostring(unused_codes(codes_key, c)), redis.call('HGET', campaign_key, 'own_codes') or '0'
  reply[10] = tostring(c.codes)
end
local places = limit > 0 and redis.call('ZRANGE', line_key, 0, limit - 1, 'WITHSCORES') or {}
local users = {}
for i = 1, #places, 2 do users[#users + 1] = places[i] end
local people = users[1] and redis.call('HMGET', people_key, unpack(users)) or {}
for i = 1, #users do
  local person = person_in(people[i])
  reply[#reply + 1] = places[2 * i]
  reply[#reply + 1] = person and person.state == 'queued' and tostring(person.qty) or '0'
end
return reply

-- Replaces the id of a user by a pseudonym in the records of a campaign (decision 56). Units, slots and counters stay
-- as they are. All journal entries about the user must be in Postgres, where the caller has replaced the id before: a
-- user without a record here may claim again, and no row of theirs may be left that takes the same allowance.
--
-- KEYS campaign, people, reservations, line, holders, epoch
-- ARGV
--   user
--   pseudonym     a new one
--   check:flag    only returns whether the user could be erased, with 0 records
--   pass          unique end of the name of the next pass of an archived campaign, so that a recall that has read the id
--                 writes nothing
-- EACH (at most 10000)
--   reservation_id   a reservation of the user, as Postgres has it
-- REPLY
--   erased records   how many records had the id
--   active state reservation_id   waiting, or held: an unpaid unit, or one that Postgres does not have yet; nothing is
--       changed
--   taken            the pseudonym has a record, and so has the user: they came back
--   not_found
--   rebuilding          Redis is empty and has not been filled yet
-- JOURNALS nothing: no promise changes

--#include clock
--#include records
--#include campaign

assert(user ~= '' and user ~= pseudonym, 'a user needs another pseudonym')

local c = read_campaign(campaign_key)
if not c then return no_campaign(epoch_key) end
local person = unpack_person(redis.call('HGET', people_key, user))
if person.state == 'queued' and redis.call('ZSCORE', line_key, user) then return { 'active', 'waiting', '' } end
if person.state ~= 'new' and redis.call('HEXISTS', people_key, pseudonym) == 1 then return { 'taken' } end

local changed, packed, seen, listed = {}, {}, {}, {}
for _, id in ipairs(each_reservation_id) do listed[id] = true end
local function look_at(id)
  local text = id ~= '' and not seen[id] and redis.call('HGET', reservations_key, id)
  seen[id] = true
  local r = text and unpack_reservation(text)
  if not r or r.user ~= user then return nil end
  if r.state == 'reserved' or not listed[id] then return { 'active', 'held', id } end
  r.user = pseudonym
  table.insert(changed, id)
  table.insert(packed, reservation_text(r))
  return nil
end
local active = look_at(person.reservation_id)
for _, id in ipairs(each_reservation_id) do active = active or look_at(id) end
if active then return active end
if check then return { 'erased', '0' } end
local known = person.state ~= 'new' and person_text(person) or nil
-- It begins as before, because that says what Postgres must have for a recall (shared/sale/recall.ts).
local next_pass = c.archived and c.archived ~= 'lost' and string.match(c.archived, '^[^@]*') .. '@' .. pass
local reply = { 'erased', tostring(#changed + (known and 1 or 0)) }

for i, id in ipairs(changed) do redis.call('HSET', reservations_key, id, packed[i]) end
if known then redis.call('HSET', people_key, pseudonym, known) end
redis.call('HDEL', people_key, user)
redis.call('HDEL', holders_key, user)
if next_pass then redis.call('HSET', campaign_key, 'archived', next_pass) end
return reply

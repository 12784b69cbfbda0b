-- Reads what Redis has of a promise that a response acknowledges again, with the last id of the journal: no entry of
-- the promise is later. The caller keeps it until Postgres has committed that entry
-- (docs/decisions/0070-replays-are-kept.md).
--
-- KEYS campaign, people, reservations, line, payments, journal, epoch
-- ARGV
--   reservation_id   of the reservation or the place; "" = the last one of the user
--   user             "" = unknown, then only a reservation is found
-- REPLY
--   reservation no at_ms last_id reservation record stacking payments
--       record: as packed; stacking: how it takes part in its order, "" = it does not; payments: JSON of the references,
--       "" = none; [] marks a reservation whose deadline was extended
--   place no at_ms last_id reservation record stacking is_waiting
--       record: of the user, as packed; is_waiting 0|1: whether the user is in the line
--   none                Redis has neither: the campaign is archived, or the user has another place by now
--   not_found
--   rebuilding          Redis is empty and has not been filled yet
-- JOURNALS nothing

--#include clock
--#include records
--#include campaign
--#include orders
--#include journal_tail

local c = read_campaign(campaign_key)
if not c then return no_campaign(epoch_key) end

local function stacking_of(id, order_id)
  return takes_part(c, order_id == '' or order_id == order_id_of(id)) and c.stacking or ''
end

local function reservation_reply(id, record)
  local stacking = stacking_of(id, unpack_reservation(record).order_id)
  return { 'reservation', c.no_text, string.format('%d', now_ms()), last_id_of(journal_key), id, record, stacking,
    redis.call('HGET', payments_key, id) or '' }
end

local record = reservation_id ~= '' and redis.call('HGET', reservations_key, reservation_id)
if record then return reservation_reply(reservation_id, record) end
local text = user ~= '' and redis.call('HGET', people_key, user)
if not text then return { 'none' } end
local person = unpack_person(text)
local id = person.reservation_id
if reservation_id ~= '' and reservation_id ~= id then return { 'none' } end
record = redis.call('HGET', reservations_key, id)
if record then return reservation_reply(id, record) end
if person.state == 'held' then return { 'none' } end
local waiting = person.state == 'queued' and redis.call('ZSCORE', line_key, user)
return { 'place', c.no_text, string.format('%d', now_ms()), last_id_of(journal_key), id, text,
  stacking_of(id, person.order_id), waiting and '1' or '0' }

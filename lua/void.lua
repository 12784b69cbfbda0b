-- Voids a reservation that Postgres has rejected: any active state to VOIDED. If Postgres has another reservation for
-- the same allowance, the unit exists and goes to the head of the line, else to stock. If Postgres has reached the cap,
-- the unit never existed and is removed from the total.
--
-- KEYS campaign, people, reservations, deadlines, line, presence, codes, journal, news, epoch
-- ARGV
--   reservation_id
--   unit          returns | never_existed | code_used (returns, but its code belongs to another row in Postgres)
--   reason        why Postgres has rejected it
-- REPLY
--   voided entry...     the same for each repetition, which appends no entry
--       entry: each appended journal entry as JSON (lua/README.md)
--   not_active state    released, expired, refunded or burned: it has no unit to return
--   archived pass     the campaign is archived and Redis lacks the record; Postgres may have it
--   not_found
--   rebuilding          Redis is empty and has not been filled yet
-- JOURNALS voided, reserved (the next in line), left (users in line who cannot be served)

--#include clock
--#include generation
--#include records
--#include campaign
--#include codes
--#include journal
--#include pace
--#include presence
--#include news
--#include plan
--#include places
--#include promote_head

local c = read_campaign(campaign_key)
if not c then return no_campaign(epoch_key) end
local generation = generation_of(epoch_key)
if not generation then return { 'rebuilding' } end
local text = redis.call('HGET', keys.reservations, reservation_id)
if not text and c.archived then return { 'archived', c.archived } end
if not text then return { 'not_found' } end
local reservation = unpack_reservation(text)
if reservation.state == 'voided' then return { 'voided' } end
local active = reservation.state == 'reserved' or reservation.state == 'redeemed' or reservation.state == 'reacquired'
if not active then return { 'not_active', reservation.state } end

local plan = new_plan(c, keys, generation, now_ms())
-- Postgres counts no burned unit of a voided row, so units that were burned in part end with the reservation.
local _, _, burned = reduced_of(reservation)
if burned > 0 then
  c.burned, c.redeemed = c.burned - burned, c.redeemed + burned
  reservation.qty = reservation.qty + burned
end
if unit == 'never_existed' and not c.unlimited then
  c.total = c.total - reservation.qty
  -- The total of Postgres keeps it. A Redis that is filled from Postgres begins with that total and without the field.
  plan.fields.refused = tonumber(redis.call('HGET', campaign_key, 'refused') or 0) + reservation.qty
  -- return_units adds the unit to free and promotes the head. Removed from free first, the unit promotes no user.
  c.free = c.free - reservation.qty
end
-- Without its code, so that the code stays used.
if unit == 'code_used' then
  reservation.code = ''
  reservation.packed = reservation_text(reservation)
end
return_units(plan, reservation_id, reservation, 'voided', 'reason', reason, 'trace', '')
table.insert(plan.news, 'voided|' .. reservation.user .. '|' .. reservation_id .. '|' .. reservation.order_id .. '|0')
return apply(plan, { 'voided' })

-- Repairs a promise that Redis has and Postgres lacks, when its journal entry is gone. Appends the entry again, so that
-- Postgres accepts or rejects it in the usual way. Only the ledger calls it; no record in Redis changes.
--
-- KEYS campaign, reservations, journal, epoch
-- ARGV
--   reservation_id
--   row           missing | reserved | more_units (in the state of the record): the row in Postgres
-- REPLY
--   rejournaled entries   0 when Postgres lacks nothing
--   archived pass     the campaign is archived and Redis lacks the record; Postgres may have it
--   not_found
--   rebuilding          Redis is empty and has not been filled yet
-- JOURNALS reserved, redeemed, reduced, released, expired, refunded

--#include clock
--#include generation
--#include records
--#include campaign
--#include journal

local c = read_campaign(campaign_key)
if not c then return no_campaign(epoch_key) end
local generation = generation_of(epoch_key)
if not generation then return { 'rebuilding' } end
local text = redis.call('HGET', reservations_key, reservation_id)
if not text and c.archived then return { 'archived', c.archived } end
if not text then return { 'not_found' } end
local reservation = unpack_reservation(text)
local state, now, entries = reservation.state, now_ms(), {}
if state == 'voided' then return { 'rejournaled', '0' } end

local function append(...) table.insert(entries, { ... }) end
local function append_change(kind, ...)
  append('kind', kind, 'no', c.no, 'reservation', reservation_id, 'at', now, ...)
end
-- Restates the units that were given back, one entry for each way, because the record has only the sums. Each entry has
-- all units that were given back until it, so a repetition changes nothing.
local released, refunded, burned = reduced_of(reservation)
local function append_reduction(ending, units, kept, refunded_then, burned_then)
  if units == 0 then return end
  append_change('reduced', 'before', kept + units, 'qty', kept, 'ending', ending, 'released', released,
    'refunded', refunded_then, 'burned', burned_then, 'reason', 'reconciled', 'trace', '')
end
local begun = state == 'reserved' and 'reserved' or (reservation.due == 0 and 'redeemed' or 'reserved')
if row == 'missing' then
  reservation.state = begun
  append(reserved_fields(c.no, reservation_id, reservation, c.version, now))
end
append_reduction('released', released, reservation.qty + refunded, 0, 0)
local lacks_end = row == 'reserved' or (row == 'missing' and begun ~= state)
local paid = state == 'redeemed' or state == 'reacquired' or state == 'refunded' or state == 'burned'
if lacks_end and paid and not (row == 'missing' and reservation.due == 0) then
  local reacquired = state == 'reacquired' and 1 or 0
  append_change('redeemed', 'slot', reservation.slot, 'reacquired', reacquired, 'payment', '', 'trace', '')
end
append_reduction('refunded', refunded - burned, reservation.qty + burned, refunded - burned, 0)
append_reduction('burned', burned, reservation.qty, refunded, burned)
if lacks_end then
  if state == 'released' or state == 'expired' then append_change(state, 'reason', 'reconciled', 'trace', '') end
  if state == 'refunded' or state == 'burned' then
    append_change('refunded', 'burned', state == 'burned' and 1 or 0, 'trace', '')
  end
end

local id = generation .. '-*'
for _, fields in ipairs(entries) do redis.call('XADD', journal_key, id, unpack(fields)) end
return { 'rejournaled', tostring(#entries) }

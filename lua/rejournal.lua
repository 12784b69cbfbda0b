-- Repair: a promise stands here but never reached Postgres, and no journal entry of it is left. It is appended again, so that
-- Postgres takes it, or refuses it, in the usual way. For the ledger only; nothing changes here.
--
-- KEYS campaign, reservations, journal, epoch
-- ARGV
--   reservation_id
--   row           missing | reserved: what Postgres has of it
-- REPLY
--   rejournaled entries   0 when there is nothing that Postgres lacks
--   archived pass     not here, and the campaign is archived: Postgres may have it
--   not_found
--   rebuilding          Redis is fresh and not filled yet
-- JOURNALS reserved, redeemed, released, expired, refunded

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
local begun = state == 'reserved' and 'reserved' or (reservation.due == 0 and 'redeemed' or 'reserved')
if row == 'missing' then
  reservation.state = begun
  append(reserved_fields(c.no, reservation_id, reservation, c.version, now))
end
if row ~= 'missing' or begun ~= state then
  local paid = state == 'redeemed' or state == 'reacquired' or state == 'refunded' or state == 'burned'
  if paid and not (row == 'missing' and reservation.due == 0) then
    local reacquired = state == 'reacquired' and 1 or 0
    append_change('redeemed', 'slot', reservation.slot, 'reacquired', reacquired, 'payment', '', 'trace', '')
  end
  if state == 'released' or state == 'expired' then append_change(state, 'reason', 'reconciled', 'trace', '') end
  if state == 'refunded' or state == 'burned' then
    append_change('refunded', 'burned', state == 'burned' and 1 or 0, 'trace', '')
  end
end

local id = generation .. '-*'
for _, fields in ipairs(entries) do redis.call('XADD', journal_key, id, unpack(fields)) end
return { 'rejournaled', tostring(#entries) }

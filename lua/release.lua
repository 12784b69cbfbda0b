-- Releases reservations, for the payment service or the holder: RESERVED to RELEASED (EXPIRED after the deadline). The
-- unit goes to the head of the line, else to stock. A repetition returns no second unit. With `keep` the reservation
-- keeps that many of its units and stays RESERVED.
--
-- Decides up to 32 releases of one campaign in the given order, each as if it were the only one.
--
-- KEYS campaign, people, reservations, deadlines, line, presence, codes, journal, news, epoch
-- ARGV
--   input:json      as in INPUT
-- INPUT
--   requests        as in REQUEST
-- REQUEST
--   reservation_id
--   holder        the user of the ticket; "" = a service, which may release any reservation
--   reason        free text for the record, "" = none
--   actor         who releases it, for its history; none = not known
--   trace         traceparent, "" = none
--   keep          number of units that the reservation keeps, at least 1; none = it ends
-- REPLY
--   decided decisions entry...     JSON of an object: durable, and `replies`, one DECISION for each request
--       entry: each appended journal entry as JSON (lua/README.md), in the order of the requests
--   not_found
--   rebuilding          Redis is empty and has not been filled yet
-- DECISION
--   released entries state            released or expired; entries: number of appended entries, 0 for a repetition
--   kept entries qty released         it has qty units, and released units were given back in parts; no entry when it had
--                                     no more units than `keep`
--   settled state                     redeemed, reacquired, refunded, burned or voided: there is nothing to release
--   foreign                           the reservation belongs to another user
--   archived pass                     the campaign is archived and Redis lacks the record; Postgres may have it
--   not_found
-- JOURNALS released, expired, reduced, reserved (the next in line), left (users in line who cannot be served)

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
local now = now_ms()
local plan = new_plan(c, keys, generation, now)

local function release(r)
  local reservation = reservation_of(plan, r.reservation_id)
  if not reservation and c.archived then return { kind = 'archived', pass = c.archived } end
  if not reservation then return { kind = 'not_found' } end
  if r.holder ~= '' and r.holder ~= reservation.user then return { kind = 'foreign' } end
  local state = reservation.state
  if state == 'released' or state == 'expired' then return { kind = 'released', state = state } end
  if state ~= 'reserved' then return { kind = 'settled', state = state } end
  if r.keep then
    -- A sweep ends an overdue reservation.
    if now >= reservation.due then return { kind = 'released', state = 'expired' } end
    if r.keep < reservation.qty then
      reduce(plan, r.reservation_id, reservation, r.keep, 'released', r.reason, r.actor or '', r.trace)
    end
    local released = reduced_of(reservation)
    return { kind = 'kept', qty = tonumber(reservation.qty), released = released }
  end
  local ending = now < reservation.due and 'released' or 'expired'
  return_units(plan, r.reservation_id, reservation, ending, 'reason', r.reason, 'by', r.actor or '', 'trace', r.trace)
  return { kind = 'released', state = ending }
end

read_reservations(plan, input.requests)
return apply(plan, { 'decided', decide_each(plan, input.requests, release) })

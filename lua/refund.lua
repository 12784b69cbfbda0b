-- Records a refund: REDEEMED to REFUNDED. With `refund_policy = return` the unit goes to the head of the line, else to
-- stock, and the user's allowance is free again. With `burn` the unit is lost and the allowance stays used. With `keep`
-- the reservation keeps that many of its units and stays REDEEMED.
--
-- KEYS campaign, people, reservations, deadlines, line, presence, codes, journal, news, epoch
-- ARGV
--   reservation_id
--   keep:int      number of units that the reservation keeps; 0 = it ends
--   actor         who refunds it, for its history; "" = not known
--   trace         traceparent, "" = none
-- REPLY
--   refunded returned durable entry...     returned 0|1; the same for each repetition, which appends no entry
--       durable 0|1: whether responses wait for Postgres; entry: each appended journal entry as JSON (lua/README.md)
--   kept qty refunded burned durable entry...   it has qty units; refunded units were given back in parts, burned of them
--       are not sold again; no entry when it had no more units than `keep`
--   unpaid state        reserved, released, expired or voided: never redeemed
--   archived pass     the campaign is archived and Redis lacks the record; Postgres may have it
--   not_found
--   rebuilding          Redis is empty and has not been filled yet
-- JOURNALS refunded, reduced, reserved (the next in line), left (users in line who cannot be served)

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

assert(keep >= 0, 'a reservation keeps fewer units than none')

local c = read_campaign(campaign_key)
if not c then return no_campaign(epoch_key) end
local generation = generation_of(epoch_key)
if not generation then return { 'rebuilding' } end
local text = redis.call('HGET', keys.reservations, reservation_id)
if not text and c.archived then return { 'archived', c.archived } end
if not text then return { 'not_found' } end
local reservation = unpack_reservation(text)
local durable = c.durable and '1' or '0'
if reservation.state == 'refunded' then return { 'refunded', '1', durable } end
if reservation.state == 'burned' then return { 'refunded', '0', durable } end
if reservation.state ~= 'redeemed' and reservation.state ~= 'reacquired' then return { 'unpaid', reservation.state } end

local now = now_ms()
local plan = new_plan(c, keys, generation, now)
if keep > 0 then
  if keep < reservation.qty then
    reduce(plan, reservation_id, reservation, keep, c.refund_policy == 'burn' and 'burned' or 'refunded', '', actor, trace)
  end
  local _, refunded, burned = reduced_of(reservation)
  return apply(plan, { 'kept', string.format('%d', reservation.qty), string.format('%d', refunded),
    string.format('%d', burned), durable })
end
if c.refund_policy == 'burn' then
  reservation.state = 'burned'
  local packed = reservation_text(reservation)
  plan.reservations[reservation_id] = packed
  c.redeemed, c.burned = c.redeemed - reservation.qty, c.burned + reservation.qty
  add_entry(plan, packed, 'kind', 'refunded', 'no', c.no, 'at', now, 'reservation', reservation_id, 'burned', 1, 'by', actor,
    'trace', trace)
else
  return_units(plan, reservation_id, reservation, 'refunded', 'burned', 0, 'by', actor, 'trace', trace)
end
return apply(plan, { 'refunded', c.refund_policy == 'burn' and '0' or '1', durable })

-- Confirms payments: RESERVED to REDEEMED. After the deadline the reservation counts as expired, even if no sweep has
-- run. With `late_payment = reacquire` the user then gets a free unit again, unless other users wait for it. The units
-- of an overdue reservation go to the line first. A second payment of a redeemed reservation is stored with the first
-- one.
--
-- Decides up to 32 payments of one campaign in the given order, each as if it were the only one.
--
-- KEYS campaign, people, reservations, deadlines, line, presence, codes, journal, news, epoch, payments, request_keys... (at most 32)
-- ARGV
--   input:json      as in INPUT
-- INPUT
--   requests        as in REQUEST
--   order_ttl_ms    time for which claims on an order are kept
-- REQUEST
--   reservation_id
--   payment_ref   "" = none
--   actor         who reports the payment, for its history; none = not known
--   trace         traceparent, "" = none
--   order_state   unknown | known (`order_key` is set) | taken (other reservations exclude this one)
--   order_key     position of the order's key in request_keys, from 1; none = unknown
-- REPLY
--   decided decisions entry...     JSON of an object: durable, and `replies`, one DECISION for each request
--       entry: each appended journal entry as JSON (lua/README.md), in the order of the requests
--   not_found
--   rebuilding          Redis is empty and has not been filled yet
-- DECISION
--   redeemed entries order_id reacquired paid_by qty   entries: number of appended entries, 0 for a repetition
--                                     paid_by: reference of the first payment, if this is a second one; qty: units that
--                                     the reservation has, if some were given back
--   ended entries state               released, expired, refunded, burned or voided: the user no longer has the unit
--   short entries state               as ended, but another bucket may have a unit, which the caller may fetch; final
--                                     if none has
--   order_needed user order_id        a unit may be reacquired; the caller must pass the key of the order
--   not_combinable reservations       these reservations on the same order exclude it; nothing is changed
--   archived pass                     the campaign is archived and Redis lacks the record; Postgres may have it
--   not_found
-- JOURNALS redeemed, paid_again, expired, reserved (the next in line), left (users in line who cannot be served)

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
--#include orders
--#include payments

local c = read_campaign(campaign_key)
if not c then return no_campaign(epoch_key) end
local generation = generation_of(epoch_key)
if not generation then return { 'rebuilding' } end
local now = now_ms()
local plan = new_plan(c, keys, generation, now)
plan.order_ttl_ms = input.order_ttl_ms

-- Returns how many units a reservation has after some were given back; nil = it has all of them.
local function kept_qty(reservation)
  return reservation.reduced and reservation.qty or nil
end

local function redeem(r, reservation, state)
  local reacquired = state == 'reacquired'
  reservation.state = state
  local packed = reacquired and reservation_text(reservation) or in_state(reservation.packed, state)
  plan.reservations[r.reservation_id] = packed
  c.redeemed = c.redeemed + reservation.qty
  if r.payment_ref ~= '' then plan.payments[r.reservation_id] = with_payment({}, r.payment_ref) end
  add_entry(plan, packed, 'kind', 'redeemed', 'no', c.no_text, 'at', text_of(now), 'reservation', r.reservation_id,
    'slot', text_of(reservation.slot), 'reacquired', reacquired and '1' or '0', 'payment', r.payment_ref, 'by', r.actor or '', 'trace', r.trace)
  table.insert(plan.news, 'redeemed|' .. reservation.user .. '|' .. r.reservation_id .. '|' .. reservation.order_id .. '|0')
  return { kind = 'redeemed', order_id = reservation.order_id, reacquired = reacquired, qty = kept_qty(reservation) }
end

-- A payment of a redeemed reservation. A new reference is stored after the first one.
local function pay_again(r, reservation)
  local references = payments_of(plan.payments[r.reservation_id] or redis.call('HGET', keys.payments, r.reservation_id))
  local first = r.payment_ref ~= '' and references[1] or ''
  if r.payment_ref ~= '' and not is_known_payment(references, r.payment_ref) then
    plan.payments[r.reservation_id] = with_payment(references, r.payment_ref)
    add_entry(plan, nil, 'kind', 'paid_again', 'no', c.no, 'at', now, 'reservation', r.reservation_id,
      'payment', r.payment_ref, 'first', first, 'by', r.actor or '', 'trace', r.trace)
  end
  local paid_by = first ~= '' and first ~= r.payment_ref and first or nil
  return { kind = 'redeemed', order_id = reservation.order_id, reacquired = reservation.state == 'reacquired',
    paid_by = paid_by, qty = kept_qty(reservation) }
end

-- Returns whether units of a reservation that has ended are free, and no user waits for them.
local function units_are_free(reservation)
  return c.unlimited or (c.waiting == 0 and not is_sealed(c) and c.free >= reservation.qty)
end

-- Returns whether the user and the code of a reservation that has ended allow its units to be reacquired.
local function is_eligible(r, reservation)
  if r.order_state == 'taken' or in_line(plan, reservation.user) then return false end
  local code_free = reservation.code == '' or not code_is_used(keys.codes, reservation.code, plan.codes)
  return code_free and free_slot(person_of(plan, reservation.user).slots, c.per_user_limit) ~= nil
end

-- Returns the claims on the order including the one of this reservation, "" = it takes no part; or nil and the decision
-- that prevents it.
local function joined_order(r, reservation)
  if not takes_part(c, reservation.order_id == order_id_of(r.reservation_id)) then return '' end
  if r.order_state == 'unknown' then
    return nil, { kind = 'order_needed', user = reservation.user, order_id = reservation.order_id }
  end
  local order_key = request_keys[r.order_key]
  local claims = claims_in(plan.orders[order_key] or redis.call('GET', order_key))
  local claimed = claimed_stacking(claims, r.reservation_id)
  local stacking = claimed and claimed ~= 'ended' and claimed or c.stacking
  local against = claims_against(claims, r.reservation_id, stacking)
  if against[1] then return nil, { kind = 'not_combinable', reservations = against } end
  return with_claim(claims, r.reservation_id, stacking)
end

local function reacquire(r, reservation, claims)
  local person = person_of(plan, reservation.user)
  local slot = free_slot(person.slots, c.per_user_limit)
  if claims ~= '' then plan.orders[request_keys[r.order_key]] = claims end
  reservation.slot = slot
  use_code(plan, reservation.code)
  person.state, person.slots, person.line_no = 'held', with_slot(person.slots, slot), reservation.line_no
  person.reservation_id, person.qty, person.code = r.reservation_id, reservation.qty, reservation.code
  plan.changed[reservation.user] = true
  if not c.unlimited then c.free = c.free - reservation.qty end
  return redeem(r, reservation, 'reacquired')
end

-- Returns whether the only thing that a late payment lacks is a unit of its bucket. Others may have some for as long as
-- no user waits, which an open bucket says.
local function is_short(r, reservation)
  local may_fetch = c.bucket == 'open' and c.status ~= 'closed' and not c.unlimited
  return may_fetch and c.late_payment == 'reacquire' and c.free < reservation.qty and is_eligible(r, reservation)
end

local function confirm(r)
  local reservation = reservation_of(plan, r.reservation_id)
  if not reservation and c.archived then return { kind = 'archived', pass = c.archived } end
  if not reservation then return { kind = 'not_found' } end
  if reservation.state == 'redeemed' or reservation.state == 'reacquired' then return pay_again(r, reservation) end
  if reservation.state == 'reserved' and now < reservation.due then
    plan.deadlines[r.reservation_id] = false
    c.held = c.held - reservation.qty
    return redeem(r, reservation, 'redeemed')
  end
  local is_overdue = reservation.state == 'reserved'
  local has_ended = is_overdue or reservation.state == 'released' or reservation.state == 'expired'
  local may_return = has_ended and c.late_payment == 'reacquire'
  -- Nothing may change before the order is known. An overdue reservation has not returned its units yet, and the return
  -- decides: it may serve the last users in the line, this user among them, and the next user may get the code.
  if is_overdue then may_return = may_return and r.order_state ~= 'taken' and (c.unlimited or not is_sealed(c))
  else may_return = may_return and units_are_free(reservation) and is_eligible(r, reservation) end
  local claims, missing
  if may_return then claims, missing = joined_order(r, reservation) end
  if missing then return missing end
  if is_overdue then
    return_units(plan, r.reservation_id, reservation, 'expired', 'reason', 'deadline', 'trace', r.trace)
  end
  if claims and units_are_free(reservation) and is_eligible(r, reservation) then return reacquire(r, reservation, claims) end
  if has_ended and is_short(r, reservation) then return { kind = 'short', state = reservation.state } end
  return { kind = 'ended', state = reservation.state }
end

read_reservations(plan, input.requests)
return apply(plan, { 'decided', decide_each(plan, input.requests, confirm) })

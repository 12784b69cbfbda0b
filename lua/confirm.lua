-- Payment arrived: RESERVED to REDEEMED. Later than the deadline it finds the reservation expired, whether or not a
-- sweep has been there; `late_payment = reacquire` then takes a free unit again if nobody waits for it. A payment of what is
-- paid already is kept beside the first one.
--
-- KEYS campaign, people, reservations, deadlines, line, presence, codes, journal, news, epoch, order, payments
-- ARGV
--   reservation_id
--   payment_ref   "" = none
--   trace         traceparent, "" = none
--   order_state   unknown | known (the key `order` is that of the reservation) | taken (others exclude it)
--   order_ttl_ms  how long claims on the order are kept
-- REPLY
--   redeemed order_id reacquired paid_by durable entry...   reacquired 0|1; the same for each repetition, which appends no entry
--       paid_by: reference of the first payment when this is another one, "" = it is not
--   ended state durable entry...     released, expired, refunded, burned or voided: the unit is not the user's any more
--       durable 0|1: answers wait for Postgres; entry: each appended journal entry as JSON (lua/README.md)
--   order_needed user order_id         a unit would be taken again: the caller has to name the key of its order
--   not_combinable reservation_id...   it would be, if these were not on the same order; nothing is changed
--   archived pass     not here, and the campaign is archived: Postgres may have it
--   not_found
--   rebuilding          Redis is fresh and not filled yet
-- JOURNALS redeemed, paid_again, expired, reserved (the next in line), left (of those in line who cannot be served)

--#include clock
--#include generation
--#include records
--#include campaign
--#include codes
--#include journal
--#include pace
--#include presence
--#include plan
--#include places
--#include hand_over
--#include orders
--#include payments

assert(#KEYS == 12 and #ARGV == 5, 'confirm takes 12 keys and 5 arguments')
local epoch_key, order_key = KEYS[10], KEYS[11]
local campaign_key = KEYS[1]
local keys = { campaign = KEYS[1], people = KEYS[2], reservations = KEYS[3], deadlines = KEYS[4], line = KEYS[5],
  presence = KEYS[6], codes = KEYS[7], journal = KEYS[8], news = KEYS[9], payments = KEYS[12] }
local reservation_id, payment_ref, trace, order_state, order_ttl_ms = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]

local c = read_campaign(campaign_key)
if not c then return no_campaign(epoch_key) end
local generation = generation_of(epoch_key)
if not generation then return { 'rebuilding' } end
local text = redis.call('HGET', keys.reservations, reservation_id)
if not text and c.archived then return { 'archived', c.archived } end
if not text then return { 'not_found' } end
local reservation = unpack_reservation(text)
local durable = c.durable and '1' or '0'
local now = now_ms()
local plan = new_plan(c, keys, generation, now)
if reservation.state == 'redeemed' or reservation.state == 'reacquired' then
  local references = payments_of(keys.payments, reservation_id)
  local first = payment_ref ~= '' and references[1] or ''
  if payment_ref ~= '' and not is_known_payment(references, payment_ref) then
    plan.payments[reservation_id] = with_payment(references, payment_ref)
    add_entry(plan, nil, 'kind', 'paid_again', 'no', c.no, 'at', now, 'reservation', reservation_id,
      'payment', payment_ref, 'first', first, 'trace', trace)
  end
  local paid_by = first ~= payment_ref and first or ''
  return apply(plan, { 'redeemed', reservation.order_id, reservation.state == 'reacquired' and '1' or '0', paid_by, durable })
end
local function redeem(state, reacquired)
  reservation.state = state
  local packed = pack_reservation(reservation)
  plan.reservations[reservation_id] = packed
  c.redeemed = c.redeemed + reservation.qty
  if payment_ref ~= '' then plan.payments[reservation_id] = with_payment({}, payment_ref) end
  add_entry(plan, packed, 'kind', 'redeemed', 'no', c.no, 'at', now, 'reservation', reservation_id,
    'slot', reservation.slot, 'reacquired', reacquired, 'payment', payment_ref, 'trace', trace)
  table.insert(plan.news, 'redeemed|' .. reservation.user .. '|' .. reservation_id .. '|' .. reservation.order_id .. '|0')
end

if reservation.state == 'reserved' and now < reservation.due then
  plan.deadlines[reservation_id] = false
  c.held = c.held - reservation.qty
  redeem('redeemed', '0')
  return apply(plan, { 'redeemed', reservation.order_id, '0', '', durable })
end
if reservation.state == 'reserved' then
  give_back(plan, reservation_id, reservation, 'expired', 'reason', 'deadline', 'trace', trace)
end

local may_return = reservation.state == 'released' or reservation.state == 'expired'
if may_return and c.late_payment == 'reacquire' and (c.unlimited or (c.waiting == 0 and c.free >= reservation.qty)) then
  local person = person_of(plan, reservation.user)
  local slot = free_slot(person.slots, c.per_user_limit)
  local code_free = reservation.code == '' or not code_is_used(keys.codes, reservation.code, plan.codes)
  if slot and code_free and order_state ~= 'taken' and not in_line(plan, reservation.user) then
    if takes_part(c, reservation.order_id == order_id_of(reservation_id)) then
      if order_state == 'unknown' then return { 'order_needed', reservation.user, reservation.order_id } end
      local claims = claims_on(order_key)
      local stacking = claimed_stacking(claims, reservation_id) or c.stacking
      local against = claims_against(claims, reservation_id, stacking)
      if against[1] then return { 'not_combinable', unpack(against) } end
      plan.order = { key = order_key, text = with_claim(claims, reservation_id, stacking), ttl_ms = order_ttl_ms }
    end
    reservation.slot = slot
    use_code(plan, reservation.code)
    person.state, person.slots, person.line_no = 'held', with_slot(person.slots, slot), reservation.line_no
    person.reservation_id, person.qty, person.code = reservation_id, reservation.qty, reservation.code
    plan.changed[reservation.user] = true
    if not c.unlimited then c.free = c.free - reservation.qty end
    redeem('reacquired', '1')
    return apply(plan, { 'redeemed', reservation.order_id, '1', '', durable })
  end
end
return apply(plan, { 'ended', reservation.state, durable })

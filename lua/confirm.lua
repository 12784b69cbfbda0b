-- Payment arrived: RESERVED to REDEEMED. Later than the deadline it finds the reservation expired, whether or not a
-- sweep has been there; `late_payment = reacquire` then takes a free unit again if nobody waits for it.
--
-- KEYS campaign, people, reservations, deadlines, line, presence, codes, journal, news, epoch
-- ARGV
--   reservation_id
--   payment_ref   "" = none
--   trace         traceparent, "" = none
-- REPLY
--   redeemed order_id reacquired       reacquired 0|1; the same reply every time
--   ended state                        released, expired, refunded, burned or voided: no unit is his any more
--   archived pass     not here, and the campaign is archived: Postgres may have it
--   not_found
--   rebuilding          Redis is fresh and not filled yet
-- JOURNALS redeemed, expired, reserved (the next in line)

--#include clock
--#include generation
--#include records
--#include campaign
--#include codes
--#include journal
--#include pace
--#include presence
--#include hand_over
--#include give_back

assert(#KEYS == 10 and #ARGV == 3, 'confirm takes 10 keys and 3 arguments')
local epoch_key = KEYS[10]
local campaign_key = KEYS[1]
local keys = { campaign = KEYS[1], people = KEYS[2], reservations = KEYS[3], deadlines = KEYS[4], line = KEYS[5],
  presence = KEYS[6], codes = KEYS[7], journal = KEYS[8], news = KEYS[9] }
local reservation_id, payment_ref, trace = ARGV[1], ARGV[2], ARGV[3]

local c = read_campaign(campaign_key)
if not c then return no_campaign(epoch_key) end
keys.generation = generation_of(epoch_key)
if not keys.generation then return { 'rebuilding' } end
local text = redis.call('HGET', keys.reservations, reservation_id)
if not text and c.archived then return { 'archived', c.archived } end
if not text then return { 'not_found' } end
local reservation = unpack_reservation(text)
if reservation.state == 'redeemed' then return { 'redeemed', reservation.order_id, '0' } end
if reservation.state == 'reacquired' then return { 'redeemed', reservation.order_id, '1' } end

local now = now_ms()
local function redeem(state, reacquired)
  reservation.state = state
  redis.call('HSET', keys.reservations, reservation_id, pack_reservation(reservation))
  c.redeemed = c.redeemed + reservation.qty
  save_counters(campaign_key, c)
  redis.call('XADD', keys.journal, keys.generation .. '-*', 'kind', 'redeemed', 'no', c.no, 'reservation', reservation_id, 'at', now,
    'slot', reservation.slot, 'reacquired', reacquired, 'payment', payment_ref, 'trace', trace)
  redis.call('PUBLISH', keys.news, 'redeemed|' .. reservation.user .. '|' .. reservation_id .. '|' ..
    reservation.order_id .. '|0')
  return { 'redeemed', reservation.order_id, reacquired }
end

if reservation.state == 'reserved' and now < reservation.due then
  redis.call('ZREM', keys.deadlines, reservation_id)
  c.held = c.held - reservation.qty
  return redeem('redeemed', '0')
end
if reservation.state == 'reserved' then
  give_back(c, keys, now, reservation_id, reservation, 'expired', { 'reason', 'deadline', 'trace', trace })
  save_counters(campaign_key, c)
end

local may_return = reservation.state == 'released' or reservation.state == 'expired'
if may_return and c.late_payment == 'reacquire' and (c.unlimited or (c.waiting == 0 and c.free >= reservation.qty)) then
  local person = unpack_person(redis.call('HGET', keys.people, reservation.user))
  local slot = free_slot(person.slots, c.per_user_limit)
  local code_free = reservation.code == '' or not code_is_used(keys.codes, reservation.code)
  if slot and code_free and not redis.call('ZSCORE', keys.line, reservation.user) then
    reservation.slot = slot
    if reservation.code ~= '' then use_code(keys.codes, reservation.code) end
    person.state, person.slots, person.line_no = 'held', with_slot(person.slots, slot), reservation.line_no
    person.reservation_id, person.qty, person.code = reservation_id, reservation.qty, reservation.code
    redis.call('HSET', keys.people, reservation.user, pack_person(person))
    if not c.unlimited then c.free = c.free - reservation.qty end
    return redeem('reacquired', '1')
  end
end
return { 'ended', reservation.state }

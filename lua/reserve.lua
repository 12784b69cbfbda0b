-- Checkout: the arrows from nothing to RESERVED, REDEEMED or QUEUED, and every refusal, in one decision.
--
-- KEYS campaign, people, reservations, deadlines, line, presence, codes, journal, idempotency, unscoped_idempotency, device, once, holders, epoch, order
-- ARGV
--   user                 the user who checks out
--   qty                  units wanted, integer >= 1
--   reservation_prefix   28 characters of a UUIDv7; the campaign's number completes it
--   order_id             "" = made from the reservation id
--   token                none | genuine (signature checked by the caller, age is checked here)
--   token_expires_at     Unix seconds; 0 without a token
--   key                  idempotency key
--   key_ttl_ms           how long the answer is remembered
--   ticket_key           id of the key that signs the ticket, so that a replay can sign the same one
--   journal_limit        entries the journal may hold
--   device               device fingerprint, for the record; "" = unknown
--   device_quota         checkouts that may be counted under the key `device` in any window; 0 = no quota
--   device_window_ms     length of that window
--   trace                traceparent of the request, "" = none
--   request              what else makes the request what it is; "" = a checkout
--   code                 number of the code it is redeemed by; 0 = the campaign's one code, "" = by none
--   terms                version of the terms that the caller judged the user by, negative = they exclude the user; 0 = not judged
--   once_expires_at      ms, of the one-time token; 0 = none was sent
--   replicas             replicas that the caller waits for before it answers; 0 = none
--   proven               1 = the caller has proved to be the user, else 0
--   holder_device        device that a genuine token is for, unless its fingerprint was derived; "" = none
--   order_ttl_ms         how long claims on the order are kept
--   new_keys             promises that the caller may still get under new keys now, beyond as many as the user may have; negative = none
-- REPLY
--   reserved reservation_id order_id due_ms durable journal_id quota_left code terms slot at_ms stacking
--                                     due_ms 0: nothing to pay, redeemed at once; durable 0|1: answers wait for Postgres;
--                                     quota_left: of the device's; code: its number, "" = none; terms: their version;
--                                     stacking: how it takes part in its order, "" = not
--   queued no position queue_size durable journal_id quota_left pace presence_ms line_no at_ms stacking
--                                     no: the campaign's; position counts from 1; pace: ms for each person, "" = unknown;
--                                     presence_ms: 0 = presence does not matter
--   waiting no position queue_size quota_left pace presence_ms durable journal_id at_ms reservation_id
--                                     already in the line, with this place; journal_id "" = not journaled;
--                                     reservation_id: the place's, "" = the caller gets no ticket of it
--   place_limited                     the caller got too many promises lately (new_keys); nothing is remembered
--   replayed no answer durable        the first answer to this key, as remembered
--   archived pass                     the campaign is, and its answers are in Postgres
--   key_reused                        the user has used the key for another request
--   attestation_missing | attestation_expired | attestation_future
--   rate_limited retry_ms             the device's quota is used up
--   journal_full                      Postgres is too far behind to promise more
--   not_found | paused | ended
--   rebuilding                        Redis is fresh and not filled yet
--   not_started starts_at_ms now_ms
--   qty_above_max max_qty
--   limit_reached                     the user has reached the limit for this campaign
--   sold_out | line_full
--   audience_mismatch
--   terms_changed version             the caller judged by others, or not at all although the campaign has an audience
--   code_needed                       each code of this campaign is for one user
--   code_used
--   token_missing | token_expired | token_used    the one-time token
--   not_combinable reservation_id...   these, on the same order, exclude this one
-- JOURNALS reserved, queued, answered

--#include clock
--#include generation
--#include records
--#include campaign
--#include codes
--#include pace
--#include presence
--#include orders

assert(#KEYS == 15 and #ARGV == 23, 'reserve takes 15 keys and 23 arguments')
local once_key, holders_key, epoch_key, order_key = KEYS[12], KEYS[13], KEYS[14], KEYS[15]
local campaign_key, people_key, reservations_key, deadlines_key = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local line_key, presence_key, codes_key, journal_key = KEYS[5], KEYS[6], KEYS[7], KEYS[8]
local idempotency_key, unscoped_idempotency_key, device_key = KEYS[9], KEYS[10], KEYS[11]
local user, qty, reservation_prefix, order_id = ARGV[1], tonumber(ARGV[2]), ARGV[3], ARGV[4]
local token, token_expires_at, key, key_ttl_ms = ARGV[5], tonumber(ARGV[6]), ARGV[7], ARGV[8]
local ticket_key, journal_limit, device = ARGV[9], tonumber(ARGV[10]), ARGV[11]
local device_quota, device_window_ms, trace = tonumber(ARGV[12]), tonumber(ARGV[13]), ARGV[14]
local request, code, terms, once_expires_at = ARGV[15], ARGV[16], tonumber(ARGV[17]), tonumber(ARGV[18])
local replicas, proven, holder_device, order_ttl_ms = tonumber(ARGV[19]), ARGV[20], ARGV[21], ARGV[22]
local new_keys = tonumber(ARGV[23])
local token_life_ms, token_skew_ms = 30000, 30000

--   place_id   reservation id of the place that the ticket is for; "" = the answer has no ticket
local function queued_answer(position, c, pace, place_id)
  return 'Q|' .. position .. '|' .. c.waiting .. '|' .. (place_id == '' and '' or ticket_key) .. '|' .. pace .. '|' ..
    c.presence_ms .. '|' .. place_id
end

-- Decide. A replay comes before everything that may have changed since the first call, and costs no quota.
local c = read_campaign(campaign_key)
if not c then return no_campaign(epoch_key) end
local generation = generation_of(epoch_key)
if not generation then return { 'rebuilding' } end
-- A redemption may come without a device.
if c.attest and token == 'none' and request == '' then return { 'attestation_missing' } end
local durable = c.durable and '1' or '0'
local same_request = c.no .. '|' .. ARGV[2] .. '|' .. user .. '|' .. request
local records = redis.call('MGET', idempotency_key, unscoped_idempotency_key)
local remembered = records[1]
-- Earlier versions kept the record under the key alone; that of another user is none of this user's.
if not remembered and records[2] and string.match(records[2], '^%d+|%d+|([^|]*)|') == user then remembered = records[2] end
if remembered then
  if string.sub(remembered, 1, #same_request) ~= same_request then return { 'key_reused' } end
  local answer = string.sub(remembered, #same_request + 1)
  -- A redemption's record begins like a checkout's and goes on with what only it has.
  if request == '' and string.sub(answer, 1, 2) == 'R|' then return { 'key_reused' } end
  return { 'replayed', tostring(c.no), answer, durable }
end

-- Before the token's age: a replay may come with a stale one. Here is nothing else to be had.
if c.archived then return { 'archived', c.archived } end

local now = now_ms()
if token == 'genuine' then
  local age_ms = now - token_expires_at * 1000
  if age_ms > token_skew_ms then return { 'attestation_expired' } end
  if age_ms < -(token_life_ms + token_skew_ms) then return { 'attestation_future' } end
end
local quota_left, device_times = device_quota, nil
if device_quota > 0 then
  -- The times of the admitted calls that lie in the window, newest first. One text with an expiry is two commands; a list is three.
  local times, used, frees_at = now, 0, nil
  for time in string.gmatch(redis.call('GET', device_key) or '', '%d+') do
    local at = tonumber(time)
    -- The clock may have gone back: what is later than now is not of this window.
    if at <= now and now - at < device_window_ms then
      times, used = times .. ',' .. time, used + 1
      if used == device_quota then frees_at = at + device_window_ms end
    end
  end
  if frees_at then return { 'rate_limited', tostring(frees_at - now) } end
  quota_left = device_quota - used - 1
  device_times = times
end

-- The checkout counts against the device's quota, also when it is refused.
local function count_checkout()
  if device_times then redis.call('SET', device_key, device_times, 'PX', device_window_ms) end
end
local function refuse(...)
  count_checkout()
  return { ... }
end

local entry_id = generation .. '-*'
-- A user who waits already keeps the place: remembers the answer, and when the user was seen.
--   line_no: the place that a user who stepped back comes back to, else false
local function keep_place(reply, must_be_seen, line_no, journaled, answer)
  if journaled then
    reply[9] = redis.call('XADD', journal_key, entry_id, 'kind', 'answered', 'no', c.no, 'at', now, 'key', key, 'answer', answer)
  end
  if line_no then redis.call('ZADD', line_key, line_no, user) end
  if must_be_seen then redis.call('ZADD', presence_key, now, user) end
  redis.call('SET', idempotency_key, answer, 'PX', key_ttl_ms)
  count_checkout()
  return reply
end

local phase = phase_of(c, now)
if phase == 'draft' then return refuse('not_found') end
if phase == 'not_started' then return refuse('not_started', tostring(c.starts_at), tostring(now)) end
if phase ~= 'open' then return refuse(phase) end
if qty > c.max_qty then return refuse('qty_above_max', tostring(c.max_qty)) end
if c.type == 'unique' and code == '' then return refuse('code_needed') end

if new_keys + c.per_user_limit <= 0 then return refuse('place_limited') end

local person = unpack_person(redis.call('HGET', people_key, user))
local score = person.state == 'queued' and redis.call('ZSCORE', line_key, user)
-- A record that is `queued` without a place in the line means that the place was closed.
if score then
  -- A full journal does not refuse the place, which is promised already; then only this Redis remembers the answer.
  local journaled = redis.call('XLEN', journal_key) < journal_limit
  local must_be_seen = c.presence_ms > 0
  local was_away = must_be_seen and is_away(score)
  local rank = was_away and redis.call('ZCOUNT', line_key, '-inf', '(' .. person.line_no) or redis.call('ZRANK', line_key, user)
  local position, pace = rank + 1, pace_of(campaign_key, now)
  -- The ticket of a place goes to a caller who has proved to be its user, or to use the device that took it.
  local is_holder = proven == '1' or
    (holder_device ~= '' and redis.call('HGET', holders_key, user) == person.line_no .. '|' .. holder_device)
  local place_id = is_holder and person.reservation_id or ''
  local answer = same_request .. queued_answer(position, c, pace, place_id)
  local reply = { 'waiting', tostring(c.no), tostring(position), tostring(c.waiting), tostring(quota_left), pace,
    tostring(c.presence_ms), durable, '', tostring(now), place_id }
  return keep_place(reply, must_be_seen, was_away and person.line_no, journaled, answer)
end
-- A user who waits was judged when joining the line.
local judged_version = math.abs(terms)
if judged_version ~= c.version and (terms ~= 0 or not c.open_to_all) then
  return refuse('terms_changed', tostring(c.version))
end
if terms < 0 then return refuse('audience_mismatch') end
local slot = free_slot(person.slots, c.per_user_limit)
if not slot then return refuse('limit_reached') end
if code == '0' then code = '' end
if code ~= '' and code_is_used(codes_key, code, {}) then return refuse('code_used') end
if c.once then
  if once_expires_at == 0 then return refuse('token_missing') end
  if now >= once_expires_at then return refuse('token_expired') end
  if redis.call('EXISTS', once_key) == 1 then return refuse('token_used') end
end

local reservation_id = reservation_prefix .. string.format('%08x', c.no)
local stacking = takes_part(c, order_id == '') and c.stacking or ''
-- An order that is made now has no claims.
local claims = order_id ~= '' and claims_on(order_key) or {}
local against = claims_against(claims, reservation_id, stacking)
if against[1] then return refuse('not_combinable', unpack(against)) end
local claimed = stacking ~= '' and with_claim(claims, reservation_id, stacking)

-- No barging: while a present user waits, a free unit is theirs, and so is the next code of a pool without a limit.
local line_first = not c.unlimited or (code == '' and c.type == 'pool')
local served = (c.unlimited or c.free >= qty) and
  (not line_first or c.waiting == 0 or (c.presence_ms > 0 and present_count(c, line_key) == 0))
local handed = code
if served and code == '' and c.type == 'pool' then handed = next_code(codes_key, c, {}) end
served = served and handed
if not served then
  if not c.line_enabled then return refuse('sold_out') end
  -- Nothing can come back: everything is used up, as `tend_line` has found.
  if c.spent and c.free + c.held == 0 then return refuse('sold_out') end
end
if not served and c.waiting >= c.line_max then return refuse('line_full') end
if redis.call('XLEN', journal_key) >= journal_limit then return refuse('journal_full') end

local once_left_ms = c.once and once_expires_at - now

if served then
  local pays = c.hold_ms > 0
  local reservation = {
    state = pays and 'reserved' or 'redeemed', user = user, qty = qty, slot = slot, due = pays and now + c.hold_ms or 0,
    line_no = 0, order_id = order_id ~= '' and order_id or order_id_of(reservation_id),
    code = handed,
  }
  -- 0 journaled, 1 committed, 2 replicated: what the first answer waits for.
  local durability = c.durable and '1' or (replicas > 0 and '2' or '0')
  local answer = same_request .. 'C|' .. reservation_id .. '|' .. reservation.order_id .. '|' .. reservation.due .. '|' ..
    ticket_key .. '|' .. durability .. '|' .. handed .. '|' .. c.version
  local packed, used_bit = pack_reservation(reservation), handed ~= '' and tonumber(handed) - 1
  person.state, person.slots, person.line_no, person.qty = 'held', with_slot(person.slots, slot), 0, qty
  person.reservation_id, person.order_id, person.code = reservation_id, '', handed
  local packed_person = pack_person(person)
  if not c.unlimited then c.free = c.free - qty end
  if pays then c.held = c.held + qty else c.redeemed = c.redeemed + qty end
  assert_counters(c)
  local hint = c.code_from and next_code_hint(c, {}) or c.code_hint
  local reply = { 'reserved', reservation_id, reservation.order_id, tostring(reservation.due), durable, '',
    tostring(quota_left), handed, tostring(c.version), tostring(slot), tostring(now), stacking }

  -- The fields of a promotion (includes/journal.lua), in the same order.
  reply[6] = redis.call('XADD', journal_key, entry_id, 'kind', 'reserved', 'no', c.no, 'reservation', reservation_id,
    'user', user, 'order', reservation.order_id, 'qty', qty, 'slot', slot, 'at', now, 'due', reservation.due, 'line', 0,
    'state', reservation.state, 'code', handed, 'terms', c.version, 'key', key, 'answer', answer, 'device', device, 'trace', trace,
    'stacking', stacking)
  redis.call('HSET', reservations_key, reservation_id, packed)
  if pays then redis.call('ZADD', deadlines_key, reservation.due, reservation_id) end
  redis.call('HSET', people_key, user, packed_person)
  redis.call('HSET', campaign_key, 'free', c.free, 'held', c.held, 'redeemed', c.redeemed)
  redis.call('SET', idempotency_key, answer, 'PX', key_ttl_ms)
  if used_bit then redis.call('SETBIT', codes_key, used_bit, 1) end
  if hint ~= c.code_hint then redis.call('HSET', campaign_key, 'code_hint', hint) end
  if once_left_ms then redis.call('SET', once_key, 1, 'PX', once_left_ms) end
  if claimed then redis.call('SET', order_key, claimed, 'PX', order_ttl_ms) end
  count_checkout()
  return reply
end

local must_be_seen, begun_pace = c.presence_ms > 0, c.waiting == 0 and new_pace(now)
local position, pace = present_count(c, line_key) + 1, pace_of(campaign_key, now)
local used_bit = code ~= '' and tonumber(code) - 1
c.waiting, c.last_line_no = c.waiting + 1, c.last_line_no + 1
local answer = same_request .. queued_answer(position, c, pace, reservation_id)
local holder = holder_device ~= '' and c.last_line_no .. '|' .. holder_device
person.state, person.line_no, person.qty = 'queued', c.last_line_no, qty
person.reservation_id, person.order_id, person.code = reservation_id, order_id, code
local packed_person = pack_person(person)
assert_counters(c)
local reply = { 'queued', tostring(c.no), tostring(position), tostring(c.waiting), durable, '', tostring(quota_left), pace,
  tostring(c.presence_ms), tostring(c.last_line_no), tostring(now), stacking }

reply[6] = redis.call('XADD', journal_key, entry_id, 'kind', 'queued', 'no', c.no, 'reservation', reservation_id,
  'user', user, 'order', order_id, 'qty', qty, 'line', c.last_line_no, 'code', code, 'at', now, 'key', key, 'answer', answer, 'device', device, 'trace', trace,
  'stacking', stacking)
redis.call('ZADD', line_key, c.last_line_no, user)
if must_be_seen then redis.call('ZADD', presence_key, now, user) end
if holder then redis.call('HSET', holders_key, user, holder) end
redis.call('HSET', people_key, user, packed_person)
redis.call('HSET', campaign_key, 'waiting', c.waiting, 'last_line_no', c.last_line_no)
redis.call('SET', idempotency_key, answer, 'PX', key_ttl_ms)
if begun_pace then redis.call('HSETNX', campaign_key, 'pace', begun_pace) end
if used_bit then redis.call('SETBIT', codes_key, used_bit, 1) end
if once_left_ms then redis.call('SET', once_key, 1, 'PX', once_left_ms) end
if claimed then redis.call('SET', order_key, claimed, 'PX', order_ttl_ms) end
count_checkout()
return reply

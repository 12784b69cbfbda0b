-- Checkouts: the arrows from nothing to RESERVED, REDEEMED or QUEUED, and every refusal. Decides some requests of one campaign in
-- the order in which they are given, each as if it came alone; the campaign is read and written once for all of them.
--
-- KEYS campaign, people, reservations, deadlines, line, presence, codes, journal, holders, epoch, request_keys...
-- ARGV
--   input           JSON of INPUT
-- INPUT
--   requests        at least 1, at most 64, as in REQUEST
--   key_ttl_ms      how long the answer to an idempotency key is remembered
--   ticket_key      id of the key that signs the tickets, so that a replay can sign the same one
--   journal_limit   promises the journal may hold
--   device_quota device_window_ms   checkouts that may be counted under a device's key in any window, and its length
--   replicas        replicas that the caller waits for before it answers; 0 = none
--   order_ttl_ms    how long claims on an order are kept
--   packed          whether every worker can read an entry with several promises
-- REQUEST
--   user            the user who checks out
--   qty             units wanted, integer >= 1
--   prefix          28 characters of a UUIDv7; the campaign's number completes it to the reservation's id
--   order           id of the order; none = made from the reservation id
--   token_expires_at   Unix seconds, of a token whose signature the caller has checked; none = no token
--   key             idempotency key
--   idempotency_key unscoped_key device_key once_key order_key   which of the request_keys they are, from 1; device_key none = no quota
--   device          device fingerprint, for the record; none = unknown
--   trace           traceparent of the request
--   request         what else makes the request what it is; none = a checkout
--   code            number of the code it is redeemed by; 0 = the campaign's one code, none = by none
--   terms           version of the terms that the caller judged the user by, negative = they exclude the user; 0 = not judged
--   once_expires_at   ms, of the one-time token; none = none was sent
--   proven          whether the caller has proved to be the user
--   holder_device   device that a genuine token is for, unless its fingerprint was derived
--   new_keys        promises that the caller may still get under new keys now, beyond as many as the user may have; negative = none
-- REPLY
--   decided decisions last_id     JSON of an object: no, at, due, terms, durable, and `replies`, one DECISION for each request;
--                                 due: ms, of every unit that was given; 0 = nothing to pay, redeemed at once;
--                                 last_id: number of the last promise in the journal, "" = none was made
--   not_found
--   rebuilding          Redis is fresh and not filled yet
-- DECISION
--   reserved promise quota_left slot code stacking
--                                     promise: which of the promises of this call it is, from 1; quota_left: of the device's;
--                                     code: its number; stacking: how it takes part in its order
--   queued promise quota_left position queue_size line_no pace presence_ms stacking
--                                     position counts from 1; pace: ms for each person; presence_ms: 0 = presence does not matter
--   waiting promise quota_left position queue_size pace presence_ms place_id
--                                     already in the line, with this place; promise none = not journaled;
--                                     place_id: reservation id of the place, none = the caller gets no ticket of it
--   place_limited                     the caller got too many promises lately (new_keys); nothing is remembered
--   replayed answer                   the first answer to this key, as remembered
--   archived pass                     the campaign is, and its answers are in Postgres
--   key_reused                        the user has used the key for another request
--   attestation_missing | attestation_expired | attestation_future
--   rate_limited retry_ms             the device's quota is used up
--   journal_full                      Postgres is too far behind to promise more
--   not_found | paused | ended
--   not_started starts_at_ms
--   qty_above_max max_qty
--   limit_reached                     the user has reached the limit for this campaign
--   sold_out | line_full
--   audience_mismatch
--   terms_changed version             the caller judged by others, or not at all although the campaign has an audience
--   code_needed                       each code of this campaign is for one user
--   code_used
--   token_missing | token_expired | token_used    the one-time token
--   not_combinable reservations       these, on the same order, exclude this one
--   failed reason                     a record that it needs is malformed; nothing was decided, and the others are not concerned
-- JOURNALS reserved, queued, answered

--#include clock
--#include generation
--#include records
--#include campaign
--#include codes
--#include pace
--#include presence
--#include orders
--#include journal_tail

assert(#KEYS >= 11 and #ARGV == 1, 'reserve takes at least 11 keys and 1 argument')
local campaign_key, people_key, reservations_key, deadlines_key = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local line_key, presence_key, codes_key, journal_key, holders_key, epoch_key = KEYS[5], KEYS[6], KEYS[7], KEYS[8], KEYS[9], KEYS[10]
local before_requests = 10
local request_keys = { unpack(KEYS, before_requests + 1) }
local input = cjson.decode(ARGV[1])
assert(#input.requests <= most_in_entry, 'reserve takes at most 64 requests')
local requests, ticket_key, journal_limit, device_quota = input.requests, input.ticket_key, input.journal_limit, input.device_quota
local device_window_ms = input.device_window_ms
local token_life_ms, token_skew_ms = 30000, 30000

local c = read_campaign(campaign_key)
if not c then return no_campaign(epoch_key) end
local generation = generation_of(epoch_key)
if not generation then return { 'rebuilding' } end
local now = now_ms()
local phase = phase_of(c, now)
local pays = c.hold_ms > 0
local due = pays and now + c.hold_ms or 0
-- 0 journaled, 1 committed, 2 replicated: what the first answer waits for.
local durability = c.durable and '1' or (input.replicas > 0 and '2' or '0')

-- What Redis has, read at once. A request's own keys are names; what a request of this call has decided comes first.
local stored, people = {}, {}
do
  local users = {}
  for i, r in ipairs(requests) do users[i] = r.user end
  local values = redis.call('MGET', unpack(request_keys))
  for i, name in ipairs(request_keys) do stored[name] = values[i] end
  local records = redis.call('HMGET', people_key, unpack(users))
  for i, user in ipairs(users) do people[user] = records[i] end
end
local decided, decided_people = {}, {}
local function value_of(position)
  if not position then return false end
  local name = request_keys[position]
  return decided[name] or stored[name]
end

-- What is written at the end: keys → text and life; user → packed record, score, time, holder; and lists of pairs.
local answers, devices, orders, once_used = {}, {}, {}, {}
local packed_people, line, presence, holders, changed_codes = {}, {}, {}, {}, {}
local reservations, deadlines, promises, plain_entries = {}, {}, {}, {}
local begun_pace
-- Line numbers of those who are present since this call: who joined, and who came back.
local newly_present = {}

-- Read when a request needs them, and once for all.
local known_backlog, known_present, known_pace
local function journal_is_full()
  known_backlog = known_backlog or backlog_of(journal_key, journal_limit)
  return known_backlog + #promises >= journal_limit
end
local function present_now()
  if c.presence_ms == 0 then return c.waiting end
  known_present = known_present or present_count(c, line_key)
  return known_present + #newly_present
end
local function pace_now()
  known_pace = known_pace or pace_of(campaign_key, now)
  return known_pace
end
-- How many places have a lower score.
local function places_before(score)
  local places = redis.call('ZCOUNT', line_key, '-inf', '(' .. score)
  for _, number in ipairs(newly_present) do
    if number < tonumber(score) then places = places + 1 end
  end
  return places
end

-- Journals a promise. Plain entries are for workers of an earlier version, which cannot read packed ones.
local function add_promise(packed, plain)
  promises[#promises + 1] = packed
  if not input.packed then plain_entries[#plain_entries + 1] = plain end
  return #promises
end

--   place_id   reservation id of the place that the ticket is for; "" = the answer has no ticket
local function queued_answer(position, waiting, pace, place_id)
  return 'Q|' .. position .. '|' .. waiting .. '|' .. (place_id == '' and '' or ticket_key) .. '|' .. pace .. '|' ..
    c.presence_ms .. '|' .. place_id
end

local function person_at(user)
  return decided_people[user] or unpack_person(people[user])
end

-- A user who waits already keeps the place: remembers the answer, and when the user was seen.
local function keep_place(r, person, score, same_request, quota_left)
  local must_be_seen = c.presence_ms > 0
  local was_away = must_be_seen and is_away(score)
  local position, pace = places_before(was_away and person.line_no or score) + 1, pace_now()
  -- The ticket of a place goes to a caller who has proved to be its user, or to use the device that took it.
  local is_holder = r.proven or (r.holder_device and
    (holders[r.user] or redis.call('HGET', holders_key, r.user)) == person.line_no .. '|' .. r.holder_device)
  local place_id = is_holder and person.reservation_id or ''
  local answer = same_request .. queued_answer(position, c.waiting, pace, place_id)
  local decision = { kind = 'waiting', quota_left = quota_left, position = position, queue_size = c.waiting,
    pace = pace ~= '' and tonumber(pace) or nil, presence_ms = c.presence_ms, place_id = place_id ~= '' and place_id or nil }

  -- A full journal does not refuse the place, which is promised already; then only this Redis remembers the answer.
  if not journal_is_full() then
    decision.promise = add_promise('answered\t' .. r.key .. '\t' .. answer,
      { 'kind', 'answered', 'no', c.no, 'at', now, 'key', r.key, 'answer', answer })
  end
  if was_away then
    line[r.user] = person.line_no
    newly_present[#newly_present + 1] = person.line_no
  end
  if must_be_seen then presence[r.user] = now end
  decided[request_keys[r.idempotency_key]] = answer
  answers[request_keys[r.idempotency_key]] = answer
  return decision
end

-- Refused, or already waiting, before anything is taken. Returns nil when a unit or a new place may be given.
local function refusal(r, person, quota_left, same_request)
  if phase == 'draft' then return { kind = 'not_found' } end
  if phase == 'not_started' then return { kind = 'not_started', starts_at_ms = c.starts_at } end
  if phase ~= 'open' then return { kind = phase } end
  if r.qty > c.max_qty then return { kind = 'qty_above_max', max_qty = c.max_qty } end
  if c.type == 'unique' and not r.code then return { kind = 'code_needed' } end
  if r.new_keys + c.per_user_limit <= 0 then return { kind = 'place_limited' } end

  local score = person.state == 'queued' and (line[r.user] or redis.call('ZSCORE', line_key, r.user))
  -- A record that is `queued` without a place in the line means that the place was closed.
  if score then return keep_place(r, person, score, same_request, quota_left) end

  -- A user who waits was judged when joining the line.
  if math.abs(r.terms) ~= c.version and (r.terms ~= 0 or not c.open_to_all) then
    return { kind = 'terms_changed', version = c.version }
  end
  if r.terms < 0 then return { kind = 'audience_mismatch' } end
  return nil
end

-- Gives a unit. `code`: its number as text, "" = none.
local function give(r, person, slot, code, reservation_id, stacking, same_request, quota_left)
  local free, held, redeemed = c.free, c.held, c.redeemed
  if not c.unlimited then free = free - r.qty end
  if pays then held = held + r.qty else redeemed = redeemed + r.qty end
  assert_counters({ unlimited = c.unlimited, free = free, held = held, redeemed = redeemed, burned = c.burned,
    waiting = c.waiting, total = c.total })
  local order_id = r.order or order_id_of(reservation_id)
  local state, trace, device, request = pays and 'reserved' or 'redeemed', r.trace or '', r.device or '', r.request or ''
  local packed = pack_reservation({ state = state, user = r.user, qty = r.qty, slot = slot, due = due, line_no = 0,
    order_id = order_id, code = code })
  local answer = same_request .. 'C|' .. reservation_id .. '|' .. order_id .. '|' .. due .. '|' .. ticket_key .. '|' ..
    durability .. '|' .. code .. '|' .. c.version
  person.state, person.slots, person.line_no, person.qty = 'held', with_slot(person.slots, slot), 0, r.qty
  person.reservation_id, person.order_id, person.code = reservation_id, '', code
  local packed_person, plain = pack_person(person), nil
  if not input.packed then
    plain = { 'kind', 'reserved', 'no', c.no, 'reservation', reservation_id, 'user', r.user, 'order', order_id, 'qty', r.qty,
      'slot', slot, 'at', now, 'due', due, 'line', 0, 'state', state, 'code', code, 'terms', c.version, 'key', r.key,
      'answer', answer, 'device', device, 'trace', trace, 'stacking', stacking }
  end
  local promise = add_promise('reserved\t' .. reservation_id .. '\t' .. r.user .. '\t' .. (r.order or '') .. '\t' .. r.qty ..
    '\t' .. slot .. '\t' .. code .. '\t' .. r.key .. '\t' .. request .. '\t' .. device .. '\t' .. trace .. '\t' .. stacking, plain)

  c.free, c.held, c.redeemed = free, held, redeemed
  reservations[#reservations + 1] = reservation_id
  reservations[#reservations + 1] = packed
  if pays then
    deadlines[#deadlines + 1] = due
    deadlines[#deadlines + 1] = reservation_id
  end
  decided_people[r.user], packed_people[r.user] = person, packed_person
  local decision = { kind = 'reserved', promise = promise, quota_left = quota_left, slot = slot }
  if code ~= '' then decision.code = tonumber(code) end
  if stacking ~= '' then decision.stacking = stacking end
  return decision, answer
end

-- Gives a place at the end of the line.
local function join(r, person, code, reservation_id, stacking, same_request, quota_left)
  local position, pace = present_now() + 1, pace_now()
  local waiting, line_no = c.waiting + 1, c.last_line_no + 1
  local answer = same_request .. queued_answer(position, waiting, pace, reservation_id)
  local holder = r.holder_device and line_no .. '|' .. r.holder_device
  local trace, device, order_id = r.trace or '', r.device or '', r.order or ''
  person.state, person.line_no, person.qty = 'queued', line_no, r.qty
  person.reservation_id, person.order_id, person.code = reservation_id, order_id, code
  local packed_person, plain = pack_person(person), nil
  if not input.packed then
    plain = { 'kind', 'queued', 'no', c.no, 'reservation', reservation_id, 'user', r.user, 'order', order_id, 'qty', r.qty,
      'line', line_no, 'code', code, 'at', now, 'key', r.key, 'answer', answer, 'device', device, 'trace', trace,
      'stacking', stacking }
  end
  local promise = add_promise('queued\t' .. reservation_id .. '\t' .. r.user .. '\t' .. order_id .. '\t' .. r.qty .. '\t' ..
    line_no .. '\t' .. code .. '\t' .. r.key .. '\t' .. answer .. '\t' .. device .. '\t' .. trace .. '\t' .. stacking, plain)

  if c.waiting == 0 and not begun_pace then begun_pace = new_pace(now) end
  c.waiting, c.last_line_no = waiting, line_no
  decided_people[r.user], packed_people[r.user] = person, packed_person
  line[r.user] = line_no
  newly_present[#newly_present + 1] = line_no
  if c.presence_ms > 0 then presence[r.user] = now end
  if holder then holders[r.user] = holder end
  local decision = { kind = 'queued', promise = promise, quota_left = quota_left, position = position, queue_size = waiting,
    line_no = line_no, pace = pace ~= '' and tonumber(pace) or nil, presence_ms = c.presence_ms }
  if stacking ~= '' then decision.stacking = stacking end
  return decision, answer
end

-- A unit, or a place for one; else why not.
local function claim(r, person, same_request, quota_left)
  local slot = free_slot(person.slots, c.per_user_limit)
  if not slot then return { kind = 'limit_reached' } end
  local code = r.code and r.code > 0 and string.format('%d', r.code) or ''
  if code ~= '' and code_is_used(codes_key, code, changed_codes) then return { kind = 'code_used' } end
  local once_key = request_keys[r.once_key]
  if c.once then
    if not r.once_expires_at then return { kind = 'token_missing' } end
    if now >= r.once_expires_at then return { kind = 'token_expired' } end
    if value_of(r.once_key) then return { kind = 'token_used' } end
  end

  local reservation_id = r.prefix .. string.format('%08x', c.no)
  local stacking = takes_part(c, not r.order) and c.stacking or ''
  -- An order that is made now has no claims.
  local claims = r.order and claims_in(value_of(r.order_key)) or {}
  local against = claims_against(claims, reservation_id, stacking)
  if against[1] then return { kind = 'not_combinable', reservations = against } end
  local claimed = stacking ~= '' and with_claim(claims, reservation_id, stacking)

  -- No barging: while a present user waits, a free unit is theirs, and so is the next code of a pool without a limit.
  local line_first = not c.unlimited or (code == '' and c.type == 'pool')
  local served = (c.unlimited or c.free >= r.qty) and
    (not line_first or c.waiting == 0 or (c.presence_ms > 0 and present_now() == 0))
  local handed = code
  if served and code == '' and c.type == 'pool' then handed = next_code(codes_key, c, changed_codes) end
  served = served and handed
  if not served then
    if not c.line_enabled then return { kind = 'sold_out' } end
    -- Nothing can come back: everything is used up, as `tend_line` has found.
    if c.spent and c.free + c.held == 0 then return { kind = 'sold_out' } end
    if c.waiting >= c.line_max then return { kind = 'line_full' } end
  end
  if journal_is_full() then return { kind = 'journal_full' } end

  local once_text = c.once and string.format('%d', r.once_expires_at - now)
  local decision, answer
  if served then
    decision, answer = give(r, person, slot, handed, reservation_id, stacking, same_request, quota_left)
  else
    decision, answer = join(r, person, code, reservation_id, stacking, same_request, quota_left)
  end
  local used = served and handed or code
  if used ~= '' then changed_codes[tonumber(used)] = true end
  if c.once then decided[once_key], once_used[once_key] = '1', once_text end
  if claimed then
    decided[request_keys[r.order_key]] = claimed
    orders[request_keys[r.order_key]] = claimed
  end
  decided[request_keys[r.idempotency_key]] = answer
  answers[request_keys[r.idempotency_key]] = answer
  return decision
end

-- One request. What it changes is only set when nothing of it can fail any more.
local function decide(r)
  -- A redemption may come without a device.
  if c.attest and not r.token_expires_at and not r.request then return { kind = 'attestation_missing' } end
  -- A replay comes before everything that may have changed since the first call, and costs no quota.
  local same_request = c.no .. '|' .. r.qty .. '|' .. r.user .. '|' .. (r.request or '')
  local remembered, unscoped = value_of(r.idempotency_key), value_of(r.unscoped_key)
  -- Earlier versions kept the record under the key alone; that of another user is none of this user's.
  if not remembered and unscoped and string.match(unscoped, '^%d+|%d+|([^|]*)|') == r.user then remembered = unscoped end
  if remembered then
    if string.sub(remembered, 1, #same_request) ~= same_request then return { kind = 'key_reused' } end
    local answer = string.sub(remembered, #same_request + 1)
    -- A redemption's record begins like a checkout's and goes on with what only it has.
    if not r.request and string.sub(answer, 1, 2) == 'R|' then return { kind = 'key_reused' } end
    return { kind = 'replayed', answer = answer }
  end

  -- Before the token's age: a replay may come with a stale one. Here is nothing else to be had.
  if c.archived then return { kind = 'archived', pass = c.archived } end
  if r.token_expires_at then
    local age_ms = now - r.token_expires_at * 1000
    if age_ms > token_skew_ms then return { kind = 'attestation_expired' } end
    if age_ms < -(token_life_ms + token_skew_ms) then return { kind = 'attestation_future' } end
  end
  local quota_left, device_times = 0, nil
  if r.device_key then
    -- The times of the admitted calls that lie in the window, newest first.
    local times, used, frees_at = now, 0, nil
    for time in string.gmatch(value_of(r.device_key) or '', '%d+') do
      local at = tonumber(time)
      -- The clock may have gone back: what is later than now is not of this window.
      if at <= now and now - at < device_window_ms then
        times, used = times .. ',' .. time, used + 1
        if used == device_quota then frees_at = at + device_window_ms end
      end
    end
    if frees_at then return { kind = 'rate_limited', retry_ms = frees_at - now } end
    quota_left, device_times = device_quota - used - 1, tostring(times)
  end

  local person = person_at(r.user)
  local decision = refusal(r, person, quota_left, same_request) or claim(r, person, same_request, quota_left)
  -- It counts against the device's quota, also when it is refused.
  if device_times then
    decided[request_keys[r.device_key]] = device_times
    devices[request_keys[r.device_key]] = device_times
  end
  return decision
end

local decisions = {}
for i, r in ipairs(requests) do
  local ok, decision = pcall(decide, r)
  decisions[i] = ok and decision or { kind = 'failed', reason = tostring(decision) }
end

-- Everything is decided; now it is made ready to be written, so that nothing can fail after the first write.
local function pairs_of(map, value_first)
  local list = {}
  for name, value in pairs(map) do
    list[#list + 1] = value_first and value or name
    list[#list + 1] = value_first and name or value
  end
  return list
end
local reply = { 'decided', cjson.encode({ no = c.no, at = now, due = due, terms = c.version, durable = c.durable,
  replies = decisions }), '' }
local people_list, line_list, presence_list, holder_list = pairs_of(packed_people), pairs_of(line, true), pairs_of(presence, true), pairs_of(holders)
local fields, entry, entry_id = {}, nil, generation .. '-*'
if #promises > 0 then
  fields = { 'free', c.free, 'held', c.held, 'redeemed', c.redeemed, 'waiting', c.waiting, 'last_line_no', c.last_line_no }
  local hint = c.code_from and next_code_hint(c, {}) or c.code_hint
  if hint ~= c.code_hint then
    fields[#fields + 1] = 'code_hint'
    fields[#fields + 1] = hint
  end
end
if #promises > 0 and input.packed then
  entry_id = id_for(journal_key, generation, #promises)
  entry = { 'no', c.no, 'at', now, 'due', due, 'terms', c.version, 'ticket_key', ticket_key, 'durability', durability,
    'count', #promises, 'promises', table.concat(promises, '\n') }
end
local used_bits = {}
for code in pairs(changed_codes) do used_bits[#used_bits + 1] = code - 1 end

if entry then reply[3] = redis.call('XADD', journal_key, entry_id, unpack(entry)) end
for _, plain in ipairs(plain_entries) do reply[3] = redis.call('XADD', journal_key, entry_id, unpack(plain)) end
if reservations[1] then redis.call('HSET', reservations_key, unpack(reservations)) end
if deadlines[1] then redis.call('ZADD', deadlines_key, unpack(deadlines)) end
if people_list[1] then redis.call('HSET', people_key, unpack(people_list)) end
if line_list[1] then redis.call('ZADD', line_key, unpack(line_list)) end
if presence_list[1] then redis.call('ZADD', presence_key, unpack(presence_list)) end
if holder_list[1] then redis.call('HSET', holders_key, unpack(holder_list)) end
if fields[1] then redis.call('HSET', campaign_key, unpack(fields)) end
if begun_pace then redis.call('HSETNX', campaign_key, 'pace', begun_pace) end
for _, bit in ipairs(used_bits) do redis.call('SETBIT', codes_key, bit, 1) end
for key, text in pairs(answers) do redis.call('SET', key, text, 'PX', input.key_ttl_ms) end
for key, text in pairs(devices) do redis.call('SET', key, text, 'PX', device_window_ms) end
for key, left_ms in pairs(once_used) do redis.call('SET', key, 1, 'PX', left_ms) end
for key, text in pairs(orders) do redis.call('SET', key, text, 'PX', input.order_ttl_ms) end
return reply

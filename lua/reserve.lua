-- Checkouts: the arrows from nothing to RESERVED, REDEEMED or QUEUED, and every refusal. Decides some requests of one campaign in
-- the order in which they are given, each as if it came alone; the campaign is read and written once for all of them.
-- The request_keys are four for each request, in their order: its idempotency key, the same without the user, the key of its
-- order and the key of its device; then those that requests name.
--
-- KEYS campaign, people, reservations, deadlines, line, presence, codes, journal, holders, epoch, request_keys... (at most 320)
-- ARGV
--   input:json      as in INPUT
-- INPUT
--   requests        at least 1, at most 64, as in REQUEST
--   key_ttl_ms      how long the answer to an idempotency key is remembered, as text
--   ticket_key      id of the key that signs the tickets, so that a replay can sign the same one
--   journal_limit   promises the journal may hold
--   device_quota device_window_ms   checkouts that may be counted under a device's key in any window, and its length
--   replicated      whether the caller waits for replicas before it answers
--   order_ttl_ms    how long claims on an order are kept, as text
--   packed          whether every worker can read an entry with several promises
-- REQUEST
--   user            the user who checks out
--   qty             units wanted, integer >= 1, as text
--   prefix          28 characters of a UUIDv7; the campaign's number completes it to the reservation's id
--   order           id of the order; none = made from the reservation id
--   token_expires_at   Unix seconds as text, of a token whose signature the caller has checked; none = no token
--   key             idempotency key
--   once_key        which of the request_keys it is, from 1
--   has_quota       whether the device's quota counts the request
--   device          device fingerprint, for the record; none = unknown
--   trace           traceparent of the request
--   request         what else makes the request what it is; none = a checkout
--   code            number of the code it is redeemed by; 0 = the campaign's one code, none = by none
--   terms           version of the terms that the caller judged the user by, negative = they exclude the user; none = not judged
--   once_expires_at   ms, of the one-time token; none = none was sent
--   proven          whether the caller has proved to be the user
--   holder_device   device that a genuine token is for, unless its fingerprint was derived
--   new_keys        promises that the caller may still get under new keys now, beyond as many as the user may have; negative = none;
--                   none = enough
-- REPLY
--   decided decisions last_id     JSON of an object: no, at, due, terms, durable, and `replies`, one DECISION for each request;
--                                 due: ms, of every unit that was given; 0 = nothing to pay, redeemed at once;
--                                 last_id: number of the last promise in the journal, "" = none was made
--   not_found
--   rebuilding          Redis is fresh and not filled yet
-- DECISION
--   reserved quota_left slot code stacking
--                                     the next promise of this call; quota_left: of the device's; code: its number;
--                                     stacking: how it takes part in its order
--   queued quota_left position queue_size line_no pace presence_ms stacking   the next promise too;
--                                     position counts from 1; pace: ms for each person; presence_ms: 0 = presence does not matter
--   waiting journaled quota_left position queue_size pace presence_ms place_id
--                                     already in the line, with this place; journaled: whether it is a promise of this call;
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

assert(#input.requests <= most_in_entry, 'reserve takes at most 64 requests')
local token_life_ms, token_skew_ms = 30000, 30000

local c = read_campaign(campaign_key)
if not c then return no_campaign(epoch_key) end
local generation = generation_of(epoch_key)
if not generation then return { 'rebuilding' } end

-- Everything that the requests of this call share. Functions take it as an argument: a function that refers to a local of the
-- script costs a search for it in every call.
local batch = { c = c, input = input, now = now_ms(), request_keys = request_keys,
  -- Numbers as text, which Lua would write with 14 digits for each use.
  texts = {}, numbers = {}, no = c.no_text, no_hex = string.format('%08x', c.no), version = c.version_text,
  -- What Redis has, and then what the requests of this call have decided: name of a key → its value, user → record.
  values = {}, people = {}, new_person = unpack_person(nil),
  -- To be written: key → text; user → packed record, score, time, holder; code → true; lists of pairs; the promises.
  answers = {}, devices = {}, orders = {}, once = {}, packed_people = {}, line = {}, presence = {}, holders = {}, codes = {},
  reservations = {}, deadlines = {}, promises = {}, plain_entries = {},
  -- Line numbers of those who are present since this call: who joined, and who came back.
  newly_present = {},
}
batch.phase, batch.pays = phase_of(c, batch.now), c.hold_ms > 0
batch.at = string.format('%d', batch.now)
batch.due = batch.pays and string.format('%d', batch.now + c.hold_ms) or '0'
-- 0 journaled, 1 committed, 2 replicated: what the first answer waits for.
batch.durability = c.durable and '1' or (input.replicated and '2' or '0')

local function text_of(batch, number)
  local text = batch.texts[number]
  if not text then
    text = string.format('%d', number)
    batch.texts[number] = text
  end
  return text
end

local function number_of(batch, text)
  local number = batch.numbers[text]
  if not number then
    number = tonumber(text)
    batch.numbers[text] = number
  end
  return number
end

-- What a key has, by its position among the request_keys; false = nothing.
local function value_of(batch, position)
  return batch.values[batch.request_keys[position]]
end

-- Read when a request needs them, and once for all.
local function journal_is_full(batch)
  batch.backlog = batch.backlog or backlog_of(journal_key, batch.input.journal_limit)
  return batch.backlog + #batch.promises >= batch.input.journal_limit
end
local function present_now(batch)
  if batch.c.presence_ms == 0 then return batch.c.waiting end
  batch.present = batch.present or present_count(batch.c, line_key)
  return batch.present + #batch.newly_present
end
local function pace_now(batch)
  batch.pace = batch.pace or pace_of(campaign_key, batch.now)
  return batch.pace
end
-- How many places have a lower score.
local function places_before(batch, score)
  local places = redis.call('ZCOUNT', line_key, '-inf', '(' .. score)
  for _, number in ipairs(batch.newly_present) do
    if number < tonumber(score) then places = places + 1 end
  end
  return places
end

-- Journals a promise. Plain entries are for workers of an earlier version, which cannot read packed ones.
local function add_promise(batch, packed, plain)
  batch.promises[#batch.promises + 1] = packed
  if plain then batch.plain_entries[#batch.plain_entries + 1] = plain end
end

--   place_id   reservation id of the place that the ticket is for; "" = the answer has no ticket
local function queued_answer(batch, position, waiting, pace, place_id)
  return 'Q|' .. position .. '|' .. waiting .. '|' .. (place_id == '' and '' or batch.input.ticket_key) .. '|' .. pace ..
    '|' .. batch.c.presence_ms .. '|' .. place_id
end

-- A user who waits already keeps the place: remembers the answer, and when the user was seen.
local function keep_place(batch, r, person, score, same_request, quota_left)
  local c = batch.c
  local must_be_seen = c.presence_ms > 0
  local was_away = must_be_seen and is_away(score)
  local position, pace = places_before(batch, was_away and person.line_no or score) + 1, pace_now(batch)
  -- The ticket of a place goes to a caller who has proved to be its user, or to use the device that took it.
  local is_holder = r.proven or (r.holder_device and
    (batch.holders[r.user] or redis.call('HGET', holders_key, r.user)) == person.line_no .. '|' .. r.holder_device)
  local place_id = is_holder and person.reservation_id or ''
  local answer = same_request .. queued_answer(batch, position, c.waiting, pace, place_id)
  -- A full journal does not refuse the place, which is promised already; then only this Redis remembers the answer.
  local journaled = not journal_is_full(batch)
  local decision = { kind = 'waiting', journaled = journaled, quota_left = quota_left, position = position,
    queue_size = c.waiting, pace = pace ~= '' and tonumber(pace) or nil, presence_ms = c.presence_ms,
    place_id = place_id ~= '' and place_id or nil }

  if journaled then
    local plain = not batch.input.packed and
      { 'kind', 'answered', 'no', batch.no, 'at', batch.at, 'key', r.key, 'answer', answer }
    add_promise(batch, 'answered\t' .. r.key .. '\t' .. answer, plain)
  end
  if was_away then
    batch.line[r.user] = person.line_no
    batch.newly_present[#batch.newly_present + 1] = person.line_no
  end
  if must_be_seen then batch.presence[r.user] = batch.at end
  local key = batch.request_keys[r.keys]
  batch.values[key], batch.answers[key] = answer, answer
  return decision
end

-- Refused for any user. Returns nil when not.
local function refusal(batch, r)
  local c, phase = batch.c, batch.phase
  if phase == 'draft' then return { kind = 'not_found' } end
  if phase == 'not_started' then return { kind = 'not_started', starts_at_ms = c.starts_at } end
  if phase ~= 'open' then return { kind = phase } end
  if number_of(batch, r.qty) > c.max_qty then return { kind = 'qty_above_max', max_qty = c.max_qty } end
  if c.type == 'unique' and not r.code then return { kind = 'code_needed' } end
  if r.new_keys and r.new_keys + c.per_user_limit <= 0 then return { kind = 'place_limited' } end
  return nil
end

-- Already waiting, or not among those whom the terms serve. Returns nil when a unit or a new place may be given.
local function judge(batch, r, person, quota_left, same_request)
  local c = batch.c
  local score = person.state == 'queued' and (batch.line[r.user] or redis.call('ZSCORE', line_key, r.user))
  -- A record that is `queued` without a place in the line means that the place was closed.
  if score then return keep_place(batch, r, person, score, same_request, quota_left) end

  -- A user who waits was judged when joining the line.
  local terms = r.terms or 0
  if math.abs(terms) ~= c.version and (terms ~= 0 or not c.open_to_all) then
    return { kind = 'terms_changed', version = c.version }
  end
  if terms < 0 then return { kind = 'audience_mismatch' } end
  return nil
end

-- Gives a unit. `code`: its number as text, "" = none. Returns the decision as JSON, and the answer.
local function give(batch, r, person, slot, code, reservation_id, stacking, same_request, quota_left)
  local c, input, qty = batch.c, batch.input, number_of(batch, r.qty)
  local free, held, redeemed = c.free, c.held, c.redeemed
  if not c.unlimited then free = free - qty end
  if batch.pays then held = held + qty else redeemed = redeemed + qty end
  assert(c.unlimited or (free >= 0 and free + held + redeemed + c.burned == c.total), 'conservation is broken')
  local order_id, due, slot_text = r.order or order_id_of(reservation_id), batch.due, text_of(batch, slot)
  local state, trace, device = batch.pays and 'reserved' or 'redeemed', r.trace or '', r.device or ''
  local record = reservation_text(state, r.user, r.qty, slot_text, due, '0', order_id, code)
  local owner = person_text('held', with_slot(person.slots, slot_text), '0', r.qty, reservation_id, '', code)
  local answer = same_request .. 'C|' .. reservation_id .. '|' .. order_id .. '|' .. due .. '|' .. input.ticket_key .. '|' ..
    batch.durability .. '|' .. code .. '|' .. batch.version
  local plain = nil
  if not input.packed then
    plain = { 'kind', 'reserved', 'no', batch.no, 'reservation', reservation_id, 'user', r.user, 'order', order_id,
      'qty', r.qty, 'slot', slot_text, 'at', batch.at, 'due', due, 'line', 0, 'state', state, 'code', code,
      'terms', batch.version, 'key', r.key, 'answer', answer, 'device', device, 'trace', trace, 'stacking', stacking }
  end
  local promise = 'reserved\t' .. reservation_id .. '\t' .. r.user .. '\t' .. (r.order or '') .. '\t' .. r.qty .. '\t' ..
    slot_text .. '\t' .. code .. '\t' .. r.key .. '\t' .. (r.request or '') .. '\t' .. device .. '\t' .. trace .. '\t' .. stacking
  -- Most decisions are this one; an encoder would take longer than what it is for.
  local decision = '{"kind":"reserved","quota_left":' .. text_of(batch, quota_left) .. ',"slot":' .. slot_text ..
    (code ~= '' and ',"code":' .. code or '') ..
    (stacking ~= '' and ',"stacking":' .. cjson.encode(stacking) or '') .. '}'

  add_promise(batch, promise, plain)
  c.free, c.held, c.redeemed = free, held, redeemed
  local reservations, deadlines = batch.reservations, batch.deadlines
  reservations[#reservations + 1] = reservation_id
  reservations[#reservations + 1] = record
  if batch.pays then
    deadlines[#deadlines + 1] = due
    deadlines[#deadlines + 1] = reservation_id
  end
  batch.people[r.user], batch.packed_people[r.user] = owner, owner
  return decision, answer
end

-- Gives a place at the end of the line.
local function join(batch, r, person, code, reservation_id, stacking, same_request, quota_left)
  local c = batch.c
  local position, pace = present_now(batch) + 1, pace_now(batch)
  local waiting, line_no = c.waiting + 1, c.last_line_no + 1
  local line_text = string.format('%d', line_no)
  local answer = same_request .. queued_answer(batch, position, waiting, pace, reservation_id)
  local holder = r.holder_device and line_text .. '|' .. r.holder_device
  local trace, device, order_id = r.trace or '', r.device or '', r.order or ''
  local owner, plain = person_text('queued', person.slots, line_text, r.qty, reservation_id, order_id, code), nil
  if not batch.input.packed then
    plain = { 'kind', 'queued', 'no', batch.no, 'reservation', reservation_id, 'user', r.user, 'order', order_id,
      'qty', r.qty, 'line', line_text, 'code', code, 'at', batch.at, 'key', r.key, 'answer', answer, 'device', device,
      'trace', trace, 'stacking', stacking }
  end
  local promise = 'queued\t' .. reservation_id .. '\t' .. r.user .. '\t' .. order_id .. '\t' .. r.qty .. '\t' .. line_text ..
    '\t' .. code .. '\t' .. r.key .. '\t' .. answer .. '\t' .. device .. '\t' .. trace .. '\t' .. stacking
  local decision = { kind = 'queued', quota_left = quota_left, position = position, queue_size = waiting,
    line_no = line_no, pace = pace ~= '' and tonumber(pace) or nil, presence_ms = c.presence_ms,
    stacking = stacking ~= '' and stacking or nil }

  add_promise(batch, promise, plain)
  if c.waiting == 0 and not batch.begun_pace then batch.begun_pace = new_pace(batch.now) end
  c.waiting, c.last_line_no = waiting, line_no
  batch.people[r.user], batch.packed_people[r.user] = owner, owner
  batch.line[r.user] = line_no
  batch.newly_present[#batch.newly_present + 1] = line_no
  if c.presence_ms > 0 then batch.presence[r.user] = batch.at end
  if holder then batch.holders[r.user] = holder end
  return decision, answer
end

-- A unit, or a place for one; else why not.
local function claim(batch, r, person, same_request, quota_left)
  local c, request_keys = batch.c, batch.request_keys
  local slot = free_slot(person.slots, c.per_user_limit)
  if not slot then return { kind = 'limit_reached' } end
  local code = r.code and r.code > 0 and string.format('%d', r.code) or ''
  if code ~= '' and code_is_used(codes_key, code, batch.codes) then return { kind = 'code_used' } end
  if c.once then
    if not r.once_expires_at then return { kind = 'token_missing' } end
    if batch.now >= r.once_expires_at then return { kind = 'token_expired' } end
    if value_of(batch, r.once_key) then return { kind = 'token_used' } end
  end

  local reservation_id = r.prefix .. batch.no_hex
  local stacking = takes_part(c, not r.order) and c.stacking or ''
  local order_key, claimed = request_keys[r.keys + 2], nil
  if stacking ~= '' then
    -- An order that is made now has no claims.
    local claims = r.order and claims_in(value_of(batch, r.keys + 2)) or {}
    local against = claims_against(claims, reservation_id, stacking)
    if against[1] then return { kind = 'not_combinable', reservations = against } end
    claimed = with_claim(claims, reservation_id, stacking)
  end

  -- No barging: while a present user waits, a free unit is theirs, and so is the next code of a pool without a limit.
  local line_first = not c.unlimited or (code == '' and c.type == 'pool')
  local served = (c.unlimited or c.free >= number_of(batch, r.qty)) and
    (not line_first or c.waiting == 0 or (c.presence_ms > 0 and present_now(batch) == 0))
  local handed = code
  if served and code == '' and c.type == 'pool' then handed = next_code(codes_key, c, batch.codes) end
  served = served and handed
  if not served then
    if not c.line_enabled then return { kind = 'sold_out' } end
    -- Nothing can come back: everything is used up, as `tend_line` has found.
    if c.spent and c.free + c.held == 0 then return { kind = 'sold_out' } end
    if c.waiting >= c.line_max then return { kind = 'line_full' } end
  end
  if journal_is_full(batch) then return { kind = 'journal_full' } end

  local once_left_ms = c.once and string.format('%d', r.once_expires_at - batch.now)
  local decision, answer
  if served then
    decision, answer = give(batch, r, person, slot, handed, reservation_id, stacking, same_request, quota_left)
  else
    decision, answer = join(batch, r, person, code, reservation_id, stacking, same_request, quota_left)
  end
  local used = served and handed or code
  if used ~= '' then batch.codes[tonumber(used)] = true end
  local once_key, key = request_keys[r.once_key], request_keys[r.keys]
  if c.once then batch.values[once_key], batch.once[once_key] = '1', once_left_ms end
  if claimed then batch.values[order_key], batch.orders[order_key] = claimed, claimed end
  batch.values[key], batch.answers[key] = answer, answer
  return decision
end

-- The times of the admitted calls of a device that lie in the window, newest first, with this one; how many calls it has left;
-- else nil, and how long until one is free.
local function count_call(batch, r)
  local now, window_ms, times, used = batch.now, batch.input.device_window_ms, batch.at, 0
  for time in string.gmatch(value_of(batch, r.keys + 3) or '', '%d+') do
    local at = tonumber(time)
    -- The clock may have gone back: what is later than now is not of this window.
    if at <= now and now - at < window_ms then
      times, used = times .. ',' .. time, used + 1
      if used == batch.input.device_quota then return nil, at + window_ms - now end
    end
  end
  return times, batch.input.device_quota - used - 1
end

-- One request. What it changes is only set when nothing of it can fail any more.
local function decide(batch, r)
  local c = batch.c
  -- A redemption may come without a device.
  if c.attest and not r.token_expires_at and not r.request then return { kind = 'attestation_missing' } end
  -- A replay comes before everything that may have changed since the first call, and costs no quota.
  local same_request = batch.no .. '|' .. r.qty .. '|' .. r.user .. '|' .. (r.request or '')
  local remembered, unscoped = value_of(batch, r.keys), value_of(batch, r.keys + 1)
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
    local age_ms = batch.now - number_of(batch, r.token_expires_at) * 1000
    if age_ms > token_skew_ms then return { kind = 'attestation_expired' } end
    if age_ms < -(token_life_ms + token_skew_ms) then return { kind = 'attestation_future' } end
  end
  local quota_left, times = 0, nil
  if r.has_quota then
    times, quota_left = count_call(batch, r)
    if not times then return { kind = 'rate_limited', retry_ms = quota_left } end
  end

  local decision = refusal(batch, r)
  if not decision then
    local text = batch.people[r.user]
    local person = text and unpack_person(text) or batch.new_person
    decision = judge(batch, r, person, quota_left, same_request) or claim(batch, r, person, same_request, quota_left)
  end
  -- It counts against the device's quota, also when it is refused.
  if times then
    local key = batch.request_keys[r.keys + 3]
    batch.values[key], batch.devices[key] = times, times
  end
  return decision
end

-- Read.
local users, values = {}, redis.call('MGET', unpack(request_keys))
for i, name in ipairs(request_keys) do batch.values[name] = values[i] end
for i, r in ipairs(input.requests) do
  users[i] = r.user
  r.keys = 4 * i - 3
end
values = redis.call('HMGET', people_key, unpack(users))
for i, user in ipairs(users) do batch.people[user] = values[i] end

-- Decide.
local decisions = {}
for i, r in ipairs(input.requests) do
  local ok, decision = pcall(decide, batch, r)
  if not ok then decision = { kind = 'failed', reason = tostring(decision) } end
  decisions[i] = type(decision) == 'string' and decision or cjson.encode(decision)
end

-- Make ready, so that nothing can fail after the first write.
local function pairs_of(map, value_first)
  local list = {}
  for name, value in pairs(map) do
    list[#list + 1] = value_first and value or name
    list[#list + 1] = value_first and name or value
  end
  return list
end
local reply = { 'decided', '{"no":' .. batch.no .. ',"at":' .. batch.at .. ',"due":' .. batch.due .. ',"terms":' ..
  batch.version .. ',"durable":' .. (c.durable and 'true' or 'false') .. ',"replies":[' .. table.concat(decisions, ',') .. ']}', '' }
local reservations, deadlines, people = batch.reservations, batch.deadlines, pairs_of(batch.packed_people)
local line, presence, holders = pairs_of(batch.line, true), pairs_of(batch.presence, true), pairs_of(batch.holders)
local entry, entry_id, fields, used_bits = nil, generation .. '-*', {}, {}
if reservations[1] then
  local name = batch.pays and 'held' or 'redeemed'
  fields = { 'free', string.format('%d', c.free), name, string.format('%d', c[name]) }
end
if line[1] then
  fields[#fields + 1] = 'waiting'
  fields[#fields + 1] = string.format('%d', c.waiting)
  fields[#fields + 1] = 'last_line_no'
  fields[#fields + 1] = string.format('%d', c.last_line_no)
end
if reservations[1] and c.code_from and next_code_hint(c, {}) ~= c.code_hint then
  fields[#fields + 1] = 'code_hint'
  fields[#fields + 1] = string.format('%d', next_code_hint(c, {}))
end
local count = #batch.promises
if count > 0 and input.packed then
  entry_id = id_for(journal_key, generation, count)
  local common = batch.at .. '\t' .. batch.due .. '\t' .. batch.version .. '\t' .. input.ticket_key .. '\t' .. batch.durability
  entry = { 'no', batch.no, 'count', text_of(batch, count),
    'promises', common .. '\n' .. table.concat(batch.promises, '\n') }
end
for code in pairs(batch.codes) do used_bits[#used_bits + 1] = code - 1 end
local device_window_ms = text_of(batch, input.device_window_ms)

-- Write, the journal first.
if entry then reply[3] = redis.call('XADD', journal_key, entry_id, unpack(entry)) end
for _, plain in ipairs(batch.plain_entries) do reply[3] = redis.call('XADD', journal_key, entry_id, unpack(plain)) end
if reservations[1] then redis.call('HSET', reservations_key, unpack(reservations)) end
if deadlines[1] then redis.call('ZADD', deadlines_key, unpack(deadlines)) end
if people[1] then redis.call('HSET', people_key, unpack(people)) end
if line[1] then redis.call('ZADD', line_key, unpack(line)) end
if presence[1] then redis.call('ZADD', presence_key, unpack(presence)) end
if holders[1] then redis.call('HSET', holders_key, unpack(holders)) end
if fields[1] then redis.call('HSET', campaign_key, unpack(fields)) end
if batch.begun_pace then redis.call('HSETNX', campaign_key, 'pace', batch.begun_pace) end
for _, bit in ipairs(used_bits) do redis.call('SETBIT', codes_key, bit, 1) end
for key, text in pairs(batch.answers) do redis.call('SET', key, text, 'PX', input.key_ttl_ms) end
for key, text in pairs(batch.devices) do redis.call('SET', key, text, 'PX', device_window_ms) end
for key, left_ms in pairs(batch.once) do redis.call('SET', key, 1, 'PX', left_ms) end
for key, text in pairs(batch.orders) do redis.call('SET', key, text, 'PX', input.order_ttl_ms) end
return reply

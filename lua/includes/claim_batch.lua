-- The requests of one call of `reserve`: shared values, the records of Redis at the beginning of the call, and the
-- decisions since. Functions take the batch as an argument: a reference to a local of the script costs a search in
-- every call. Needs records, campaign, codes, pace, presence, journal_tail.
--   keys: the keys of the campaign by name; request_keys: the list argument of `reserve`
local function new_batch(c, input, keys, request_keys, now)
  local pays = c.hold_ms > 0
  return {
    c = c, input = input, keys = keys, request_keys = request_keys, now = now, phase = phase_of(c, now), pays = pays,
    -- Caches of conversions between numbers and texts. Lua itself would write 14 digits.
    texts = {}, numbers = {}, no = c.no_text, no_hex = string.format('%08x', c.no), version = c.version_text,
    at = string.format('%d', now), due = pays and string.format('%d', now + c.hold_ms) or '0',
    -- The first response waits until the promise is: 0 journaled, 1 committed, 2 replicated.
    durability = c.durable and '1' or (input.replicated and '2' or '0'),
    -- Records of Redis, replaced by the decisions of this call: name of a key → its value, user → record.
    values = {}, people = {}, new_person = unpack_person(nil),
    -- Pending writes: key → text; user → packed record, score, time, holder; code → true; lists of pairs; the promises.
    answers = {}, devices = {}, orders = {}, once = {}, packed_people = {}, line = {}, presence = {}, holders = {}, codes = {},
    reservations = {}, deadlines = {}, promises = {},
    -- Line numbers of users who joined or returned in this call.
    newly_present = {},
    -- Number of users who get their first promise of the campaign in this call.
    first_promises = 0,
  }
end

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

-- Returns the value of a key, by its position in request_keys; false = none.
local function value_of(batch, position)
  return batch.values[batch.request_keys[position]]
end

-- The following values are read when a request first needs them, once for all requests.
local function journal_is_full(batch)
  batch.backlog = batch.backlog or backlog_of(batch.keys.journal, batch.input.journal_limit)
  return batch.backlog + #batch.promises >= batch.input.journal_limit
end
local function present_now(batch)
  if batch.c.presence_ms == 0 then return batch.c.waiting end
  batch.present = batch.present or present_count(batch.c, batch.keys.line)
  return batch.present + #batch.newly_present
end
local function pace_now(batch)
  batch.pace = batch.pace or pace_of(batch.keys.campaign, batch.now)
  return batch.pace
end

-- Returns the number of places with a lower score.
local function places_before(batch, score)
  local places = redis.call('ZCOUNT', batch.keys.line, '-inf', '(' .. score)
  for _, number in ipairs(batch.newly_present) do
    if number < tonumber(score) then places = places + 1 end
  end
  return places
end

-- Counts a call of the device. Returns the times of its calls in the window, newest first, and the number of calls
-- left. When the quota is used up, returns nil and the time until the next call is allowed, in ms.
local function count_call(batch, r)
  local now, window_ms, quota = batch.now, batch.input.device_window_ms, batch.input.device_quota
  local times, used, earlier = batch.at, 0, value_of(batch, r.keys + 2)
  if not earlier then return times, quota - 1 end
  for time in string.gmatch(earlier, '%d+') do
    local at = tonumber(time)
    -- The clock may have gone back: a later time than now is not in this window.
    if at <= now and now - at < window_ms then
      times, used = times .. ',' .. time, used + 1
      if used == quota then return nil, at + window_ms - now end
    end
  end
  return times, quota - used - 1
end

-- Adds the decision of a request to the batch. Only assigns, so that a decision is applied completely or not at all.
--   device_calls   value of the device's key, also for a rejected request; nil = not counted
--   change         of a request with a promise, else nil. It has the fields of these that apply:
--     answer             the idempotency record
--     promise            its line of the journal entry
--     person             packed record of the user
--     units, reservation_id, reservation    number of units, id and packed record of the reservation
--     line_no            line number of a user who joins or returns
--     joins              whether the place is new
--     seen               whether the user counts as seen
--     holder             value in the hash of holders
--     used_code          number of the used code
--     once_left_ms       time for which the one-time token stays marked as used, as text
--     order_claims       value of the order's key
--     is_first           whether the user had no promise of the campaign before
local function apply(batch, r, change, device_calls)
  local c, values, keys, first = batch.c, batch.values, batch.request_keys, r.keys
  if device_calls then
    local device = keys[first + 2]
    values[device], batch.devices[device] = device_calls, device_calls
  end
  if not change then return end

  local user, answer, promises, units, line_no = r.user, change.answer, batch.promises, change.units, change.line_no
  values[keys[first]], batch.answers[keys[first]] = answer, answer
  promises[#promises + 1] = change.promise
  if change.is_first then batch.first_promises = batch.first_promises + 1 end
  if change.person then batch.people[user], batch.packed_people[user] = change.person, change.person end
  if units then
    local reservations, deadlines, reservation_id = batch.reservations, batch.deadlines, change.reservation_id
    local at = #reservations
    reservations[at + 1], reservations[at + 2] = reservation_id, change.reservation
    if not c.unlimited then c.free = c.free - units end
    if batch.pays then
      c.held = c.held + units
      deadlines[at + 1], deadlines[at + 2] = batch.due, reservation_id
    else
      c.redeemed = c.redeemed + units
    end
  end
  if line_no then
    if change.joins then
      if c.waiting == 0 then batch.begins_line = true end
      c.waiting = c.waiting + 1
      -- Numbers of a bucket are drawn before, so they may come in another order.
      if line_no > c.last_line_no then c.last_line_no = line_no end
    end
    if change.holder then batch.holders[user] = change.holder end
    batch.line[user] = line_no
    batch.newly_present[#batch.newly_present + 1] = line_no
  end
  if change.seen then batch.presence[user] = batch.at end
  if change.used_code then batch.codes[change.used_code] = true end
  if change.once_left_ms then
    local once = keys[r.once_key]
    values[once], batch.once[once] = '1', change.once_left_ms
  end
  if change.order_claims then
    local order = keys[first + 1]
    values[order], batch.orders[order] = change.order_claims, change.order_claims
  end
end

-- Returns a map as a flat list, for a command.
local function pairs_of(map, value_first)
  local list, at = {}, 0
  for name, value in pairs(map) do
    list[at + 1], list[at + 2] = value_first and value or name, value_first and name or value
    at = at + 2
  end
  return list
end

-- Returns the counters of the campaign that the batch has changed, as a flat list.
local function changed_counters(batch)
  local c, fields = batch.c, {}
  local function add(name, number)
    fields[#fields + 1] = name
    fields[#fields + 1] = string.format('%d', number)
  end
  if batch.reservations[1] then
    local name = batch.pays and 'held' or 'redeemed'
    add('free', c.free)
    add(name, c[name])
    if c.code_from and next_code_hint(c, {}) ~= c.code_hint then add('code_hint', next_code_hint(c, {})) end
  end
  if next(batch.line) then
    add('waiting', c.waiting)
    add('last_line_no', c.last_line_no)
  end
  return fields
end

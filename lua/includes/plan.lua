-- The decisions of a script before they are written. Redis does not roll back, so a script decides on a plan, and
-- `apply` writes it at the end: nothing can fail after the first write. Values that the plan may have changed are read
-- through it. Needs records, campaign, codes, pace, news.
--   keys: the keys of the script among campaign, people, reservations, deadlines, line, presence, codes, journal, news,
--     payments
local function new_plan(c, keys, generation, now)
  return {
    c = c, keys = keys, id = generation .. '-*', now = now, before = table.concat(counters_of(c), '|'),
    was_sold_out = c.free == 0,
    -- In their order: {fields, record, complete}, and messages for the news channel.
    entries = {}, news = {},
    -- Values to be written: id → packed record, its payments; id → deadline, user → score: false = removed.
    reservations = {}, payments = {}, deadlines = {}, line = {}, presence = {},
    -- user → record, user → true if it has changed; code number → whether it is used.
    people = {}, changed = {}, codes = {},
    -- Values read in advance: id → packed reservation, user → packed record, user → time when seen, false = none.
    stored_reservations = {}, records = {}, seen_at = {},
    -- Further fields of the campaign: name → value, false = removed. Keys to be removed.
    fields = {}, unlinked = {},
    -- `orders`: key of an order → the claims on it, as stored.
    promoted = 0, answer = nil, orders = {}, order_ttl_ms = nil,
  }
end

-- Returns a number as text. Caches it, because many entries of a call have the same numbers.
local texts = {}
local function text_of(value)
  local text = texts[value]
  if not text then
    text = tostring(value)
    texts[value] = text
  end
  return text
end

-- Plans a journal entry.
--   record    the packed reservation after the change; needed to apply the entry without Redis. nil = none
local function add_entry(plan, record, ...)
  -- The first field is for the id.
  local fields = { '', ... }
  -- Converts numbers. Names and most values are texts already.
  for i = 3, #fields, 2 do fields[i] = fields[i] .. '' end
  local entry = { fields = fields, record = record }
  table.insert(plan.entries, entry)
  return entry
end

-- Returns the packed record of a user, false = none.
local function record_of(plan, user)
  local record = plan.records[user]
  if record == nil then record = redis.call('HGET', plan.keys.people, user) end
  return record
end

local function person_of(plan, user)
  local person = plan.people[user]
  if not person then
    person = unpack_person(record_of(plan, user))
    plan.people[user] = person
  end
  return person
end

-- Returns the record of a waiting user; nil when the user does not wait, or the record is malformed.
local function waiting_person(plan, user)
  local person = plan.people[user] or person_in(record_of(plan, user))
  if not person or person.state ~= 'queued' then return nil end
  plan.people[user] = person
  return person
end

-- Reads the reservations of the requests with one command.
local function read_reservations(plan, requests)
  local ids = {}
  for i, request in ipairs(requests) do ids[i] = request.reservation_id end
  for i, text in ipairs(redis.call('HMGET', plan.keys.reservations, unpack(ids))) do plan.stored_reservations[ids[i]] = text end
end

-- Returns a reservation with the changes of the plan, if it was read; nil when there is none.
local function reservation_of(plan, id)
  local text = plan.reservations[id] or plan.stored_reservations[id]
  return text and unpack_reservation(text) or nil
end

local function in_line(plan, user)
  local score = plan.line[user]
  if score == nil then score = redis.call('ZSCORE', plan.keys.line, user) end
  return score and true or false
end

local function free_code(plan, code)
  if code ~= '' then plan.codes[tonumber(code)] = false end
end

local function use_code(plan, code)
  if code ~= '' then plan.codes[tonumber(code)] = true end
end

-- Decides each request on the plan, in their order. Returns the decisions as JSON, each with its number of entries.
local function decide_each(plan, requests, decide)
  local decisions = {}
  for i, request in ipairs(requests) do
    local before = #plan.entries
    decisions[i] = decide(request)
    decisions[i].entries = #plan.entries - before
  end
  return cjson.encode({ durable = plan.c.durable, replies = decisions })
end

-- Until a time, a crowd is no reason to pause the campaign (includes/velocity.lua): it may have been attracted.
local function calm(plan, until_ms)
  local known = tonumber(redis.call('HGET', plan.keys.campaign, 'calm_until') or 0)
  plan.fields.calm_until = math.max(known, plan.fields.calm_until or 0, until_ms)
end

-- Does so when a sold-out campaign has units again, for which many may have waited.
local function calm_if_back(plan)
  local c = plan.c
  local is_back = plan.was_sold_out and c.free > 0 and not c.unlimited
  if is_back and c.velocity == 'pause' and not plan.fields.calm_until then calm(plan, plan.now + c.opening_ms) end
end

-- Returns the fields of the campaign that the plan changes, as a flat list, and those that it removes.
local function planned_fields(plan)
  local c, written, removed = plan.c, counters_of(plan.c), {}
  if table.concat(written, '|') == plan.before then written = {} end
  local hint = next_code_hint(c, plan.codes)
  if hint ~= c.code_hint then plan.fields.code_hint = hint end
  if plan.promoted > 0 then plan.fields.pace = pace_after(plan.keys.campaign, plan.now, plan.promoted) end
  for name, value in pairs(plan.fields) do
    if value then
      table.insert(written, name)
      table.insert(written, value)
    else
      table.insert(removed, name)
    end
  end
  return written, removed
end

-- Splits a flat list into lists of at most 1000 values, one per command: `unpack` takes no more than about 8000.
local nothing = {}
local function in_parts(values)
  if not values[1] then return nothing end
  if #values <= 1000 then return { values } end
  local parts = {}
  for at = 1, #values, 1000 do parts[#parts + 1] = { unpack(values, at, math.min(at + 999, #values)) } end
  return parts
end

-- Returns the arguments of HSET for a map, or of ZADD with the value first; and the names that it removes.
local function arguments_of(map, value_first)
  if not next(map) then return nothing, nothing end
  local written, removed = {}, {}
  for name, value in pairs(map) do
    if value == false then
      removed[#removed + 1] = name
    else
      local at = #written
      written[at + 1], written[at + 2] = value_first and value or name, value_first and name or value
    end
  end
  return in_parts(written), in_parts(removed)
end

-- Writes the plan: the journal entries first, because XADD can reject an id, then everything else. Returns the reply,
-- followed by each entry as JSON (an array of the id, the fields, and the record if there is one), and the id of the
-- first entry.
local function apply(plan, reply)
  assert_counters(plan.c)
  local keys, answer, first_id = plan.keys, plan.answer, nil
  local is_sharded = is_sharded_channel(keys.news)
  local written, removed = planned_fields(plan)
  local people, bits = {}, {}
  for user in pairs(plan.changed) do people[user] = person_text(plan.people[user]) end
  for code, used in pairs(plan.codes) do bits[code - 1] = used and 1 or 0 end
  local reservations, payments, changed = arguments_of(plan.reservations), arguments_of(plan.payments), arguments_of(people)
  local deadlines, ended = arguments_of(plan.deadlines, true)
  local line, gone = arguments_of(plan.line, true)
  local presence, unseen = arguments_of(plan.presence, true)

  for _, entry in ipairs(plan.entries) do
    local fields = entry.fields
    if entry.complete then fields[#fields] = entry.complete(first_id) end
    local id = redis.call('XADD', keys.journal, plan.id, unpack(fields, 2))
    first_id = first_id or id
    fields[1] = id
    if entry.record then
      table.insert(fields, 'record')
      table.insert(fields, entry.record)
    end
    table.insert(reply, cjson.encode(fields))
  end
  for _, some in ipairs(reservations) do redis.call('HSET', keys.reservations, unpack(some)) end
  for _, some in ipairs(payments) do redis.call('HSET', keys.payments, unpack(some)) end
  for _, some in ipairs(deadlines) do redis.call('ZADD', keys.deadlines, unpack(some)) end
  for _, some in ipairs(ended) do redis.call('ZREM', keys.deadlines, unpack(some)) end
  for _, some in ipairs(changed) do redis.call('HSET', keys.people, unpack(some)) end
  for _, some in ipairs(line) do redis.call('ZADD', keys.line, unpack(some)) end
  for _, some in ipairs(gone) do redis.call('ZREM', keys.line, unpack(some)) end
  for _, some in ipairs(presence) do redis.call('ZADD', keys.presence, unpack(some)) end
  for _, some in ipairs(unseen) do redis.call('ZREM', keys.presence, unpack(some)) end
  for bit, used in pairs(bits) do redis.call('SETBIT', keys.codes, bit, used) end
  if written[1] then redis.call('HSET', keys.campaign, unpack(written)) end
  if removed[1] then redis.call('HDEL', keys.campaign, unpack(removed)) end
  for _, key in ipairs(plan.unlinked) do redis.call('UNLINK', key) end
  for key, text in pairs(plan.orders) do redis.call('SET', key, text, 'PX', plan.order_ttl_ms) end
  if answer then redis.call('SET', answer.key, answer.text(first_id), 'PX', answer.ttl_ms) end
  for _, message in ipairs(plan.news) do publish_news(keys.news, is_sharded, message) end
  return reply, first_id
end

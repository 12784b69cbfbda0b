-- What a script has decided and not written yet. Redis does not roll back, so a script decides on a plan, and `apply` writes
-- it at the end: nothing can fail after the first write. What the plan may have changed is read through the plan.
-- Needs records, campaign, codes, pace.
--   keys: those of {campaign, people, reservations, deadlines, line, presence, codes, journal, news, payments} that the script has
local function new_plan(c, keys, generation, now)
  return {
    c = c, keys = keys, id = generation .. '-*', now = now, before = table.concat(counters_of(c), '|'),
    -- In their order: {fields, record, complete}, and messages for the news channel.
    entries = {}, news = {},
    -- What is written as it is: id → packed record, its payments; id → deadline, user → score: false = removed.
    reservations = {}, payments = {}, deadlines = {}, line = {}, presence = {},
    -- user → record, and which of them have changed; code number → whether it is used.
    people = {}, changed = {}, codes = {},
    -- Further fields of the campaign: name → value, false = removed. Keys that are removed whole.
    fields = {}, unlinked = {},
    -- Key of an order → the claims on it, as they are kept.
    promoted = 0, answer = nil, orders = {}, order_ttl_ms = nil,
  }
end

-- Plans a journal entry.
--   record    the packed reservation after the change; needed to apply the entry without Redis. nil = none
local function add_entry(plan, record, ...)
  local fields = { ... }
  for i, value in ipairs(fields) do fields[i] = tostring(value) end
  local entry = { fields = fields, record = record }
  table.insert(plan.entries, entry)
  return entry
end

local function person_of(plan, user)
  local person = plan.people[user]
  if not person then
    person = unpack_person(redis.call('HGET', plan.keys.people, user))
    plan.people[user] = person
  end
  return person
end

-- The user's record when it waits; nil when it does not, or is malformed.
local function waiting_person(plan, user)
  local person = plan.people[user] or parse_person(redis.call('HGET', plan.keys.people, user))
  if not person or person.state ~= 'queued' then return nil end
  plan.people[user] = person
  return person
end

-- A reservation as the plan leaves it; nil when there is none.
local function reservation_of(plan, id)
  local text = plan.reservations[id] or redis.call('HGET', plan.keys.reservations, id)
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

-- Decides each request on the plan, in their order. Returns the decisions as JSON, each with the number of entries it added.
local function decide_each(plan, requests, decide)
  local decisions = {}
  for i, request in ipairs(requests) do
    local before = #plan.entries
    decisions[i] = decide(request)
    decisions[i].entries = #plan.entries - before
  end
  return cjson.encode({ durable = plan.c.durable, replies = decisions })
end

-- The campaign's fields that the plan changes, as a flat list, and those that it removes.
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

-- Writes the plan: the journal entries first, since XADD can refuse an id, then everything else.
-- Returns the reply with each entry as one JSON text behind it (an array of the id, the fields, and the record if there is
-- one), and the id of the first entry.
local function apply(plan, reply)
  assert_counters(plan.c)
  local keys, answer, first_id = plan.keys, plan.answer, nil
  local written, removed = planned_fields(plan)
  local people, bits = {}, {}
  for user in pairs(plan.changed) do people[user] = pack_person(plan.people[user]) end
  for code, used in pairs(plan.codes) do bits[code - 1] = used and 1 or 0 end

  for _, entry in ipairs(plan.entries) do
    local fields = entry.fields
    if entry.complete then fields[#fields] = entry.complete(first_id) end
    local id = redis.call('XADD', keys.journal, plan.id, unpack(fields))
    first_id = first_id or id
    table.insert(fields, 1, id)
    if entry.record then
      table.insert(fields, 'record')
      table.insert(fields, entry.record)
    end
    table.insert(reply, cjson.encode(fields))
  end
  for id, packed in pairs(plan.reservations) do redis.call('HSET', keys.reservations, id, packed) end
  for id, references in pairs(plan.payments) do redis.call('HSET', keys.payments, id, references) end
  for id, due in pairs(plan.deadlines) do
    if due then redis.call('ZADD', keys.deadlines, due, id) else redis.call('ZREM', keys.deadlines, id) end
  end
  for user, packed in pairs(people) do redis.call('HSET', keys.people, user, packed) end
  for user, score in pairs(plan.line) do
    if score then redis.call('ZADD', keys.line, score, user) else redis.call('ZREM', keys.line, user) end
  end
  for user, score in pairs(plan.presence) do
    if score then redis.call('ZADD', keys.presence, score, user) else redis.call('ZREM', keys.presence, user) end
  end
  for bit, used in pairs(bits) do redis.call('SETBIT', keys.codes, bit, used) end
  if written[1] then redis.call('HSET', keys.campaign, unpack(written)) end
  if removed[1] then redis.call('HDEL', keys.campaign, unpack(removed)) end
  for _, key in ipairs(plan.unlinked) do redis.call('UNLINK', key) end
  for key, text in pairs(plan.orders) do redis.call('SET', key, text, 'PX', plan.order_ttl_ms) end
  if answer then redis.call('SET', answer.key, answer.text(first_id), 'PX', answer.ttl_ms) end
  for _, message in ipairs(plan.news) do redis.call('PUBLISH', keys.news, message) end
  return reply, first_id
end

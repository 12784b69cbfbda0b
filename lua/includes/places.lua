-- The line with the changes of the plan. Needs presence, plan.

-- Reads the records of several users, and the times when they were seen.
local function read_ahead(plan, users)
  local records = redis.call('HMGET', plan.keys.people, unpack(users))
  local seen_at = plan.c.presence_ms > 0 and redis.call('ZMSCORE', plan.keys.presence, unpack(users))
  for i, user in ipairs(users) do
    plan.records[user] = records[i]
    if seen_at then plan.seen_at[user] = seen_at[i] end
  end
end

-- Returns user and score of the i-th place in Redis. Reads pages of doubling size, because most scripts need only the
-- head.
--   plan.ahead   number of users to be served; their records are read with the places
local function stored_place(plan, i)
  local stored = plan.stored or { users = {}, scores = {}, page = math.min(math.max(2, plan.ahead or 2), 256), whole = false }
  plan.stored = stored
  while i > #stored.users and not stored.whole do
    local from = #stored.users
    local some = redis.call('ZRANGE', plan.keys.line, from, from + stored.page - 1, 'WITHSCORES')
    local users = {}
    for at = 1, #some, 2 do
      table.insert(users, some[at])
      table.insert(stored.users, some[at])
      table.insert(stored.scores, some[at + 1])
    end
    if plan.ahead and #users > 2 then read_ahead(plan, users) end
    stored.whole = #some < 2 * stored.page
    stored.page = math.min(2 * stored.page, 256)
  end
  return stored.users[i], stored.scores[i]
end

-- Returns an iterator over the places, user and score, without places that the plan has moved.
-- `plan.restored`: {user, score} of users whose position this plan has restored, in the order of the line.
local function places(plan)
  local at, restored_at = 1, 1
  return function()
    while true do
      local user, score = stored_place(plan, at)
      local restored = plan.restored and plan.restored[restored_at]
      if restored and (not user or tonumber(restored[2]) < tonumber(score)) then
        restored_at = restored_at + 1
        if plan.line[restored[1]] == restored[2] then return restored[1], restored[2] end
      elseif user then
        at = at + 1
        if plan.line[user] == nil then return user, score end
      else
        return nil
      end
    end
  end
end

-- Returns the places of present and absent users in stored order: at most `limit` of {user, score}.
local function everyone(plan, limit)
  local found, at = {}, 1
  local user, score = stored_place(plan, at)
  while user and #found < limit do
    if plan.line[user] ~= false then table.insert(found, { user, plan.line[user] or score }) end
    at = at + 1
    user, score = stored_place(plan, at)
  end
  return found
end

-- Returns whether the plan has left this place as it is in Redis.
local function is_unmoved(plan, user, score)
  local planned = plan.line[user]
  return planned == nil or planned == score
end

-- Returns the first present user and the score; nil when there is none.
local function head_of(plan)
  if not plan.next_place then
    plan.next_place = places(plan)
    plan.head, plan.head_score = plan.next_place()
  end
  while plan.head and not is_unmoved(plan, plan.head, plan.head_score) do
    plan.head, plan.head_score = plan.next_place()
  end
  if not plan.head or is_away(plan.head_score) then return nil end
  return plan.head, plan.head_score
end

-- Returns whether a user in the line may be served, and demotes an absent user. A user who was never seen joined before
-- the campaign required presence, and counts as present. In campaigns with `absent_hold_ms` an absent user may be
-- served: the second value is whether the user is absent.
local function check_presence(plan, user, score)
  local presence_ms = plan.c.presence_ms
  if presence_ms == 0 then return true end
  local seen_at = plan.seen_at[user]
  if seen_at == nil then seen_at = redis.call('ZSCORE', plan.keys.presence, user) end
  local seen = tonumber(seen_at or plan.now)
  if seen > plan.now - presence_ms then return true end
  if plan.c.absent_hold_ms > 0 then return true, true end
  plan.line[user] = away_score(score)
  plan.presence[user] = -(seen + presence_ms + kept_ms(plan.c))
  return false
end

-- Ends a user's place.
--   ending   left, closed
--   reason   why it was ended: absent, unservable (needs more units than can be free), limit_reached, not_waiting; "" = by
--            the user or an operator, or with the whole line
--   ...      further fields of the journal entry
local function end_place(plan, user, score, ending, reason, trace, ...)
  local c, person = plan.c, waiting_person(plan, user)
  local place = person and { 'reservation', person.reservation_id, 'order', person.order_id, 'qty', person.qty,
    'code', person.code } or {}
  plan.line[user], plan.presence[user] = false, false
  c.waiting = math.max(0, c.waiting - 1)
  if person then
    -- A record that is `queued` without a place in the line means that the place was closed.
    person.state = ending == 'left' and 'left' or 'queued'
    free_code(plan, person.code)
    person.code = ''
    plan.changed[user] = true
  end
  for _, value in ipairs({ ... }) do place[#place + 1] = value end
  add_entry(plan, nil, 'kind', 'left', 'no', c.no, 'at', plan.now, 'user', user, 'line', number_in(score),
    'ending', ending, 'reason', reason, 'trace', trace, unpack(place))
  return person
end

-- Ends a user's place without a request of the user, and notifies the user.
local function revoke_place(plan, user, score, ending, reason)
  local person = end_place(plan, user, score, ending, reason, '')
  if person then table.insert(plan.news, ending .. '|' .. user .. '|' .. person.reservation_id .. '||0') end
end

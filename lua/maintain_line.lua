-- Maintains the waiting room: demotes and later removes absent users (QUEUED to LEFT), serves users behind a group that
-- needs more units than are free, removes users who can never be served (QUEUED to CLOSED), and closes the line when no
-- unit can return.
--
-- KEYS campaign, people, reservations, deadlines, line, presence, codes, journal, news, epoch
-- ARGV
--   limit:int          users of each kind in one call; bounds how long the script blocks Redis
--   group_wait_ms:int  time for which free units are kept for a group before users behind it are served, once
--   settle_ms:int      time for which no unit must have been obtainable; a refund may follow a payment at once
-- REPLY
--   tended away left closed promoted more entry...     numbers of users; more 0|1: more work than `limit` remains
--       entry: each appended journal entry as JSON (lua/README.md)
--   not_found
--   rebuilding          Redis is empty and has not been filled yet
-- JOURNALS left, line_closed, reserved

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

local c = read_campaign(campaign_key)
if not c then return no_campaign(epoch_key) end
local generation = generation_of(epoch_key)
if not generation then return { 'rebuilding' } end
local now = now_ms()
-- During a pause the line does not change. The line of a bucket is a part of the campaign's (docs/buckets.md).
if phase_of(c, now) ~= 'open' or c.bucket then return { 'tended', '0', '0', '0', '0', '0' } end
local plan = new_plan(c, keys, generation, now)
local marks = redis.call('HMGET', campaign_key, 'spent_since', 'short', 'blocked', 'elsewhere')
local spent_since, short, blocked = marks[1], marks[2], marks[3]
-- What other regions have, as `note_elsewhere` noted it a moment ago. A clock that went back makes no note last.
local elsewhere, elsewhere_until = string.match(marks[4] or '', '^(%a+)|(%d+)$')
if elsewhere and (tonumber(elsewhere_until) <= now or tonumber(elsewhere_until) > now + 60000) then elsewhere = nil end
local away_count, left, closed, more = 0, 0, 0, false

local function scores_of(users)
  return #users > 0 and redis.call('ZMSCORE', keys.line, unpack(users)) or {}
end

-- Restores the positions of demoted users after the campaign has stopped requiring presence, or serves absent users.
local function restore_everyone()
  local back = redis.call('ZRANGEBYSCORE', keys.line, away_text, '+inf', 'WITHSCORES', 'LIMIT', 0, limit)
  plan.restored = {}
  for i = 1, #back, 2 do
    local score = number_in(back[i + 1])
    plan.line[back[i]], plan.presence[back[i]] = score, false
    table.insert(plan.restored, { back[i], score })
  end
  if #plan.restored == limit then more = true
  elseif c.presence_ms == 0 then table.insert(plan.unlinked, keys.presence) end
end

local function maintain_presence()
  if c.presence_ms == 0 or c.absent_hold_ms > 0 then
    restore_everyone()
    return
  end
  local unseen = redis.call('ZRANGEBYSCORE', keys.presence, '(0', now - c.presence_ms, 'LIMIT', 0, limit)
  for i, score in ipairs(scores_of(unseen)) do
    if score then check_presence(plan, unseen[i], score) else plan.presence[unseen[i]] = false end
  end
  away_count = #unseen
  local gone = redis.call('ZRANGEBYSCORE', keys.presence, -now, '(0', 'LIMIT', 0, limit)
  for i, score in ipairs(scores_of(gone)) do
    if score then revoke_place(plan, gone[i], score, 'left', 'absent') else plan.presence[gone[i]] = false end
  end
  left = #gone
  more = more or away_count == limit or left == limit
end

-- Returns for how long `what` has been the same, in ms. `field` of the campaign keeps it with its time.
local function lasted_ms(field, known, what)
  local whose, since = string.match(known or '', '^([^|]*)|(%d+)')
  if whose == tostring(what) then return math.max(0, now - tonumber(since)) end
  plan.fields[field] = what .. '|' .. now
  return 0
end

-- Closes the line. Where users may have codes, which become free again, at most `limit` users in one call.
local function close_line()
  if c.type == 'shared' then
    closed = c.waiting
    plan.line, plan.presence, plan.unlinked = {}, {}, { keys.line, keys.presence }
    c.waiting = 0
  else
    for _, place in ipairs(everyone(plan, limit)) do
      revoke_place(plan, place[1], place[2], 'closed', '')
      closed = closed + 1
    end
  end
  if c.waiting > 0 then
    more = true
    return
  end
  add_entry(plan, nil, 'kind', 'line_closed', 'no', c.no, 'at', now, 'up_to', c.last_line_no)
  table.insert(plan.news, 'line||closed')
end

-- Closes the line when no unit is free or held for `settle_ms`, here or in another region, so that no user can be
-- served. Returns whether this is so.
local function close_when_exhausted()
  local has_had_units = c.total > 0 or elsewhere == 'none'
  local spent = not c.unlimited and has_had_units and c.free + c.held == 0 and elsewhere ~= 'units'
  if spent then spent = lasted_ms('spent_since', spent_since, 'spent') >= settle_ms
  elseif spent_since then plan.fields.spent_since = false end
  if spent ~= c.spent then plan.fields.spent = spent and 1 or 0 end
  if spent and c.waiting > 0 then close_line() end
  return spent
end

-- Removes users who need more units than can ever be free, among the first `limit`, and notifies them.
local function remove_unservable()
  local left_units = c.free + c.held
  local user = head_of(plan)
  local head = user and waiting_person(plan, user)
  -- The head may have joined when the campaign allowed more units per user.
  local most = math.max(c.max_qty, head and head.qty or 0)
  if c.unlimited or c.total == 0 or most == 1 or left_units >= most or elsewhere == 'units' then
    if short then plan.fields.short = false end
    return
  end
  if lasted_ms('short', short, left_units) < settle_ms then return end
  for _, place in ipairs(everyone(plan, limit)) do
    local person = waiting_person(plan, place[1])
    if person and person.qty > left_units then
      revoke_place(plan, place[1], place[2], 'closed', 'unservable')
      closed = closed + 1
    end
  end
end

-- Serves users behind a group that needs more units than are free. Returns the number of promoted users.
local function serve_behind(head)
  local next_place, before, looked_at = places(plan), plan.promoted, 0
  local user, score = next_place()
  while user and looked_at < limit and c.free > 0 and not is_away(score) do
    if user ~= head then
      looked_at = looked_at + 1
      local person = waiting_person(plan, user)
      local fits = not person or person.qty <= c.free
      local may_be_served, absent = false, nil
      if fits then may_be_served, absent = check_presence(plan, user, score) end
      if may_be_served then
        local served = serve(plan, user, score, absent)
        -- No code is left in the pool.
        if served == 'stopped' then break end
        if served == 'closed' then closed = closed + 1 end
      end
    end
    user, score = next_place()
  end
  return plan.promoted - before
end

-- Promotes the head. `blocked` has the head's line number, the time since when it blocks the line, and the number of
-- rounds in which users behind it were served.
local function serve_head()
  local _, closed_places = promote_head(plan, limit)
  closed = closed + closed_places
  local user, score = head_of(plan)
  if c.unlimited or c.free == 0 or not user then return end
  local person = waiting_person(plan, user)
  if not person or person.qty <= c.free then return end
  local line_no = number_in(score)
  if lasted_ms('blocked', blocked, line_no) < group_wait_ms then return end
  local rounds = tonumber(string.match(blocked or '', '^' .. line_no .. '|%d+|(%d+)$') or 0)
  -- A group is passed over once. Afterwards free units are kept for it until it is served or leaves.
  if rounds > 0 then return end
  plan.fields.blocked = line_no .. '|' .. now .. '|' .. (serve_behind(user) > 0 and 1 or 0)
end

if c.waiting > 0 then maintain_presence() end
if not close_when_exhausted() and c.waiting > 0 then
  remove_unservable()
  serve_head()
end
return apply(plan, { 'tended', tostring(away_count), tostring(left), tostring(closed), tostring(plan.promoted),
  more and '1' or '0' })

-- Keeps a line honest: who is not there steps back and in the end loses his place (QUEUED to LEFT), who wants more than
-- is free stops the others only for so long, who can never be served is told (QUEUED to CLOSED), and the whole line when no
-- unit can come back any more.
--
-- KEYS campaign, people, reservations, deadlines, line, presence, codes, journal, news, epoch
-- ARGV
--   limit          people of each sort in one call; bounds how long Redis serves nobody else
--   group_wait_ms  how long free units are kept for somebody who wants more of them
--   settle_ms      how long there must have been nothing to wait for; a payment may be taken back at once
-- REPLY
--   tended away left closed promoted more    people; more 0|1: there was more to do than `limit`
--   not_found
--   rebuilding          Redis is fresh and not filled yet
-- JOURNALS left, line_closed, reserved

--#include clock
--#include generation
--#include records
--#include campaign
--#include codes
--#include journal
--#include pace
--#include presence
--#include hand_over

assert(#KEYS == 10 and #ARGV == 3, 'tend_line takes 10 keys and 3 arguments')
local epoch_key = KEYS[10]
local campaign_key = KEYS[1]
local keys = { campaign = KEYS[1], people = KEYS[2], reservations = KEYS[3], deadlines = KEYS[4], line = KEYS[5],
  presence = KEYS[6], codes = KEYS[7], journal = KEYS[8], news = KEYS[9] }
local limit, group_wait_ms, settle_ms = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])

local c = read_campaign(campaign_key)
if not c then return no_campaign(epoch_key) end
keys.generation = generation_of(epoch_key)
if not keys.generation then return { 'rebuilding' } end
local now = now_ms()
-- While it is paused everybody stays where he is.
if phase_of(c, now) ~= 'open' then return { 'tended', '0', '0', '0', '0', '0' } end
local away_count, left, closed, promoted, more = 0, 0, 0, 0, false

-- Somebody's place ends; he is told when he is not the one who ended it.
local function end_place(user, ending)
  local person = waiting_person(keys, user)
  redis.call('ZREM', keys.line, user)
  redis.call('ZREM', keys.presence, user)
  -- `queued` without a place in the line is how `closed` is told from `left`.
  person.state = ending == 'left' and 'left' or 'queued'
  free_code(campaign_key, keys.codes, c, person.code)
  person.code = ''
  redis.call('HSET', keys.people, user, pack_person(person))
  c.waiting = c.waiting - 1
  redis.call('XADD', keys.journal, keys.generation .. '-*', 'kind', 'left', 'no', c.no, 'user', user, 'line', person.line_no, 'ending', ending,
    'at', now, 'trace', '')
  redis.call('PUBLISH', keys.news, ending .. '|' .. user .. '|' .. person.reservation_id .. '||0')
end

local function tend_presence()
  if c.presence_ms == 0 then
    -- Presence matters no more: everybody has his place back.
    local back = redis.call('ZRANGEBYSCORE', keys.line, away_text, '+inf', 'LIMIT', 0, limit)
    for _, user in ipairs(back) do redis.call('ZINCRBY', keys.line, '-' .. away_text, user) end
    if #back < limit then redis.call('UNLINK', keys.presence) else more = true end
    return
  end
  local unseen = redis.call('ZRANGEBYSCORE', keys.presence, '(0', now - c.presence_ms, 'WITHSCORES', 'LIMIT', 0, limit)
  for i = 1, #unseen, 2 do step_back(c, keys, unseen[i], tonumber(unseen[i + 1])) end
  away_count = #unseen / 2
  local gone = redis.call('ZRANGEBYSCORE', keys.presence, -now, '(0', 'LIMIT', 0, limit)
  for _, user in ipairs(gone) do end_place(user, 'left') end
  left = #gone
  more = more or away_count == limit or left == limit
end

-- How long the same has been in the way, whatever it is; remembered in a field of the campaign.
local function lasted_ms(field, what)
  local text = redis.call('HGET', campaign_key, field)
  local since = text and string.match(text, '^' .. what .. '|(%d+)$')
  if since then return math.max(0, now - tonumber(since)) end
  redis.call('HSET', campaign_key, field, what .. '|' .. now)
  return 0
end

local function close_line()
  if c.type == 'shared' then
    closed = c.waiting
    redis.call('UNLINK', keys.line, keys.presence)
    c.waiting = 0
  else
    -- Each may have come with a code of his own, which is free again.
    local users = redis.call('ZRANGE', keys.line, 0, limit - 1)
    for _, user in ipairs(users) do
      local person = waiting_person(keys, user)
      if person.code ~= '' then
        free_code(campaign_key, keys.codes, c, person.code)
        person.code = ''
        redis.call('HSET', keys.people, user, pack_person(person))
      end
      redis.call('ZREM', keys.line, user)
      redis.call('ZREM', keys.presence, user)
    end
    closed = #users
    c.waiting = c.waiting - closed
  end
  if c.waiting > 0 then
    more = true
    return
  end
  redis.call('XADD', keys.journal, keys.generation .. '-*', 'kind', 'line_closed', 'no', c.no, 'up_to', c.last_line_no, 'at', now)
  redis.call('PUBLISH', keys.news, 'line||closed')
end

-- Everything is used up, and was for long enough: nobody can be served any more.
local function tend_end()
  local spent = not c.unlimited and c.total > 0 and c.free + c.held == 0
  if spent then spent = lasted_ms('spent_since', 'spent') >= settle_ms
  else redis.call('HDEL', campaign_key, 'spent_since') end
  if spent ~= c.spent then redis.call('HSET', campaign_key, 'spent', spent and 1 or 0) end
  if spent and c.waiting > 0 then close_line() end
  return spent
end

-- Serves those behind somebody for whom there is not enough, once, if it is enough for them.
local function serve_behind(head)
  local users = redis.call('ZRANGE', keys.line, 1, limit, 'WITHSCORES')
  local served = 0
  for i = 1, #users, 2 do
    local user = users[i]
    if c.free == 0 or is_away(users[i + 1]) then break end
    local person = waiting_person(keys, user)
    if person.qty <= c.free and is_there(c, keys, user, now) then
      if not promote_one(c, keys, now, user, person) then break end
      served = served + 1
    end
  end
  promoted = promoted + served
  if served > 0 then count_pace(campaign_key, now, served) end
  redis.call('HSET', campaign_key, 'blocked', head .. '|' .. now)
end

-- Whoever wants more than can ever be free is told, and stands in nobody's way; looked for among the first `limit`.
local function tend_groups()
  local left_units = c.free + c.held
  if c.unlimited or c.total == 0 or left_units >= c.max_qty then
    redis.call('HDEL', campaign_key, 'short')
    return
  end
  if lasted_ms('short', left_units) < settle_ms then return end
  for _, user in ipairs(redis.call('ZRANGE', keys.line, 0, limit - 1)) do
    if waiting_person(keys, user).qty > left_units then
      end_place(user, 'closed')
      closed = closed + 1
    end
  end
end

local function tend_head()
  promoted = hand_over(c, keys, now, limit)
  local user, line_no = head_of(keys.line)
  if c.unlimited or c.free == 0 or not user then return end
  if waiting_person(keys, user).qty <= c.free then return end
  if lasted_ms('blocked', line_no) >= group_wait_ms then serve_behind(line_no) end
end

if c.waiting > 0 then tend_presence() end
if not tend_end() and c.waiting > 0 then
  if c.max_qty > 1 then tend_groups() end
  tend_head()
end
if left + closed + promoted > 0 then save_counters(campaign_key, c) end
return { 'tended', tostring(away_count), tostring(left), tostring(closed), tostring(promoted), more and '1' or '0' }

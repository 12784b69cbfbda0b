-- Returns the first users in a line, and the reason why no user is promoted. Only reads. The cost depends on `limit`,
-- not on the length of the line.
--
-- KEYS campaign, people, line, presence, codes, epoch
-- ARGV
--   limit:int     users in the reply, at most 100
-- REPLY
--   line reason queue_size free user qty reservation_id away...
--       reason: no_line, nobody_waits, draft, not_started, paused, ended, nothing_free, head_wants_more, codes_used_up,
--         nobody_there (all users are demoted or about to be);
--         handing_over = none of these: the next promotion serves the head
--       free -1 = unlimited; the last four for each user in line order, demoted users last; away 0|1
--   not_found
--   rebuilding          Redis is empty and has not been filled yet
-- JOURNALS nothing

--#include clock
--#include records
--#include campaign
--#include codes
--#include presence

assert(limit >= 1 and limit <= 100, 'limit must be from 1 to 100')

local c = read_campaign(campaign_key)
if not c then return no_campaign(epoch_key) end

-- Returns the first present user of the reply. A user who was not seen for `presence_ms` is demoted at the next
-- promotion.
local function first_present(users, people)
  local now = now_ms()
  for i = 1, #people do
    if is_away(users[2 * i]) then return nil end
    local seen = c.presence_ms > 0 and redis.call('ZSCORE', presence_key, users[2 * i - 1])
    if not seen or tonumber(seen) > now - c.presence_ms then return people[i] end
  end
  return nil
end

-- Tests in the same order as includes/promote_head.lua.
local function blocking_reason(head)
  if c.waiting == 0 then return c.line_enabled and 'nobody_waits' or 'no_line' end
  local phase = phase_of(c, now_ms())
  if phase ~= 'open' then return phase end
  if not c.unlimited and c.free == 0 then return 'nothing_free' end
  if not head then return 'nobody_there' end
  if not c.unlimited and head.qty > c.free then return 'head_wants_more' end
  if head.code == '' and c.type == 'pool' and not next_code(codes_key, c, {}) then return 'codes_used_up' end
  return 'handing_over'
end

local users = redis.call('ZRANGE', line_key, 0, limit - 1, 'WITHSCORES')
local people = {}
if #users > 0 then
  local names = {}
  for i = 1, #users, 2 do names[#names + 1] = users[i] end
  for i, packed in ipairs(redis.call('HMGET', people_key, unpack(names))) do people[i] = unpack_person(packed) end
end
local reply = { 'line', blocking_reason(first_present(users, people)), tostring(c.waiting), tostring(c.unlimited and -1 or c.free) }
for i, person in ipairs(people) do
  reply[#reply + 1] = users[2 * i - 1]
  reply[#reply + 1] = tostring(person.qty)
  reply[#reply + 1] = person.reservation_id
  reply[#reply + 1] = is_away(users[2 * i]) and '1' or '0'
end
return reply

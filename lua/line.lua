-- The head of a campaign's line, and why nobody is promoted from it. Reads only, and as many people as are asked for: the
-- length of the line costs nothing.
--
-- KEYS campaign, people, line, codes, epoch
-- ARGV
--   limit         people of the head that are told, at most 100
-- REPLY
--   line reason waiting free user qty reservation_id...
--       reason: no_line, nobody_waits, draft, not_started, paused, ended, nothing_free, head_wants_more, codes_used_up;
--         handing_over = none of them, the head gets its units with the next promotion
--       free -1 = unlimited; the last three for each person, first in line first
--   not_found
--   rebuilding          Redis is fresh and not filled yet
-- JOURNALS nothing

--#include clock
--#include records
--#include campaign

assert(#KEYS == 5 and #ARGV == 1, 'line takes 5 keys and 1 argument')
local epoch_key = KEYS[5]
local campaign_key, people_key, line_key, codes_key = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local limit = tonumber(ARGV[1])
assert(limit >= 1 and limit <= 100, 'the head of the line is told for 1 to 100 people')

local c = read_campaign(campaign_key)
if not c then return no_campaign(epoch_key) end

-- As next_code of includes/codes.lua looks for it, without keeping where it was found: this script writes nothing.
local function has_free_code()
  local bit = redis.call('BITPOS', codes_key, 0, c.code_hint)
  if bit < 0 then bit = redis.call('STRLEN', codes_key) * 8 end
  return bit < c.codes
end

-- In the order in which includes/hand_over.lua stops.
local function why_nobody(head)
  if c.waiting == 0 then return c.line_enabled and 'nobody_waits' or 'no_line' end
  local phase = phase_of(c, now_ms())
  if phase ~= 'open' then return phase end
  if not c.unlimited and c.free == 0 then return 'nothing_free' end
  if not c.unlimited and head.qty > c.free then return 'head_wants_more' end
  if head.code == '' and c.type == 'pool' and not has_free_code() then return 'codes_used_up' end
  return 'handing_over'
end

local users = redis.call('ZRANGE', line_key, 0, limit - 1)
local people = {}
if #users > 0 then
  for i, packed in ipairs(redis.call('HMGET', people_key, unpack(users))) do people[i] = unpack_person(packed) end
end
local reply = { 'line', why_nobody(people[1]), tostring(c.waiting), tostring(c.unlimited and -1 or c.free) }
for i, user in ipairs(users) do
  reply[#reply + 1] = user
  reply[#reply + 1] = tostring(people[i].qty)
  reply[#reply + 1] = people[i].reservation_id
end
return reply

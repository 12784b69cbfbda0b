-- The sweep: reservations whose deadline has passed go from RESERVED to EXPIRED, at most `limit` in one call, and each
-- unit to the head of the line, else to stock.
--
-- KEYS campaign, people, reservations, deadlines, line, presence, codes, journal, news, epoch
-- ARGV
--   limit         reservations in one call; bounds how long Redis serves nobody else
-- REPLY
--   swept expired promoted due entry...     due: how many more are over their deadline now
--       entry: each appended journal entry as JSON (lua/README.md)
--   not_found
--   rebuilding          Redis is fresh and not filled yet
-- JOURNALS expired, reserved (the next in line), left (of those in line who cannot be served)

--#include clock
--#include generation
--#include records
--#include campaign
--#include codes
--#include journal
--#include pace
--#include presence
--#include plan
--#include places
--#include hand_over

assert(#KEYS == 10 and #ARGV == 1, 'expire takes 10 keys and 1 argument')
local epoch_key = KEYS[10]
local campaign_key = KEYS[1]
local keys = { campaign = KEYS[1], people = KEYS[2], reservations = KEYS[3], deadlines = KEYS[4], line = KEYS[5],
  presence = KEYS[6], codes = KEYS[7], journal = KEYS[8], news = KEYS[9] }
local limit = tonumber(ARGV[1])

local c = read_campaign(campaign_key)
if not c then return no_campaign(epoch_key) end
local generation = generation_of(epoch_key)
if not generation then return { 'rebuilding' } end
local now = now_ms()
local plan = new_plan(c, keys, generation, now)
local due = redis.call('ZCOUNT', keys.deadlines, '-inf', now)
local overdue = redis.call('ZRANGEBYSCORE', keys.deadlines, '-inf', now, 'LIMIT', 0, limit)
for _, reservation_id in ipairs(overdue) do
  local text = redis.call('HGET', keys.reservations, reservation_id)
  local reservation = unpack_reservation(text or '')
  assert(reservation.state == 'reserved', 'a reservation with a deadline is not reserved')
  give_back(plan, reservation_id, reservation, 'expired', 'reason', 'deadline', 'trace', '')
end
-- Units may also be free while people wait: after a pause, a restock, or when the head wanted more than there was.
hand_over(plan, limit)
return apply(plan, { 'swept', tostring(#overdue), tostring(plan.promoted), tostring(due - #overdue) })

-- The sweep: reservations whose deadline has passed go from RESERVED to EXPIRED, at most `limit` in one call, and each
-- unit to the head of the line, else to stock.
--
-- KEYS campaign, people, reservations, deadlines, line, presence, codes, journal, news, epoch
-- ARGV
--   limit:int     reservations in one call; bounds how long Redis serves no other call
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
--#include promote_head

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
  return_units(plan, reservation_id, reservation, 'expired', 'reason', 'deadline', 'trace', '')
end
-- Units may also be free while people wait: after a pause, a restock, or when the head wanted more than there was.
promote_head(plan, limit)
return apply(plan, { 'swept', tostring(#overdue), tostring(plan.promoted), tostring(due - #overdue) })

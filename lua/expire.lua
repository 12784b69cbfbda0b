-- Expires reservations whose deadline has passed: RESERVED to EXPIRED, at most `limit` in one call. Each unit goes to
-- the head of the line, else to stock.
--
-- KEYS campaign, people, reservations, deadlines, line, presence, codes, journal, news, epoch
-- ARGV
--   limit:int     reservations in one call; bounds how long the script blocks Redis
-- REPLY
--   swept expired promoted due entry...     due: number of further reservations past their deadline
--       entry: each appended journal entry as JSON (lua/README.md)
--   not_found
--   rebuilding          Redis is empty and has not been filled yet
-- JOURNALS expired, reserved (the next in line), left (users in line who cannot be served)

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
local plan = new_plan(c, keys, generation, now)
local due = redis.call('ZCOUNT', keys.deadlines, '-inf', now)
local overdue = redis.call('ZRANGEBYSCORE', keys.deadlines, '-inf', now, 'LIMIT', 0, limit)
for _, reservation_id in ipairs(overdue) do
  local text = redis.call('HGET', keys.reservations, reservation_id)
  local reservation = unpack_reservation(text or '')
  assert(reservation.state == 'reserved', 'a reservation with a deadline is not reserved')
  return_units(plan, reservation_id, reservation, 'expired', 'reason', 'deadline', 'trace', '')
end
-- Units may be free while users wait: after a pause, a restock, or when the head needs more units than are free.
promote_head(plan, limit)
return apply(plan, { 'swept', tostring(#overdue), tostring(plan.promoted), tostring(due - #overdue) })

-- The sweep: reservations whose deadline has passed go from RESERVED to EXPIRED, at most `limit` in one call, and each
-- unit to the head of the line, else to stock.
--
-- KEYS campaign, people, reservations, deadlines, line, presence, codes, journal, news, epoch
-- ARGV
--   limit         reservations in one call; bounds how long Redis serves nobody else
-- REPLY
--   swept expired promoted due   due: how many more are over their deadline now
--   not_found
--   rebuilding          Redis is fresh and not filled yet
-- JOURNALS expired, reserved (the next in line)

--#include clock
--#include generation
--#include records
--#include campaign
--#include codes
--#include journal
--#include pace
--#include presence
--#include hand_over
--#include give_back

assert(#KEYS == 10 and #ARGV == 1, 'expire takes 10 keys and 1 argument')
local epoch_key = KEYS[10]
local campaign_key = KEYS[1]
local keys = { campaign = KEYS[1], people = KEYS[2], reservations = KEYS[3], deadlines = KEYS[4], line = KEYS[5],
  presence = KEYS[6], codes = KEYS[7], journal = KEYS[8], news = KEYS[9] }
local limit = tonumber(ARGV[1])

local c = read_campaign(campaign_key)
if not c then return no_campaign(epoch_key) end
keys.generation = generation_of(epoch_key)
if not keys.generation then return { 'rebuilding' } end
local now = now_ms()
local overdue = redis.call('ZRANGEBYSCORE', keys.deadlines, '-inf', now, 'LIMIT', 0, limit)
local promoted = 0
for _, reservation_id in ipairs(overdue) do
  local reservation = unpack_reservation(redis.call('HGET', keys.reservations, reservation_id))
  assert(reservation.state == 'reserved', 'a reservation with a deadline is not reserved')
  promoted = promoted + give_back(c, keys, now, reservation_id, reservation, 'expired',
    { 'reason', 'deadline', 'trace', '' })
end
-- Units may also be free while people wait: after a pause, a restock, or when the head wanted more than there was.
promoted = promoted + hand_over(c, keys, now, limit)
if #overdue > 0 or promoted > 0 then save_counters(campaign_key, c) end
return { 'swept', tostring(#overdue), tostring(promoted), tostring(redis.call('ZCOUNT', keys.deadlines, '-inf', now)) }

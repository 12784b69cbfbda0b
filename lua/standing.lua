-- Where a shopper stands. Reads only.
--
-- KEYS campaign, people, reservations, line, epoch
-- ARGV
--   user
--   place         reservation id of the unit that is asked about; the user's last place or unit when it is "", or none
--                 of the user's units
-- REPLY
--   standing status position waiting reservation_id order_id due_ms code pace presence_ms durable
--       status: not_queued, queued, promoted, completed, redeemed, released, expired, left, closed
--       position 0 = not in the line; reservation to code are "", "", 0, "" when the user holds nothing
--       pace: ms for each person in the line, "" = unknown; presence_ms 0 = presence does not matter
--       durable 0|1: answers wait for Postgres
--   archived pass presence_ms    not here, and the campaign is archived: Postgres may have it
--   not_found
--   rebuilding          Redis is fresh and not filled yet
-- JOURNALS nothing

--#include clock
--#include records
--#include campaign
--#include pace
--#include presence

assert(#KEYS == 5 and #ARGV == 2, 'standing takes 5 keys and 2 arguments')
local epoch_key = KEYS[5]
local campaign_key, people_key, reservations_key, line_key = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local user, place = ARGV[1], ARGV[2]

local c = read_campaign(campaign_key)
if not c then return no_campaign(epoch_key) end
if c.status == 'draft' then return { 'not_found' } end
local now = now_ms()
local person = unpack_person(redis.call('HGET', people_key, user))
local waiting, presence_ms, durable = tostring(c.waiting), tostring(c.presence_ms), c.durable and '1' or '0'
if person.state == 'new' and c.archived then return { 'archived', c.archived, presence_ms } end
if person.state == 'new' then return { 'standing', 'not_queued', '0', waiting, '', '', '0', '', '', presence_ms, durable } end
-- The unit that is asked about, when it is not the last one of the user.
local earlier = place ~= '' and place ~= person.reservation_id and redis.call('HGET', reservations_key, place)
earlier = earlier and unpack_reservation(earlier)
if earlier and earlier.user ~= user then earlier = nil end
local reservation_id = earlier and place or person.reservation_id
if not earlier and person.state == 'left' then return { 'standing', 'left', '0', waiting, '', '', '0', '', '', presence_ms, durable } end
if not earlier and person.state == 'queued' then
  local score = redis.call('ZSCORE', line_key, user)
  if not score or phase_of(c, now) == 'ended' then return { 'standing', 'closed', '0', waiting, '', '', '0', '', '', presence_ms, durable } end
  -- A user who stepped back has the position that they would come back to.
  local rank = is_away(score) and redis.call('ZCOUNT', line_key, '-inf', '(' .. person.line_no)
    or redis.call('ZRANK', line_key, user)
  return { 'standing', 'queued', tostring(rank + 1), waiting, '', '', '0', '', pace_of(campaign_key, now), presence_ms, durable }
end

local reservation = earlier or unpack_reservation(redis.call('HGET', reservations_key, reservation_id))
local status = reservation.state
if status == 'reserved' then
  -- By the clock the promise is over although the sweep has not come yet.
  if now >= reservation.due then status = 'expired'
  elseif reservation.line_no > 0 then status = 'promoted'
  else status = 'completed' end
elseif status == 'reacquired' then status = 'redeemed'
elseif status == 'refunded' or status == 'burned' or status == 'voided' then status = 'released' end
return { 'standing', status, '0', waiting, reservation_id, reservation.order_id, tostring(reservation.due),
  reservation.code, '', presence_ms, durable }

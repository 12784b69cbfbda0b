-- Returns the status of several shoppers of one campaign. Only reads; the caller bounds the number of shoppers.
--
-- KEYS campaign, people, reservations, line, epoch
-- EACH (at most 64)
--   user
--   place             reservation id of a unit or place; "" or a unit of another user = the user's last place or unit.
--                     For an ended place of a user who waits again, the status is left
-- REPLY
--   standings is_bucket queue_size presence_ms durable pace_ms standing...    one for each user in their order
--       is_bucket "bucket" = the campaign is divided, and this is one bucket; "" = it is not
--       presence_ms 0 = presence does not matter; durable 0|1: whether responses wait for Postgres
--       pace_ms: between two promotions, "" = unknown, or none of these users waits
--       standing is one of
--         status|position|reservation_id|order_id|due_ms|code|qty
--             status: not_queued, queued, promoted, completed, redeemed, released, expired, left, closed
--             position 0 = not in the line; in a bucket: the line number; the rest is "", "", 0, "", 0 when the user
--             holds nothing
--         archived|pass    the campaign is archived and Redis lacks the record; Postgres may have it
--         failed|why       a record of this user is malformed
--   not_found
--   rebuilding          Redis is empty and has not been filled yet
-- JOURNALS nothing

--#include clock
--#include records
--#include campaign
--#include pace
--#include presence

local c = read_campaign(campaign_key)
if not c then return no_campaign(epoch_key) end
if c.status == 'draft' then return { 'not_found' } end
local now, pace = now_ms(), ''
local people = redis.call('HMGET', people_key, unpack(each_user))

local function standing_of(user, place, record)
  local person = unpack_person(record)
  if person.state == 'new' then return c.archived and 'archived|' .. c.archived or 'not_queued|0|||0||0' end
  -- The requested unit, if it is not the last one of the user.
  local earlier = place ~= '' and place ~= person.reservation_id and redis.call('HGET', reservations_key, place)
  earlier = earlier and unpack_reservation(earlier)
  if earlier and earlier.user ~= user then earlier = nil end
  local reservation_id = earlier and place or person.reservation_id
  if not earlier and person.state == 'left' then return 'left|0|||0||0' end
  if not earlier and person.state == 'queued' then
    if place ~= '' and place ~= person.reservation_id then return 'left|0|||0||0' end
    local score = redis.call('ZSCORE', line_key, user)
    if not score or phase_of(c, now) == 'ended' then return 'closed|0|||0||0' end
    -- A demoted user has the position that they would get back.
    local rank = is_away(score) and redis.call('ZCOUNT', line_key, '-inf', '(' .. person.line_no)
      or redis.call('ZRANK', line_key, user)
    if pace == '' then pace = pace_of(campaign_key, now) end
    return 'queued|' .. (c.bucket and number_in(score) or rank + 1) .. '|||0||0'
  end

  local reservation = earlier or unpack_reservation(redis.call('HGET', reservations_key, reservation_id))
  local status = reservation.state
  if status == 'reserved' then
    -- The deadline has passed, even if no sweep has expired the reservation yet.
    if now >= reservation.due then status = 'expired'
    elseif reservation.line_no > 0 then status = 'promoted'
    else status = 'completed' end
  elseif status == 'reacquired' then status = 'redeemed'
  elseif status == 'refunded' or status == 'burned' or status == 'voided' then status = 'released' end
  return status .. '|0|' .. reservation_id .. '|' .. reservation.order_id .. '|' .. reservation.due .. '|' .. reservation.code ..
    '|' .. reservation.qty
end

local standings = {}
for i, user in ipairs(each_user) do
  local ok, standing = pcall(standing_of, user, each_place[i], people[i])
  standings[i] = ok and standing or 'failed|' .. tostring(standing)
end
return { 'standings', c.bucket and 'bucket' or '', tostring(c.waiting), tostring(c.presence_ms), c.durable and '1' or '0',
  pace, unpack(standings) }

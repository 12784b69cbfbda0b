-- Checks whether a reservation, or a place in line, still takes part in its order. If it has ended, the script marks
-- its claim as ended, so that the order accepts other codes. Called only when a claim excludes another one.
--
-- KEYS campaign, people, reservations, line, order, epoch
-- ARGV
--   reservation_id
--   user
--   unknown:flag  Postgres has no such reservation, so it has ended
-- REPLY
--   held
--   freed
--   archived pass     the campaign is archived and Redis lacks the record; Postgres may have it
--   not_found
--   rebuilding          Redis is empty and has not been filled yet
-- JOURNALS nothing: the end of the reservation is in the journal

--#include records
--#include campaign
--#include orders

local c = read_campaign(campaign_key)
if not c then return no_campaign(epoch_key) end
local text = redis.call('HGET', reservations_key, reservation_id)
local person = unpack_person(redis.call('HGET', people_key, user))
local held
if text then
  local state = unpack_reservation(text).state
  held = state == 'reserved' or state == 'redeemed' or state == 'reacquired'
elseif person.state == 'queued' and person.reservation_id == reservation_id then
  held = redis.call('ZSCORE', line_key, user)
elseif c.archived and not unknown then
  return { 'archived', c.archived }
end
if held then return { 'held' } end
local claims = with_ended(claims_on(order_key), reservation_id)
if claims ~= '' then redis.call('SET', order_key, claims, 'KEEPTTL') end
return { 'freed' }

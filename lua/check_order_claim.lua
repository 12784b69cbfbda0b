-- Whether a reservation, or a place in line, still takes part in its order. The claim of one that has ended is removed, so
-- that the order is free for other codes. Asked only when a claim is in the way of another one.
--
-- KEYS campaign, people, reservations, line, order, epoch
-- ARGV
--   reservation_id
--   user
--   unknown       0|1, Postgres has no such reservation: then it has ended
-- REPLY
--   held
--   freed
--   archived pass     not here, and the campaign is archived: Postgres may have it
--   not_found
--   rebuilding          Redis is fresh and not filled yet
-- JOURNALS nothing: the end of the reservation is in the journal

--#include records
--#include campaign
--#include orders

assert(#KEYS == 6 and #ARGV == 3, 'check_order_claim takes 6 keys and 3 arguments')
local epoch_key = KEYS[6]
local campaign_key, people_key, reservations_key, line_key, order_key = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local reservation_id, user, unknown = ARGV[1], ARGV[2], ARGV[3]

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
elseif c.archived and unknown == '0' then
  return { 'archived', c.archived }
end
if held then return { 'held' } end
local rest = packed_claims(claims_on(order_key), reservation_id)

if rest == '' then
  redis.call('UNLINK', order_key)
else
  redis.call('SET', order_key, rest, 'KEEPTTL')
end
return { 'freed' }

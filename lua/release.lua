-- The unit is given up, by the payment service or by its holder: RESERVED to RELEASED (EXPIRED when the deadline has
-- passed). The unit goes to the head of the line, else to stock, and is given back once.
--
-- KEYS campaign, people, reservations, deadlines, line, presence, codes, journal, news, epoch
-- ARGV
--   reservation_id
--   holder        the user a ticket names; "" = a service, which may release anyone's
--   reason        free text for the record, "" = none
--   trace         traceparent, "" = none
-- REPLY
--   released state      state released|expired; the same reply every time
--   settled state       redeemed, reacquired, refunded, burned or voided: nothing to release
--   foreign             the reservation is not the holder's
--   archived pass     not here, and the campaign is archived: Postgres may have it
--   not_found
--   rebuilding          Redis is fresh and not filled yet
-- JOURNALS released, expired, reserved (the next in line)

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

assert(#KEYS == 10 and #ARGV == 4, 'release takes 10 keys and 4 arguments')
local epoch_key = KEYS[10]
local campaign_key = KEYS[1]
local keys = { campaign = KEYS[1], people = KEYS[2], reservations = KEYS[3], deadlines = KEYS[4], line = KEYS[5],
  presence = KEYS[6], codes = KEYS[7], journal = KEYS[8], news = KEYS[9] }
local reservation_id, holder, reason, trace = ARGV[1], ARGV[2], ARGV[3], ARGV[4]

local c = read_campaign(campaign_key)
if not c then return no_campaign(epoch_key) end
keys.generation = generation_of(epoch_key)
if not keys.generation then return { 'rebuilding' } end
local text = redis.call('HGET', keys.reservations, reservation_id)
if not text and c.archived then return { 'archived', c.archived } end
if not text then return { 'not_found' } end
local reservation = unpack_reservation(text)
if holder ~= '' and holder ~= reservation.user then return { 'foreign' } end
if reservation.state == 'released' or reservation.state == 'expired' then return { 'released', reservation.state } end
if reservation.state ~= 'reserved' then return { 'settled', reservation.state } end

local now = now_ms()
local ending = now < reservation.due and 'released' or 'expired'
give_back(c, keys, now, reservation_id, reservation, ending, { 'reason', reason, 'trace', trace })
save_counters(campaign_key, c)
return { 'released', ending }

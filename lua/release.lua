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
--   released state durable entry...     state released|expired; the same for each repetition, which appends no entry
--   settled state durable     redeemed, reacquired, refunded, burned or voided: there is nothing to release
--       durable 0|1: answers wait for Postgres; entry: each appended journal entry as JSON (lua/README.md)
--   foreign             the reservation is not the holder's
--   archived pass     not here, and the campaign is archived: Postgres may have it
--   not_found
--   rebuilding          Redis is fresh and not filled yet
-- JOURNALS released, expired, reserved (the next in line), left (of those in line who cannot be served)

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

assert(#KEYS == 10 and #ARGV == 4, 'release takes 10 keys and 4 arguments')
local epoch_key = KEYS[10]
local campaign_key = KEYS[1]
local keys = { campaign = KEYS[1], people = KEYS[2], reservations = KEYS[3], deadlines = KEYS[4], line = KEYS[5],
  presence = KEYS[6], codes = KEYS[7], journal = KEYS[8], news = KEYS[9] }
local reservation_id, holder, reason, trace = ARGV[1], ARGV[2], ARGV[3], ARGV[4]

local c = read_campaign(campaign_key)
if not c then return no_campaign(epoch_key) end
local generation = generation_of(epoch_key)
if not generation then return { 'rebuilding' } end
local text = redis.call('HGET', keys.reservations, reservation_id)
if not text and c.archived then return { 'archived', c.archived } end
if not text then return { 'not_found' } end
local reservation = unpack_reservation(text)
if holder ~= '' and holder ~= reservation.user then return { 'foreign' } end
local durable = c.durable and '1' or '0'
if reservation.state == 'released' or reservation.state == 'expired' then return { 'released', reservation.state, durable } end
if reservation.state ~= 'reserved' then return { 'settled', reservation.state, durable } end

local now = now_ms()
local plan = new_plan(c, keys, generation, now)
local ending = now < reservation.due and 'released' or 'expired'
give_back(plan, reservation_id, reservation, ending, 'reason', reason, 'trace', trace)
return apply(plan, { 'released', ending, durable })

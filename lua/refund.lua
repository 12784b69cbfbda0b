-- Money goes back: REDEEMED to REFUNDED. By the campaign's `refund_policy` the unit returns (to the head of the line,
-- else to stock; the user's allowance is free again) or is burned (nobody gets it; the allowance stays used).
--
-- KEYS campaign, people, reservations, deadlines, line, presence, codes, journal, news, epoch
-- ARGV
--   reservation_id
--   trace         traceparent, "" = none
-- REPLY
--   refunded returned   returned 0|1; the same reply every time
--   unpaid state        reserved, released, expired or voided: never redeemed
--   archived pass     not here, and the campaign is archived: Postgres may have it
--   not_found
--   rebuilding          Redis is fresh and not filled yet
-- JOURNALS refunded, reserved (the next in line)

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

assert(#KEYS == 10 and #ARGV == 2, 'refund takes 10 keys and 2 arguments')
local epoch_key = KEYS[10]
local campaign_key = KEYS[1]
local keys = { campaign = KEYS[1], people = KEYS[2], reservations = KEYS[3], deadlines = KEYS[4], line = KEYS[5],
  presence = KEYS[6], codes = KEYS[7], journal = KEYS[8], news = KEYS[9] }
local reservation_id, trace = ARGV[1], ARGV[2]

local c = read_campaign(campaign_key)
if not c then return no_campaign(epoch_key) end
keys.generation = generation_of(epoch_key)
if not keys.generation then return { 'rebuilding' } end
local text = redis.call('HGET', keys.reservations, reservation_id)
if not text and c.archived then return { 'archived', c.archived } end
if not text then return { 'not_found' } end
local reservation = unpack_reservation(text)
if reservation.state == 'refunded' then return { 'refunded', '1' } end
if reservation.state == 'burned' then return { 'refunded', '0' } end
if reservation.state ~= 'redeemed' and reservation.state ~= 'reacquired' then return { 'unpaid', reservation.state } end

local now = now_ms()
if c.refund_policy == 'burn' then
  reservation.state = 'burned'
  redis.call('HSET', keys.reservations, reservation_id, pack_reservation(reservation))
  c.redeemed, c.burned = c.redeemed - reservation.qty, c.burned + reservation.qty
  redis.call('XADD', keys.journal, keys.generation .. '-*', 'kind', 'refunded', 'no', c.no, 'reservation', reservation_id, 'at', now,
    'burned', 1, 'trace', trace)
else
  give_back(c, keys, now, reservation_id, reservation, 'refunded', { 'burned', 0, 'trace', trace })
end
save_counters(campaign_key, c)
return { 'refunded', c.refund_policy == 'burn' and '0' or '1' }

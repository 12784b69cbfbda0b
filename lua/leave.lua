-- Somebody gives up his place: QUEUED to LEFT. Those behind him move up, and may be served if only he stood in the way.
--
-- KEYS campaign, people, reservations, deadlines, line, presence, codes, journal, news, epoch
-- ARGV
--   user
--   trace         traceparent, "" = none
-- REPLY
--   left          also when he had left before
--   not_waiting   he holds a reservation or never was in the line
--   archived pass     not here, and the campaign is archived: Postgres may have it
--   not_found
--   rebuilding          Redis is fresh and not filled yet
-- JOURNALS left, reserved (the next in line)

--#include clock
--#include generation
--#include records
--#include campaign
--#include codes
--#include journal
--#include pace
--#include presence
--#include hand_over

assert(#KEYS == 10 and #ARGV == 2, 'leave takes 10 keys and 2 arguments')
local epoch_key = KEYS[10]
local campaign_key = KEYS[1]
local keys = { campaign = KEYS[1], people = KEYS[2], reservations = KEYS[3], deadlines = KEYS[4], line = KEYS[5],
  presence = KEYS[6], codes = KEYS[7], journal = KEYS[8], news = KEYS[9] }
local user, trace = ARGV[1], ARGV[2]

local c = read_campaign(campaign_key)
if not c then return no_campaign(epoch_key) end
keys.generation = generation_of(epoch_key)
if not keys.generation then return { 'rebuilding' } end
local person = unpack_person(redis.call('HGET', keys.people, user))
if person.state == 'new' and c.archived then return { 'archived', c.archived } end
if person.state == 'left' then return { 'left' } end
if person.state ~= 'queued' then return { 'not_waiting' } end
-- A closed campaign has dropped its line already.
if redis.call('ZREM', keys.line, user) == 0 then return { 'not_waiting' } end
redis.call('ZREM', keys.presence, user)

local now = now_ms()
person.state = 'left'
free_code(campaign_key, keys.codes, c, person.code)
person.code = ''
redis.call('HSET', keys.people, user, pack_person(person))
c.waiting = c.waiting - 1
redis.call('XADD', keys.journal, keys.generation .. '-*', 'kind', 'left', 'no', c.no, 'user', user, 'line', person.line_no, 'ending',
  'left', 'at', now, 'trace', trace)
hand_over(c, keys, now, c.max_qty)
save_counters(campaign_key, c)
return { 'left' }

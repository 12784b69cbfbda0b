-- A user leaves the line: QUEUED to LEFT. Users behind move up. They are served if only this user blocked them.
--
-- KEYS campaign, people, reservations, deadlines, line, presence, codes, journal, news, epoch
-- ARGV
--   user
--   place         reservation id of the place; "" = the current place of the user
--   trace         traceparent, "" = none
--   actor         the operator who removes the user, for the audit log; "" = the user leaves
--   request_id    of the operator, "" = none
--   reason        of the operator, for the audit log; "" = none
-- REPLY
--   left durable entry...     also when the user had left before, which appends no entry
--       durable 0|1: whether responses wait for Postgres; entry: each appended journal entry as JSON (lua/README.md)
--   not_waiting is_bucket   the user holds a reservation, has another place, or was never in the line
--       is_bucket "bucket" = the campaign is divided, and this is one bucket; "" = it is not
--   archived pass     the campaign is archived and Redis lacks the record; Postgres may have it
--   not_found
--   rebuilding          Redis is empty and has not been filled yet
-- JOURNALS left, reserved (the next in line)

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
local plan = new_plan(c, keys, generation, now_ms())
local person, durable = person_of(plan, user), c.durable and '1' or '0'
local not_waiting = { 'not_waiting', c.bucket and 'bucket' or '' }
if person.state == 'new' and c.archived then return { 'archived', c.archived } end
if place ~= '' and place ~= person.reservation_id then return not_waiting end
if person.state == 'left' then return { 'left', durable } end
if person.state ~= 'queued' then return not_waiting end
-- A closed campaign has dropped its line already.
local score = redis.call('ZSCORE', keys.line, user)
if not score then return not_waiting end

local removed = actor ~= '' and { 'by', actor, 'request', request_id, 'note', reason } or {}
end_place(plan, user, score, 'left', '', trace, unpack(removed))
promote_head(plan, c.max_qty)
return apply(plan, { 'left', durable })

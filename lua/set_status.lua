-- Opens, pauses, resumes or closes a campaign, for an operator or by the clock.
--
-- KEYS campaign, line, presence, journal, news, epoch
-- ARGV
--   action        open (now; a later starts_at becomes now) | pause | resume | close
--                 start (by the clock, once starts_at has passed) | finish (by the clock, once ends_at has passed)
--                 publish (a draft becomes scheduled or open)
--   actor         the operator, or the clock, for the audit log
--   request_id
--   reason        for the audit log; "" = none
-- REPLY
--   changed before after journal_id durable entry...
--       durable 0|1: whether responses wait for Postgres; entry: each appended journal entry as JSON (lua/README.md)
--   unchanged status     it has this status already, or its time has not come
--   refused status       the action is not possible in this status
--   not_found
--   rebuilding          Redis is empty and has not been filled yet
-- JOURNALS status. Closing removes the line: waiting users are notified, and their tickets end in Postgres.

--#include clock
--#include generation
--#include records
--#include campaign
--#include codes
--#include pace
--#include news
--#include plan

-- What an operator has resumed is not paused by the watch over velocity for an hour.
local calm_after_resume_ms = 3600000

local c = read_campaign(campaign_key)
if not c then return no_campaign(epoch_key) end
local generation = generation_of(epoch_key)
if not generation then return { 'rebuilding' } end
local now, before = now_ms(), c.status
local by_schedule = now < c.starts_at and 'scheduled' or 'open'
local after
if action == 'open' then
  if before == 'open' then return { 'unchanged', before } end
  if before == 'draft' or before == 'scheduled' then after = 'open' end
elseif action == 'publish' then
  if before == 'draft' then after = by_schedule else return { 'unchanged', before } end
elseif action == 'pause' then
  if before == 'paused' then return { 'unchanged', before } end
  if before == 'open' or before == 'scheduled' then after = 'paused' end
elseif action == 'resume' then
  if before == 'open' or before == 'scheduled' then return { 'unchanged', before } end
  if before == 'paused' then after = by_schedule end
elseif action == 'close' then
  if before == 'closed' then return { 'unchanged', before } end
  after = 'closed'
elseif action == 'start' then
  if before ~= 'scheduled' or now < c.starts_at then return { 'unchanged', before } end
  after = 'open'
elseif action == 'finish' then
  if before == 'closed' or before == 'draft' or c.ends_at == 0 or now < c.ends_at then return { 'unchanged', before } end
  after = 'closed'
end
if not after then return { 'refused', before } end

local plan = new_plan(c, keys, generation, now)
plan.fields.status = after
-- An early opening moves starts_at, so that the sale does not return to `not_started` after a pause.
if action == 'open' and now < c.starts_at then plan.fields.starts_at = now end
-- From when the watch over velocity counts, and until when it only alerts (includes/velocity.lua).
if action == 'open' or action == 'publish' then plan.fields.counted_since = now end
if action == 'resume' then calm(plan, now + calm_after_resume_ms) end
if after == 'closed' then
  plan.fields.closed_at = now
  plan.unlinked = { keys.line, keys.presence }
  c.waiting = 0
end
local why = reason ~= '' and { 'reason', reason } or {}
add_entry(plan, nil, 'kind', 'status', 'no', c.no, 'at', now, 'action', action, 'before', before, 'status', after,
  'actor', actor, 'request', request_id, unpack(why))
table.insert(plan.news, 'status||' .. after)
local reply, journal_id = apply(plan, { 'changed', before, after, '', c.durable and '1' or '0' })
reply[4] = journal_id
return reply

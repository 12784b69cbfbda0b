-- Changes the stage of a bucket. `sealed`: from now on its units go to the line of the campaign only. `spent`: no unit
-- of the campaign is free or held, so that no user can be served; the line of the bucket is closed. `obtainable`: a
-- unit has come back. A bucket is never opened again, and repeating a change does nothing.
--
-- KEYS campaign, line, presence, journal, news, epoch
-- ARGV
--   stage               sealed | spent | obtainable
-- REPLY
--   sealed closed entry...     closed: users whose places were closed
--       entry: each appended journal entry as JSON (lua/README.md)
--   undivided           the campaign has no buckets
--   not_found
--   rebuilding          Redis is empty and has not been filled yet
-- JOURNALS sealed, line_closed

--#include clock
--#include generation
--#include records
--#include campaign
--#include codes
--#include pace
--#include news
--#include plan

local c = read_campaign(campaign_key)
if not c then return no_campaign(epoch_key) end
local generation = generation_of(epoch_key)
if not generation then return { 'rebuilding' } end
if not c.bucket then return { 'undivided' } end
local now, closed = now_ms(), 0
local plan = new_plan(c, keys, generation, now)
if c.bucket == 'open' and stage == 'sealed' then
  plan.fields.spent = 'sealed'
  add_entry(plan, nil, 'kind', 'sealed', 'no', c.no, 'at', now)
elseif c.bucket == 'sealed' and stage == 'spent' and c.free + c.held == 0 then
  plan.fields.spent = 'spent'
  closed = c.waiting
  if closed > 0 then
    plan.unlinked = { keys.line, keys.presence }
    c.waiting = 0
    add_entry(plan, nil, 'kind', 'line_closed', 'no', c.no, 'at', now, 'up_to', c.last_line_no)
    table.insert(plan.news, 'line||closed')
  end
elseif c.bucket == 'spent' and stage == 'obtainable' then
  plan.fields.spent = 'sealed'
end
return (apply(plan, { 'sealed', tostring(closed) }))

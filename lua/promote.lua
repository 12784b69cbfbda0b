-- Gives free units to the head of the line, at most `limit` people in one call: after a restock or a resume, when there
-- may be more to hand out than one script should.
--
-- KEYS campaign, people, reservations, deadlines, line, presence, codes, journal, news, epoch
-- ARGV
--   limit:int     people in one call; bounds how long Redis serves no other call
-- REPLY
--   promoted count entry...     entry: each appended journal entry as JSON (lua/README.md)
--   not_found
--   rebuilding          Redis is fresh and not filled yet
-- JOURNALS reserved, left (of those in line who cannot be served)

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
--#include promote_head

local c = read_campaign(campaign_key)
if not c then return no_campaign(epoch_key) end
local generation = generation_of(epoch_key)
if not generation then return { 'rebuilding' } end
local plan = new_plan(c, keys, generation, now_ms())
promote_head(plan, limit)
return apply(plan, { 'promoted', tostring(plan.promoted) })

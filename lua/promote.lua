-- Promotes waiting users while units are free, at most `limit` in one call: after a restock or a resume, which may free
-- more units than one call should assign. In a bucket, up to a line number that the caller has chosen.
--
-- KEYS campaign, people, reservations, deadlines, line, presence, codes, journal, news, epoch
-- ARGV
--   limit:int     users in one call; bounds how long the script blocks Redis
--   up_to:int?    the last line number to promote; none = no limit, but no user of a bucket
-- REPLY
--   promoted count entry...     entry: each appended journal entry as JSON (lua/README.md)
--   not_found
--   rebuilding          Redis is empty and has not been filled yet
-- JOURNALS reserved, left (users in line who cannot be served)

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
plan.up_to = up_to
promote_head(plan, limit)
return apply(plan, { 'promoted', tostring(plan.promoted) })

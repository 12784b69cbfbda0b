-- Gives free units to the head of the line, at most `limit` people in one call: after a restock or a resume, when there
-- may be more to hand out than one script should.
--
-- KEYS campaign, people, reservations, deadlines, line, presence, codes, journal, news, epoch
-- ARGV
--   limit         people in one call; bounds how long Redis serves nobody else
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
--#include hand_over

assert(#KEYS == 10 and #ARGV == 1, 'promote takes 10 keys and 1 argument')
local epoch_key = KEYS[10]
local campaign_key = KEYS[1]
local keys = { campaign = KEYS[1], people = KEYS[2], reservations = KEYS[3], deadlines = KEYS[4], line = KEYS[5],
  presence = KEYS[6], codes = KEYS[7], journal = KEYS[8], news = KEYS[9] }

local c = read_campaign(campaign_key)
if not c then return no_campaign(epoch_key) end
local generation = generation_of(epoch_key)
if not generation then return { 'rebuilding' } end
local plan = new_plan(c, keys, generation, now_ms())
hand_over(plan, tonumber(ARGV[1]))
return apply(plan, { 'promoted', tostring(plan.promoted) })

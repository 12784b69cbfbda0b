-- Checks whether a user could redeem a code now. Only reads: it promises and holds nothing.
--
-- KEYS campaign, people, codes, epoch
-- ARGV
--   user
--   code:int      number of the code; 0 = the campaign's one code
-- REPLY
--   usable free total    total -1: unlimited; free 0: the user would get a place in line
--   code_used | limit_reached | sold_out | line_full | paused | ended
--   not_started starts_at_ms
--   not_found
--   rebuilding          Redis is empty and has not been filled yet
-- JOURNALS nothing

--#include clock
--#include records
--#include campaign
--#include codes

local c = read_campaign(campaign_key)
if not c then return no_campaign(epoch_key) end
local phase = phase_of(c, now_ms())
if phase == 'draft' then return { 'not_found' } end
if phase == 'not_started' then return { 'not_started', tostring(c.starts_at) } end
if phase ~= 'open' then return { phase } end
local person = unpack_person(redis.call('HGET', people_key, user))
if not free_slot(person.slots, c.per_user_limit) then return { 'limit_reached' } end
local brought = person.state == 'queued' and person.code == tostring(code)
if code > 0 and not brought and code_is_used(codes_key, code, {}) then return { 'code_used' } end
if c.unlimited then return { 'usable', '0', '-1' } end
local free = c.waiting == 0 and not is_sealed(c) and c.free or 0
-- The other buckets may have units.
if free == 0 and c.bucket == 'open' then return { 'usable', '0', tostring(c.total) } end
if free == 0 and not c.line_enabled then return { 'sold_out' } end
if c.spent and c.free + c.held == 0 and person.state ~= 'queued' then return { 'sold_out' } end
if free == 0 and c.waiting >= c.line_max and person.state ~= 'queued' then return { 'line_full' } end
return { 'usable', tostring(free), tostring(c.total) }

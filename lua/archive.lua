-- Archives a closed campaign: removes its records from Redis once all its promises have ended and are in Postgres.
-- Redis keeps the hash (terms and counters) and the bitmap of used codes. `restore_user` restores a user who returns
-- later.
--
-- KEYS campaign, people, reservations, deadlines, line, presence, holders, journal, epoch, payments
-- ARGV
--   committed     id of the last journal entry that Postgres has
--   limit:int     later promises that may be read; bounds how long the script blocks Redis
--   grace_ms:int  since the campaign was closed
--   rest_ms:int   minimum time for which the first restored user stays in Redis
--   redeemed:int? burned:int? rows:int?    units and reservations in Postgres; none = not counted yet
-- REPLY
--   archived forgotten    by this call; forgotten: progress of the eviction of its responses (up_to), "" = none
--   unchanged forgotten   it is archived already, and no user was restored since
--   ready                 it may be archived once the counts of Postgres are known
--   differs               the counts of Postgres differ; nothing is removed
--   not_closed | held | early
--   unsettled             Postgres lacks a journal entry of the campaign
--   busy                  Postgres lacks more promises than `limit`
--   not_found
--   rebuilding          Redis is empty and has not been filled yet
-- JOURNALS nothing: no promise changes

--#include clock
--#include campaign

local c = read_campaign(campaign_key)
if not c then return no_campaign(epoch_key) end
if c.status ~= 'closed' then return { 'not_closed' } end
local known = redis.call('HMGET', campaign_key, 'closed_at', 'recalled_at', 'forgotten')
local closed_at, recalled_at, forgotten = tonumber(known[1] or 0), tonumber(known[2] or 0), known[3] or ''
-- `lost` must stay, so that no user is recalled (shared/sale/recall.ts).
if c.archived == 'lost' or (c.archived and recalled_at == 0) then return { 'unchanged', forgotten } end
if c.held > 0 or redis.call('ZCARD', deadlines_key) > 0 then return { 'held' } end
local now = now_ms()
-- A clock that went back must not delay the archive by more than the pause itself.
local function lately(at, pause_ms) return at > 0 and math.abs(now - at) < pause_ms end
if lately(closed_at, grace_ms) or lately(recalled_at, rest_ms) then return { 'early' } end

-- The journal has everything that Postgres has not committed. An entry holds promises of one campaign.
local last, looked_at, entries = committed, 0, nil
repeat
  entries = redis.call('XRANGE', journal_key, '(' .. last, '+', 'COUNT', 16)
  for _, entry in ipairs(entries) do
    local promises = 1
    for i = 1, #entry[2], 2 do
      local name, value = entry[2][i], tonumber(entry[2][i + 1])
      if name == 'no' and value == c.no then return { 'unsettled' } end
      if name == 'count' then promises = value end
    end
    last, looked_at = entry[1], looked_at + promises
  end
  if looked_at > limit then return { 'busy' } end
until #entries < 16
local promised
if not c.archived then
  if not rows then return { 'ready' } end
  promised = redis.call('HLEN', reservations_key)
  if c.redeemed ~= redeemed or c.burned ~= burned or promised ~= rows then return { 'differs' } end
end
-- A unique name of this pass: the last entry that was read, the version of the map of campaigns if the campaign was
-- filled since it was archived, and the time.
local pass = last .. (c.archived and string.match(c.archived, '^[^@]*(/%d+)@') or '') .. '@' .. now

if promised then redis.call('HSET', campaign_key, 'promised', promised) end
redis.call('HSET', campaign_key, 'archived', pass)
redis.call('HDEL', campaign_key, 'recalled_at')
redis.call('UNLINK', people_key, reservations_key, deadlines_key, line_key, presence_key, holders_key, payments_key)
return { 'archived', forgotten }

-- What is over leaves Redis: a closed campaign whose promises have all ended, and stand in Postgres, keeps its hash (terms and
-- counters) and the bitmap of its used codes. Whoever comes back later is recalled (`restore_user`).
--
-- KEYS campaign, people, reservations, deadlines, line, presence, holders, journal, epoch, payments
-- ARGV
--   committed     id of the last journal entry that Postgres has
--   limit:int     later promises that may be looked at; bounds how long Redis serves no other call
--   grace_ms:int  since the campaign was closed
--   rest_ms:int   how long the first who was recalled stays at least
--   redeemed:int? burned:int? rows:int?    units and reservations that Postgres has of it; none = not asked yet
-- REPLY
--   archived forgotten    now; forgotten: how far its answers are forgotten, as the caller has said it, "" = not at all
--   unchanged forgotten   it is archived already, and nobody was recalled since
--   ready                 it may be archived, once what Postgres has is known to be the same
--   differs               Postgres has other units or reservations: nothing is removed
--   not_closed | held | early
--   unsettled             Postgres lacks an entry of it
--   busy                  Postgres lacks more promises than may be looked at
--   not_found
--   rebuilding          Redis is fresh and not filled yet
-- JOURNALS nothing: no promise changes

--#include clock
--#include campaign

local c = read_campaign(campaign_key)
if not c then return no_campaign(epoch_key) end
if c.status ~= 'closed' then return { 'not_closed' } end
local known = redis.call('HMGET', campaign_key, 'closed_at', 'recalled_at', 'forgotten')
local closed_at, recalled_at, forgotten = tonumber(known[1] or 0), tonumber(known[2] or 0), known[3] or ''
if c.archived and recalled_at == 0 then return { 'unchanged', forgotten } end
if c.held > 0 or redis.call('ZCARD', deadlines_key) > 0 then return { 'held' } end
local now = now_ms()
-- A clock that went back must not hold it up for longer than the pause itself.
local function lately(at, pause_ms) return at > 0 and math.abs(now - at) < pause_ms end
if lately(closed_at, grace_ms) or lately(recalled_at, rest_ms) then return { 'early' } end

-- What Postgres has not committed stands in the journal, since entries leave it only then.
-- An entry holds the promises of one campaign.
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
-- Names this pass, and no other: by the last entry that was looked at, and by the time.
local pass = last .. '@' .. now

if promised then redis.call('HSET', campaign_key, 'promised', promised) end
redis.call('HSET', campaign_key, 'archived', pass)
redis.call('HDEL', campaign_key, 'recalled_at')
redis.call('UNLINK', people_key, reservations_key, deadlines_key, line_key, presence_key, holders_key, payments_key)
return { 'archived', forgotten }

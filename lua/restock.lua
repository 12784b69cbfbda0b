-- The operator adds units or takes free ones away. Added units go to those who wait first, at most `limit` people in
-- this call; `promote` serves the rest of them.
--
-- KEYS campaign, people, reservations, deadlines, line, presence, codes, journal, news, idempotency, unscoped_idempotency, epoch
-- ARGV
--   delta:int     units, may be negative
--   limit:int     people promoted in this call
--   key           "" = the call is not protected against repetition
--   key_ttl_ms
--   actor         who, for the audit log
--   request_id
--   max_total:int     units a campaign may have
-- REPLY
--   restocked total journal_id durable entry...     the same for a repeated key, which appends no entry
--       durable 0|1: answers wait for Postgres; entry: each appended journal entry as JSON (lua/README.md)
--   key_reused
--   insufficient free             so many could be taken away at most
--   too_many max_total
--   unlimited                     there is no number to change
--   closed
--   not_found
--   rebuilding          Redis is fresh and not filled yet
-- JOURNALS restocked, answered, reserved (those in line), left (of those in line who cannot be served)

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
local durable = c.durable and '1' or '0'
local same_request = 'restock|' .. c.no .. '|' .. delta .. '|'
if key ~= '' then
  local records = redis.call('MGET', idempotency_key, unscoped_idempotency_key)
  local remembered = records[1]
  -- Earlier versions kept the record under the key alone, where shoppers had theirs too.
  if not remembered and records[2] and string.sub(records[2], 1, 8) == 'restock|' then remembered = records[2] end
  if remembered then
    if string.sub(remembered, 1, #same_request) ~= same_request then return { 'key_reused' } end
    local total, journal_id = string.match(remembered, '|(%d+)|([%d-]+)$')
    return { 'restocked', total, journal_id, durable }
  end
end
if c.status == 'closed' then return { 'closed' } end
if c.unlimited then return { 'unlimited' } end
if c.free + delta < 0 then return { 'insufficient', tostring(c.free) } end
if c.total + delta > max_total then return { 'too_many', tostring(max_total) } end

local now = now_ms()
local plan = new_plan(c, keys, generation, now)
local before = c.total
c.total, c.free = c.total + delta, c.free + delta
-- Journaled before the promotions it allows, so that Postgres raises the cap first.
add_entry(plan, nil, 'kind', 'restocked', 'no', c.no, 'at', now, 'delta', delta, 'before', before, 'total', c.total,
  'actor', actor, 'request', request_id)
promote_head(plan, limit)
local total = tostring(c.total)
-- The remembered answer names the entry of the restock, whose id is known once it is appended.
local function answer_of(journal_id) return same_request .. total .. '|' .. journal_id end
if key ~= '' then
  add_entry(plan, nil, answered_fields(c.no, now, key, '')).complete = answer_of
  plan.answer = { key = idempotency_key, text = answer_of, ttl_ms = key_ttl_ms }
end
local reply, journal_id = apply(plan, { 'restocked', total, '', durable })
reply[3] = journal_id
return reply

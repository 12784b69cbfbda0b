-- Adds units to a campaign, or removes free ones. Added units go to waiting users first, at most `limit` in this call;
-- `promote` serves the others.
--
-- KEYS campaign, people, reservations, deadlines, line, presence, codes, journal, news, idempotency, epoch
-- ARGV
--   delta:int     units, may be negative
--   limit:int     users promoted in this call
--   key           idempotency key; "" = a repetition is a second restock
--   key_ttl_ms
--   actor         the operator, for the audit log
--   request_id
--   max_total:int     units a campaign may have
--   back:flag         the units were the campaign's before, so they are taken back also when it is closed
--   final:flag        a refusal stays one for this key: the caller records it, and the same call may still be on its way
-- REPLY
--   restocked total journal_id durable entry...     the same for a repeated key, which appends no entry
--       durable 0|1: whether responses wait for Postgres; entry: each appended journal entry as JSON (lua/README.md)
--   key_reused
--   insufficient free             maximum number of units that can be removed
--   too_many max_total
--   unlimited                     the campaign has no stock number
--   closed
--   not_found
--   rebuilding          Redis is empty and has not been filled yet
-- JOURNALS restocked, answered, reserved (users in line), left (users in line who cannot be served)

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
--#include responses

local c = read_campaign(campaign_key)
if not c then return no_campaign(epoch_key) end
local generation = generation_of(epoch_key)
if not generation then return { 'rebuilding' } end
local durable = c.durable and '1' or '0'
local same_request = 'restock|' .. c.no .. '|' .. delta .. '|'
if key ~= '' then
  local remembered = redis.call('GET', idempotency_key)
  if remembered then
    remembered = own_record(remembered, 'restock|' .. c.no .. '|')
    if string.sub(remembered, 1, #same_request) ~= same_request then return { 'key_reused' } end
    local refusal, number = string.match(string.sub(remembered, #same_request + 1), '^([%a_]+)|?(%d*)$')
    if refusal then return { refusal, number ~= '' and number or nil } end
    local total, journal_id = string.match(remembered, '|(%d+)|([%d-]+)$')
    return { 'restocked', total, journal_id, durable }
  end
end
local function refusal()
  if c.status == 'closed' and not back then return { 'closed' } end
  if c.unlimited then return { 'unlimited' } end
  if c.free + delta < 0 then return { 'insufficient', tostring(c.free) } end
  if c.total + delta > max_total then return { 'too_many', tostring(max_total) } end
end
local refused = refusal()
if refused then
  local record = same_request .. table.concat(refused, '|')
  if final then redis.call('SET', idempotency_key, record, 'PX', key_ttl_ms) end
  return refused
end

local now = now_ms()
local plan = new_plan(c, keys, generation, now)
local before = c.total
c.total, c.free = c.total + delta, c.free + delta
-- Journaled before the promotions that need it, so that Postgres raises the cap first.
add_entry(plan, nil, 'kind', 'restocked', 'no', c.no, 'at', now, 'delta', delta, 'before', before, 'total', c.total,
  'actor', actor, 'request', request_id)
-- A restock may attract a crowd, like an opening (includes/velocity.lua).
if delta > 0 then calm(plan, now + c.opening_ms) end
promote_head(plan, limit)
local total = tostring(c.total)
-- The idempotency record has the id of the restock's entry, which is known once it is appended.
local function answer_of(journal_id) return same_request .. total .. '|' .. journal_id end
if key ~= '' then
  add_entry(plan, nil, answered_fields(c.no, now, key, '')).complete = answer_of
  plan.answer = { key = idempotency_key, text = answer_of, ttl_ms = key_ttl_ms }
end
local reply, journal_id = apply(plan, { 'restocked', total, '', durable })
reply[3] = journal_id
return reply

-- The operator adds units or takes free ones away. Added units go to those who wait first, at most `limit` people in
-- this call; the rest of them by `promote`.
--
-- KEYS campaign, people, reservations, deadlines, line, presence, codes, journal, news, idempotency, epoch
-- ARGV
--   delta         units, may be negative
--   limit         people promoted in this call
--   key           "" = the call is not protected against repetition
--   key_ttl_ms
--   actor         who, for the audit log
--   request_id
--   max_total     units a campaign may have
-- REPLY
--   restocked total journal_id    the same reply for a repeated key
--   key_reused
--   insufficient free             so many could be taken away at most
--   too_many max_total
--   unlimited                     there is no number to change
--   closed
--   not_found
--   rebuilding          Redis is fresh and not filled yet
-- JOURNALS restocked, answered, reserved (those in line)

--#include clock
--#include generation
--#include records
--#include campaign
--#include codes
--#include journal
--#include answered
--#include pace
--#include presence
--#include hand_over

assert(#KEYS == 11 and #ARGV == 7, 'restock takes 11 keys and 7 arguments')
local epoch_key = KEYS[11]
local campaign_key, idempotency_key = KEYS[1], KEYS[10]
local keys = { campaign = KEYS[1], people = KEYS[2], reservations = KEYS[3], deadlines = KEYS[4], line = KEYS[5],
  presence = KEYS[6], codes = KEYS[7], journal = KEYS[8], news = KEYS[9] }
local delta, limit, key, key_ttl_ms = tonumber(ARGV[1]), tonumber(ARGV[2]), ARGV[3], ARGV[4]
local actor, request_id, max_total = ARGV[5], ARGV[6], tonumber(ARGV[7])

local c = read_campaign(campaign_key)
if not c then return no_campaign(epoch_key) end
keys.generation = generation_of(epoch_key)
if not keys.generation then return { 'rebuilding' } end
local same_request = 'restock|' .. c.no .. '|' .. ARGV[1] .. '|'
if key ~= '' then
  local remembered = redis.call('GET', idempotency_key)
  if remembered then
    if string.sub(remembered, 1, #same_request) ~= same_request then return { 'key_reused' } end
    local total, journal_id = string.match(remembered, '|(%d+)|([%d-]+)$')
    return { 'restocked', total, journal_id }
  end
end
if c.status == 'closed' then return { 'closed' } end
if c.unlimited then return { 'unlimited' } end
if c.free + delta < 0 then return { 'insufficient', tostring(c.free) } end
if c.total + delta > max_total then return { 'too_many', tostring(max_total) } end

local now = now_ms()
local before = c.total
c.total, c.free = c.total + delta, c.free + delta
-- Journaled before the promotions it allows, so that Postgres raises the cap first.
local journal_id = redis.call('XADD', keys.journal, keys.generation .. '-*', 'kind', 'restocked', 'no', c.no, 'delta', delta, 'before', before,
  'total', c.total, 'at', now, 'actor', actor, 'request', request_id)
hand_over(c, keys, now, limit)
save_counters(campaign_key, c)
if key ~= '' then
  remember_answer(idempotency_key, keys.journal, keys.generation, c.no, key, same_request .. c.total .. '|' .. journal_id, now, key_ttl_ms)
end
return { 'restocked', tostring(c.total), journal_id }

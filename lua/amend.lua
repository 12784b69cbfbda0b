-- The sale terms of a campaign change; its stock, line and status do not. Terms carry a version, so that two writers who
-- arrive in the wrong order cannot bring back old ones.
--
-- KEYS campaign, epoch
-- ARGV
--   version:int starts_at ends_at hold_ms per_user_limit:int max_qty line_enabled line_max late_payment refund_policy durable
--   attest once presence_ms open_to_all:flag stacking details    as for load_campaign
-- REPLY
--   amended
--   known version        these terms or newer ones are in force
--   refused per_user_limit     a smaller limit than this one, and the campaign is not a draft any more: some may have used it
--   not_found
--   rebuilding          Redis is fresh and not filled yet
-- JOURNALS nothing: Postgres has the terms before Redis does

--#include campaign

local known = redis.call('HMGET', campaign_key, 'version', 'status', 'per_user_limit', 'details', 'type')
if not known[1] then return no_campaign(epoch_key) end
local known_version, open_version, mark = tonumber(known[1]), open_to_all and version or '0', version .. '|'
local terms = terms_text({ version = version, ends_at = ends_at, hold_ms = hold_ms, per_user_limit = per_user_limit,
  max_qty = max_qty, line_enabled = line_enabled, line_max = line_max, late_payment = late_payment,
  refund_policy = refund_policy, durable = durable, attest = attest, once = once, presence_ms = presence_ms,
  open_to_all = open_version, stacking = stacking, type = known[5] })
-- An earlier version of this script has put this version here, and has left these fields out.
if known_version == version and string.sub(known[4] or '', 1, #mark) ~= mark then
  redis.call('HSET', campaign_key, 'open_to_all', open_version, 'stacking', stacking, 'details', details, 'terms', terms)
  return { 'known', known[1] }
end
if known_version >= version then return { 'known', known[1] } end
if known[2] ~= 'draft' and per_user_limit < tonumber(known[3]) then return { 'refused', known[3] } end
redis.call('HSET', campaign_key, 'version', version, 'starts_at', starts_at, 'ends_at', ends_at, 'hold_ms', hold_ms,
  'per_user_limit', per_user_limit, 'max_qty', max_qty, 'line_enabled', line_enabled, 'line_max', line_max,
  'late_payment', late_payment, 'refund_policy', refund_policy, 'durable', durable, 'attest', attest, 'once', once,
  'presence_ms', presence_ms, 'open_to_all', open_version, 'stacking', stacking, 'details', details, 'terms', terms)
return { 'amended' }

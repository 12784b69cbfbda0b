-- The sale terms of a campaign change; its stock, line and status do not. Terms carry a version, so that two writers who
-- arrive in the wrong order cannot bring back old ones.
--
-- KEYS campaign, epoch
-- ARGV
--   version starts_at ends_at hold_ms per_user_limit max_qty line_enabled line_max late_payment refund_policy durable
--   attest once presence_ms open_to_all stacking details    as for load_campaign
-- REPLY
--   amended
--   known version        these terms or newer ones are in force
--   refused per_user_limit     a smaller limit than this one, and the campaign is not a draft any more: some may have used it
--   not_found
--   rebuilding          Redis is fresh and not filled yet
-- JOURNALS nothing: Postgres has the terms before Redis does

--#include campaign

assert(#KEYS == 2 and #ARGV == 17, 'amend takes 2 keys and 17 arguments')
local epoch_key = KEYS[2]
local campaign_key, version = KEYS[1], tonumber(ARGV[1])

local known = redis.call('HMGET', campaign_key, 'version', 'status', 'per_user_limit', 'details', 'type')
if not known[1] then return no_campaign(epoch_key) end
local open_to_all = ARGV[15] == '1' and ARGV[1] or '0'
local terms = terms_text({ version = ARGV[1], ends_at = ARGV[3], hold_ms = ARGV[4], per_user_limit = ARGV[5], max_qty = ARGV[6],
  line_enabled = ARGV[7], line_max = ARGV[8], late_payment = ARGV[9], refund_policy = ARGV[10], durable = ARGV[11],
  attest = ARGV[12], once = ARGV[13], presence_ms = ARGV[14], open_to_all = open_to_all, stacking = ARGV[16], type = known[5] })
-- An earlier version of this script has put this version here, and has left these fields out.
if tonumber(known[1]) == version and string.sub(known[4] or '', 1, #ARGV[1] + 1) ~= ARGV[1] .. '|' then
  redis.call('HSET', campaign_key, 'open_to_all', open_to_all, 'stacking', ARGV[16], 'details', ARGV[17], 'terms', terms)
  return { 'known', known[1] }
end
if tonumber(known[1]) >= version then return { 'known', known[1] } end
if known[2] ~= 'draft' and tonumber(ARGV[5]) < tonumber(known[3]) then return { 'refused', known[3] } end
redis.call('HSET', campaign_key, 'version', version, 'starts_at', ARGV[2], 'ends_at', ARGV[3], 'hold_ms', ARGV[4],
  'per_user_limit', ARGV[5], 'max_qty', ARGV[6], 'line_enabled', ARGV[7], 'line_max', ARGV[8], 'late_payment', ARGV[9],
  'refund_policy', ARGV[10], 'durable', ARGV[11], 'attest', ARGV[12], 'once', ARGV[13],
  'presence_ms', ARGV[14], 'open_to_all', open_to_all, 'stacking', ARGV[16], 'details', ARGV[17], 'terms', terms)
return { 'amended' }

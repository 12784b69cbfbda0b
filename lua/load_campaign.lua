-- Puts a campaign into Redis before its first shopper comes. Never overwrites one that is there: a repeated admin call
-- or a second worker must not reset stock and buyers.
--
-- KEYS campaign, directory, filler, epoch
-- ARGV
--   no                   the campaign's number
--   product_id
--   version              of the terms
--   status               draft | scheduled | open | paused | closed
--   starts_at ends_at    ms; ends_at 0 = open end
--   hold_ms              0 = nothing to pay
--   per_user_limit       redemptions a user may have
--   max_qty              units of one redemption
--   line_enabled         0|1
--   line_max             people the line may hold
--   late_payment         refuse | reacquire
--   refund_policy        return | burn
--   durable              0|1, answers wait for Postgres
--   attest               0|1, checkout needs a token
--   once                 0|1, redeeming needs a one-time token
--   presence_ms          who waits must be seen so often; 0 = presence does not matter
--   open_to_all          0|1, the campaign has no audience; otherwise callers judge each user by the terms
--   stacking             combines | exclusive | group:<name>, what it says of others on the same order
--   details              what no script needs of the terms (shared/redis/campaign-details.ts)
--   type                 shared | unique | pool
--   codes                how many codes it has; they are numbered from 1
--   total                units; -1 = unlimited
--   held redeemed burned waiting last_line_no    0 for a new campaign; otherwise what Postgres knows
--   archived             names the pass when only the hash is put here (lua/archive.lua); "" = its records are here
--   promised             reservations of an archived campaign
--   token                of the worker that fills Redis; "" = Redis is in service
-- REPLY
--   loaded
--   known version        it is there already, with these terms
--   fenced               another worker fills Redis, or no one does any more
--   rebuilding           Redis is fresh and not filled yet
-- JOURNALS nothing

--#include clock
--#include fence
--#include campaign

assert(#KEYS == 4 and #ARGV == 31, 'load_campaign takes 4 keys and 31 arguments')
local campaign_key, directory_key, filler_key, epoch_key = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local no, product_id, token = ARGV[1], ARGV[2], ARGV[31]
local total, held, redeemed, burned = tonumber(ARGV[23]), tonumber(ARGV[24]), tonumber(ARGV[25]), tonumber(ARGV[26])

if token ~= '' and not may_fill(filler_key, epoch_key, token) then return { 'fenced' } end
if token == '' and redis.call('EXISTS', epoch_key) == 0 then return { 'rebuilding' } end
local version = redis.call('HGET', campaign_key, 'version')
if version then return { 'known', version } end
local free = total == -1 and 0 or total - held - redeemed - burned
assert(free >= 0, 'more is taken than there is')
-- When it was closed is not known: what Postgres has may be as young as this Redis.
local closed_at = ARGV[4] == 'closed' and ARGV[29] == '' and now_ms()
local open_to_all = ARGV[18] == '1' and ARGV[3] or '0'
local terms = terms_text({ version = ARGV[3], ends_at = ARGV[6], hold_ms = ARGV[7], per_user_limit = ARGV[8], max_qty = ARGV[9],
  line_enabled = ARGV[10], line_max = ARGV[11], late_payment = ARGV[12], refund_policy = ARGV[13], durable = ARGV[14],
  attest = ARGV[15], once = ARGV[16], presence_ms = ARGV[17], open_to_all = open_to_all, stacking = ARGV[19], type = ARGV[21] })
redis.call('HSET', campaign_key, 'terms', terms, 'no', no, 'version', ARGV[3], 'status', ARGV[4], 'starts_at', ARGV[5], 'ends_at', ARGV[6],
  'hold_ms', ARGV[7], 'per_user_limit', ARGV[8], 'max_qty', ARGV[9], 'line_enabled', ARGV[10], 'line_max', ARGV[11],
  'late_payment', ARGV[12], 'refund_policy', ARGV[13], 'durable', ARGV[14], 'attest', ARGV[15], 'once', ARGV[16],
  'presence_ms', ARGV[17], 'open_to_all', open_to_all, 'stacking', ARGV[19], 'details', ARGV[20],
  'type', ARGV[21], 'codes', ARGV[22], 'code_hint', 0, 'spent', 0,
  'total', total, 'free', free, 'held', held, 'redeemed', redeemed, 'burned', burned,
  'waiting', ARGV[27], 'last_line_no', ARGV[28])
if ARGV[29] ~= '' then
  redis.call('HSET', campaign_key, 'archived', ARGV[29], 'promised', ARGV[30], 'forgotten', 'done')
end
if closed_at then redis.call('HSET', campaign_key, 'closed_at', closed_at) end
redis.call('HSET', directory_key, no, product_id)
return { 'loaded' }

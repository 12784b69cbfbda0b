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
--   per_user_limit:int   redemptions a user may have
--   max_qty              units of one redemption
--   line_enabled         0|1
--   line_max             people the line may hold
--   late_payment         refuse | reacquire
--   refund_policy        return | burn
--   durable              0|1, answers wait for Postgres
--   attest               0|1, checkout needs a token
--   once                 0|1, redeeming needs a one-time token
--   presence_ms          who waits must be seen so often; 0 = presence does not matter
--   open_to_all:flag     the campaign has no audience; otherwise callers judge each user by the terms
--   stacking             combines | exclusive | group:<name>, what it says of others on the same order
--   details              what no script needs of the terms (shared/redis/campaign-details.ts)
--   type                 shared | unique | pool
--   codes                how many codes it has; they are numbered from 1
--   total:int            units; -1 = unlimited
--   held:int redeemed:int burned:int waiting last_line_no    0 for a new campaign; otherwise what Postgres knows
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

if token ~= '' and not may_fill(filler_key, epoch_key, token) then return { 'fenced' } end
if token == '' and redis.call('EXISTS', epoch_key) == 0 then return { 'rebuilding' } end
local known_version = redis.call('HGET', campaign_key, 'version')
if known_version then return { 'known', known_version } end
local free = total == -1 and 0 or total - held - redeemed - burned
assert(free >= 0, 'more is taken than there is')
-- When it was closed is not known: what Postgres has may be as young as this Redis.
local closed_at = status == 'closed' and archived == '' and now_ms()
local open_version = open_to_all and version or '0'
local terms = terms_text({ version = version, ends_at = ends_at, hold_ms = hold_ms, per_user_limit = per_user_limit,
  max_qty = max_qty, line_enabled = line_enabled, line_max = line_max, late_payment = late_payment,
  refund_policy = refund_policy, durable = durable, attest = attest, once = once, presence_ms = presence_ms,
  open_to_all = open_version, stacking = stacking, type = type })
redis.call('HSET', campaign_key, 'terms', terms, 'no', no, 'version', version, 'status', status, 'starts_at', starts_at,
  'ends_at', ends_at, 'hold_ms', hold_ms, 'per_user_limit', per_user_limit, 'max_qty', max_qty,
  'line_enabled', line_enabled, 'line_max', line_max, 'late_payment', late_payment, 'refund_policy', refund_policy,
  'durable', durable, 'attest', attest, 'once', once, 'presence_ms', presence_ms, 'open_to_all', open_version,
  'stacking', stacking, 'details', details, 'type', type, 'codes', codes, 'code_hint', 0, 'spent', 0,
  'total', total, 'free', free, 'held', held, 'redeemed', redeemed, 'burned', burned,
  'waiting', waiting, 'last_line_no', last_line_no)
if archived ~= '' then
  redis.call('HSET', campaign_key, 'archived', archived, 'promised', promised, 'forgotten', 'done')
end
if closed_at then redis.call('HSET', campaign_key, 'closed_at', closed_at) end
redis.call('HSET', directory_key, no, product_id)
return { 'loaded' }

-- The state of a campaign: its terms and counters, read with one command and saved with one.

-- The terms (shared/domain/terms.ts) are stored packed in one field, because reading each from a field of its own costs
-- a search in the hash. `starts_at` is not among them: it changes when a sale is opened early.
--   stacking      how a reservation combines with others on an order (includes/orders.lua)
-- The field `spent` is 0, or 1 when no unit can be obtained any more. A bucket (docs/buckets.md) has its stage there,
-- so that no script reads one more field: open; sealed: its units go to the line only; spent: sealed, and as 1.

local function read_campaign(key)
  local v = redis.call('HMGET', key, 'terms', 'no', 'status', 'starts_at', 'total', 'free', 'held', 'redeemed', 'burned',
    'waiting', 'last_line_no', 'codes', 'code_hint', 'spent', 'archived', 'rate')
  if not v[2] then return nil end
  -- Made by `npm run docs`: the terms
  local version, ends_at, hold_ms, per_user_limit, max_qty, line_enabled, line_max, presence_ms, absent_hold_ms,
    durable, late_payment, refund_policy, attest, once, open_to_all, stacking, type, velocity, opening_ms =
    string.match(v[1], '^(.-)|(.-)|(.-)|(.-)|(.-)|(.-)|(.-)|(.-)|(.-)|(.-)|(.-)|(.-)|(.-)|(.-)|(.-)|(.-)|(.-)|(.-)|(.-)$')
  return {
    ends_at = tonumber(ends_at), hold_ms = tonumber(hold_ms), per_user_limit = tonumber(per_user_limit),
      max_qty = tonumber(max_qty), line_enabled = line_enabled == '1', line_max = tonumber(line_max),
      presence_ms = tonumber(presence_ms), absent_hold_ms = tonumber(absent_hold_ms), durable = durable == '1',
      late_payment = late_payment, refund_policy = refund_policy, attest = attest == '1', once = once == '1',
      open_to_all = open_to_all == '1', stacking = stacking, type = type, velocity = velocity,
      opening_ms = tonumber(opening_ms),
    -- Until here
    no = tonumber(v[2]), no_text = v[2], version = tonumber(version), version_text = version, status = v[3],
    starts_at = tonumber(v[4]), total = tonumber(v[5]), free = tonumber(v[6]), held = tonumber(v[7]),
    redeemed = tonumber(v[8]), burned = tonumber(v[9]), waiting = tonumber(v[10]), last_line_no = tonumber(v[11]),
    unlimited = v[5] == '-1', codes = tonumber(v[12]), code_hint = tonumber(v[13]), spent = v[14] == '1' or v[14] == 'spent',
    bucket = v[14] ~= '0' and v[14] ~= '1' and v[14] or nil, archived = v[15], rate = v[16],
  }
end

-- Returns whether units of this bucket go to the line only.
local function is_sealed(c)
  return c.bucket == 'sealed' or c.bucket == 'spent'
end

-- Returns the reply for a missing campaign: this shard lacks it, or Redis is empty and has not been filled. The epoch
-- is written last. The second field says that the campaign is missing and not only a reservation, so that the caller
-- asks whether it may be in another shard (ScriptRunner).
local function no_campaign(epoch_key)
  return { redis.call('EXISTS', epoch_key) == 1 and 'not_found' or 'rebuilding', 'campaign' }
end

-- Checks the counters before they are saved, so that no script can save a state that breaks conservation.
local function assert_counters(c)
  if c.unlimited then return end
  assert(c.free >= 0 and c.held >= 0 and c.redeemed >= 0 and c.burned >= 0 and c.waiting >= 0, 'a counter is negative')
  assert(c.free + c.held + c.redeemed + c.burned == c.total, 'conservation is broken')
end

-- Returns the counters with their names, as a flat list.
local function counters_of(c)
  local counters = { 'total', c.total, 'free', c.free, 'held', c.held, 'redeemed', c.redeemed, 'burned', c.burned,
    'waiting', c.waiting, 'last_line_no', c.last_line_no }
  return counters
end

-- Returns the phase of the sale now. The clock decides, so a sale opens and ends on time without any worker.
local function phase_of(c, now)
  if c.status == 'draft' then return 'draft' end
  if c.status == 'closed' or (c.ends_at > 0 and now >= c.ends_at) then return 'ended' end
  if c.status == 'paused' then return 'paused' end
  if c.status == 'scheduled' and now < c.starts_at then return 'not_started' end
  return 'open'
end

-- A campaign's state: its sale terms and its counters, read with one command and saved with one.
local function read_campaign(key)
  local v = redis.call('HMGET', key, 'no', 'status', 'starts_at', 'ends_at', 'hold_ms', 'per_user_limit', 'max_qty',
    'line_enabled', 'line_max', 'late_payment', 'refund_policy', 'durable', 'attest',
    'total', 'free', 'held', 'redeemed', 'burned', 'waiting', 'last_line_no',
    'version', 'type', 'once', 'codes', 'code_hint', 'presence_ms', 'spent', 'archived', 'open_to_all', 'stacking')
  if not v[1] then return nil end
  return {
    no = tonumber(v[1]), status = v[2], starts_at = tonumber(v[3]), ends_at = tonumber(v[4]), hold_ms = tonumber(v[5]),
    per_user_limit = tonumber(v[6]), max_qty = tonumber(v[7]), line_enabled = v[8] == '1', line_max = tonumber(v[9]),
    late_payment = v[10], refund_policy = v[11], durable = v[12] == '1', attest = v[13] == '1',
    total = tonumber(v[14]), free = tonumber(v[15]), held = tonumber(v[16]), redeemed = tonumber(v[17]),
    burned = tonumber(v[18]), waiting = tonumber(v[19]), last_line_no = tonumber(v[20]),
    unlimited = v[14] == '-1',
    version = tonumber(v[21]), type = v[22], once = v[23] == '1', codes = tonumber(v[24]), code_hint = tonumber(v[25]),
    presence_ms = tonumber(v[26] or 0), spent = v[27] == '1', archived = v[28],
    -- Names the terms that have no audience, so that terms which an older version put here are judged.
    open_to_all = v[29] == v[21],
    -- What it says of others on the same order (includes/orders.lua).
    stacking = v[30] or 'combines',
  }
end

-- The reply when a campaign is not there: unknown, or Redis is fresh and not filled yet. The epoch is written last.
local function no_campaign(epoch_key)
  return { redis.call('EXISTS', epoch_key) == 1 and 'not_found' or 'rebuilding' }
end

-- Before counters are saved: no script can save a state that breaks conservation.
local function assert_counters(c)
  if c.unlimited then return end
  assert(c.free >= 0 and c.held >= 0 and c.redeemed >= 0 and c.burned >= 0 and c.waiting >= 0, 'a counter is negative')
  assert(c.free + c.held + c.redeemed + c.burned == c.total, 'conservation is broken')
end

-- Every counter with its name, as a flat list.
local function counters_of(c)
  local counters = { 'total', c.total, 'free', c.free, 'held', c.held, 'redeemed', c.redeemed, 'burned', c.burned,
    'waiting', c.waiting, 'last_line_no', c.last_line_no }
  return counters
end

-- What the sale is at this moment. The clock decides, so a sale opens and ends on time without any worker.
local function phase_of(c, now)
  if c.status == 'draft' then return 'draft' end
  if c.status == 'closed' or (c.ends_at > 0 and now >= c.ends_at) then return 'ended' end
  if c.status == 'paused' then return 'paused' end
  if c.status == 'scheduled' and now < c.starts_at then return 'not_started' end
  return 'open'
end

-- The state of a campaign: its terms and counters, read with one command and saved with one.

-- The terms (shared/domain/terms.ts) are stored in a field each, and again in one text, because reading each field
-- costs a search in the hash. A text of another version, or with another number of terms, was written by a process of
-- another version of the project; then the fields are read. The code lists the terms, because every call would
-- build a table of them again.
--   open_to_all   the version of the terms if they have no audience; terms written by an older process are thus checked
--   stacking      how a reservation combines with others on an order (includes/orders.lua)
-- The field `spent` is 0, or 1 when no unit can be obtained any more. A bucket (docs/buckets.md) has its stage there,
-- so that no script reads one more field: open; sealed: its units go to the line only; spent: sealed, and as 1.

-- Made by `npm run docs`: the text of the terms
local function terms_text(v)
  return v.version .. '|' .. v.ends_at .. '|' .. v.hold_ms .. '|' .. v.per_user_limit .. '|' .. v.max_qty .. '|' ..
    v.line_enabled .. '|' .. v.line_max .. '|' .. v.late_payment .. '|' .. v.refund_policy .. '|' ..
    v.durable .. '|' .. v.attest .. '|' .. v.once .. '|' .. v.presence_ms .. '|' .. v.open_to_all .. '|' ..
    v.stacking .. '|' .. v.type .. '|' .. v.absent_hold_ms .. '|' .. v.velocity .. '|' .. v.opening_ms
end
local terms_pattern = '^([^|]*)|([^|]*)|([^|]*)|([^|]*)|([^|]*)|([^|]*)|([^|]*)|([^|]*)|([^|]*)|([^|]*)|' ..
  '([^|]*)|([^|]*)|([^|]*)|([^|]*)|([^|]*)|([^|]*)|([^|]*)|([^|]*)|([^|]*)$'

-- Returns the terms in `text` if it has this version and the expected number of terms, else those in the fields.
local function terms_in(text, version, key)
  if text and string.sub(text, 1, #version + 1) == version .. '|' then
    local found, ends_at, hold_ms, per_user_limit, max_qty, line_enabled, line_max, late_payment, refund_policy,
      durable, attest, once, presence_ms, open_to_all, stacking, type, absent_hold_ms, velocity, opening_ms =
      string.match(text, terms_pattern)
    if found then return version, ends_at, hold_ms, per_user_limit, max_qty, line_enabled, line_max, late_payment,
      refund_policy, durable, attest, once, presence_ms, open_to_all, stacking, type, absent_hold_ms, velocity,
      opening_ms end
  end
  local flat, f = redis.call('HGETALL', key), {}
  for i = 1, #flat, 2 do f[flat[i]] = flat[i + 1] end
  return version, f.ends_at or '0', f.hold_ms or '0', f.per_user_limit or '0', f.max_qty or '0',
    f.line_enabled or '0', f.line_max or '0', f.late_payment or 'refuse', f.refund_policy or 'return',
    f.durable or '0', f.attest or '0', f.once or '0', f.presence_ms or '0', f.open_to_all or '',
    f.stacking or 'combines', f.type or '', f.absent_hold_ms or '0', f.velocity or 'off', f.opening_ms or '0'
end
-- Until here

local function read_campaign(key)
  local v = redis.call('HMGET', key, 'terms', 'no', 'version', 'status', 'starts_at', 'total', 'free', 'held', 'redeemed',
    'burned', 'waiting', 'last_line_no', 'codes', 'code_hint', 'spent', 'archived', 'rate')
  if not v[2] then return nil end
  -- Made by `npm run docs`: the terms
  local version, ends_at, hold_ms, per_user_limit, max_qty, line_enabled, line_max, late_payment, refund_policy,
    durable, attest, once, presence_ms, open_to_all, stacking, type, absent_hold_ms, velocity, opening_ms =
    terms_in(v[1], v[3], key)
  return {
    ends_at = tonumber(ends_at), hold_ms = tonumber(hold_ms), per_user_limit = tonumber(per_user_limit),
      max_qty = tonumber(max_qty), line_enabled = line_enabled == '1', line_max = tonumber(line_max),
      late_payment = late_payment, refund_policy = refund_policy, durable = durable == '1', attest = attest == '1',
      once = once == '1', presence_ms = tonumber(presence_ms), open_to_all = open_to_all == version,
      stacking = stacking, type = type, absent_hold_ms = tonumber(absent_hold_ms), velocity = velocity,
      opening_ms = tonumber(opening_ms),
    -- Until here
    no = tonumber(v[2]), no_text = v[2], version = tonumber(version), version_text = version, status = v[4],
    starts_at = tonumber(v[5]), total = tonumber(v[6]), free = tonumber(v[7]), held = tonumber(v[8]),
    redeemed = tonumber(v[9]), burned = tonumber(v[10]), waiting = tonumber(v[11]), last_line_no = tonumber(v[12]),
    unlimited = v[6] == '-1', codes = tonumber(v[13]), code_hint = tonumber(v[14]), spent = v[15] == '1' or v[15] == 'spent',
    bucket = v[15] ~= '0' and v[15] ~= '1' and v[15] or nil, archived = v[16], rate = v[17],
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

-- How many users get their first promise of a campaign in a few seconds, and whether these are too many
-- (docs/threats.md). Needs campaign. Two fields of the campaign keep the counts:
--   rate    second of the clock | users in it and in each of the four seconds before | number of users in these five
--           seconds about whom this second has been judged
--   usual   number of a period of five minutes | users in it and in each of the eleven before, without those in `rate`

local watched_seconds, period_seconds, periods = 5, 300, 12
local factor, least_users, part_of_units = 100, 50, 0.05
local alert_every_ms = 60000
local judged_until_next_second = 1000000000

-- Returns `usual` with the users of a second, as a list; the newest period first, and its number.
local function usual_with(text, second, users)
  local counts, newest = {}, nil
  for number in string.gmatch(text or '', '%d+') do table.insert(counts, tonumber(number)) end
  newest = table.remove(counts, 1) or 0
  local period = math.floor(second / period_seconds)
  for _ = 1, math.min(period - newest, periods) do table.insert(counts, 1, 0) end
  if period > newest then newest = period end
  local at = newest - period + 1
  if at <= periods then counts[at] = (counts[at] or 0) + users end
  while #counts > periods do table.remove(counts) end
  return counts, newest
end

local function usual_text(counts, newest)
  local text = string.format('%d', newest)
  for _, count in ipairs(counts) do text = text .. '|' .. string.format('%d', count) end
  return text
end

-- Returns the number of users in five seconds that is never too many, for the units of the campaign or bucket. Users do
-- not spread evenly, and a caller may choose names that belong to one bucket. So a bucket may have twice its share of
-- `least_users`, and at least 20.
local function unsuspicious(c, buckets)
  local least = math.min(least_users, math.max(20, math.ceil(2 * least_users / buckets)))
  return c.unlimited and least or math.max(least, math.floor(c.total * part_of_units))
end

-- Returns how many users are usual in five seconds: the mean since the opening, at most of an hour.
local function usual_users(usual, since, now)
  local second = math.floor(now / 1000)
  local counts, total = usual_with(usual, second, 0), 0
  for _, count in ipairs(counts) do total = total + count end
  local seconds = math.min((now - since) / 1000, period_seconds * periods) - watched_seconds
  return seconds > 0 and total * watched_seconds / seconds or 0
end

-- Counts users who got their first promise.
--   rate      the field as it was read
--   buckets   number of buckets of the campaign, each of which counts its own users; 1 = it is not divided
-- Returns the fields to write as a flat list, and the verdict: nil, or a table of `outcome` (paused, alerted), `users`
-- in five seconds and `usual`. At most one alert is returned in a minute.
local function count_users(c, key, rate, now, users, buckets)
  local second = math.floor(now / 1000)
  local at, a, b, d, e, f, judged = string.match(rate or '', '^(%d+)|(%d+)|(%d+)|(%d+)|(%d+)|(%d+)|(%d+)$')
  local counts = { tonumber(a), tonumber(b), tonumber(d), tonumber(e), tonumber(f) }
  at, judged = tonumber(at), tonumber(judged)
  -- The clock may go back: by some seconds, or by so much that the counts say nothing.
  if not at or at - second > watched_seconds then
    at, judged, counts = second, 0, { 0, 0, 0, 0, 0 }
  end
  local fields, usual = {}, nil
  if second > at then
    for i = watched_seconds, 1, -1 do
      local its_second = at - i + 1
      if second - its_second >= watched_seconds and counts[i] > 0 then
        usual = usual_text(usual_with(usual or redis.call('HGET', key, 'usual'), its_second, counts[i]))
      end
    end
    for _ = 1, math.min(second - at, watched_seconds) do
      table.insert(counts, 1, 0)
      table.remove(counts)
    end
    at, judged = second, 0
  end
  counts[1] = counts[1] + users
  local sum, verdict = counts[1] + counts[2] + counts[3] + counts[4] + counts[5], nil
  local never_too_many = unsuspicious(c, buckets)
  if sum > math.max(judged, never_too_many) then
    local v = redis.call('HMGET', key, 'usual', 'counted_since', 'calm_until', 'alerted')
    local since = math.max(c.starts_at, tonumber(v[2] or 0))
    local mean = usual_users(usual or v[1], since, now)
    judged = math.max(never_too_many, math.floor(factor * mean))
    if sum > judged then
      -- Judged by the beginning of the second, so that a whole second is judged alike.
      local begun = second * 1000
      local is_opening = c.opening_ms > 0 and begun < since + c.opening_ms
      local is_calm = is_opening or begun < tonumber(v[3] or 0)
      local pauses = c.velocity == 'pause' and not is_calm
      local is_known = math.abs(now - tonumber(v[4] or 0)) < alert_every_ms
      if pauses or not is_known then
        verdict = { outcome = pauses and 'paused' or 'alerted', users = sum, usual = mean }
        fields = { 'alerted', string.format('%d', now) }
      end
      judged = judged_until_next_second
    end
  end
  table.insert(fields, 'rate')
  table.insert(fields, string.format('%d|%d|%d|%d|%d|%d|%d', at, counts[1], counts[2], counts[3], counts[4], counts[5], judged))
  if usual then
    table.insert(fields, 'usual')
    table.insert(fields, usual)
  end
  return fields, verdict
end

-- Returns the fields of the journal entry of a pause.
local function pause_entry(c, now, verdict)
  local reason = string.format('%d users got their first promise within 5 seconds; %.1f are usual', verdict.users, verdict.usual)
  local entry = { 'kind', 'status', 'no', c.no_text, 'at', string.format('%d', now), 'action', 'pause', 'before', c.status,
    'status', 'paused', 'actor', 'velocity', 'request', '', 'reason', reason }
  return entry
end

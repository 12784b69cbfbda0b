-- The pace of a line, for estimates: an exponentially decaying count of promotions. Stored in the field `pace` of the
-- campaign: weight|at|from|people
--   weight     decayed number of promotions at time `at`; falls to 1/e in five minutes without promotions
--   at, from   ms; `from` is the time since which promotions are counted
--   people     number of promotions
local pace_window_ms = 300000

-- Returns the field for a new line.
local function new_pace(now)
  return '0|' .. now .. '|' .. now .. '|0'
end

-- Returns the field after `promoted` more promotions.
local function pace_after(campaign_key, now, promoted)
  local text = redis.call('HGET', campaign_key, 'pace') or new_pace(now)
  local weight, at, from, people = string.match(text, '^([^|]*)|([^|]*)|([^|]*)|([^|]*)$')
  weight = tonumber(weight) * math.exp(-math.max(0, now - tonumber(at)) / pace_window_ms) + promoted
  return string.format('%.6f|%.0f|%s|%d', weight, now, from, tonumber(people) + promoted)
end

-- Returns the ms between two promotions, as text; "" when there were too few recent promotions for an estimate.
local function pace_of(campaign_key, now)
  local text = redis.call('HGET', campaign_key, 'pace')
  if not text then return '' end
  local weight, at, from, people = string.match(text, '^([^|]*)|([^|]*)|([^|]*)|([^|]*)$')
  weight = tonumber(weight) * math.exp(-math.max(0, now - tonumber(at)) / pace_window_ms)
  if tonumber(people) < 3 or weight < 1 then return '' end
  -- A line younger than the window had less time for promotions.
  local lived_ms = pace_window_ms * (1 - math.exp(-math.max(1, now - tonumber(from)) / pace_window_ms))
  return string.format('%.0f', math.max(1, lived_ms / weight))
end

-- How fast a line is served, for estimates: promotions, each weighing less the longer ago it was. Kept in one field
-- of the campaign, `pace`: weight|at|from|people
--   weight   of all promotions so far, as of `at`; without new ones it falls to 1/e in five minutes
--   at, from ms; `from` is when the line began to be counted
--   people   promotions so far
local pace_window_ms = 300000

-- The field for a line that was never counted.
local function new_pace(now)
  return '0|' .. now .. '|' .. now .. '|0'
end

-- The field after `promoted` more people.
local function pace_after(campaign_key, now, promoted)
  local text = redis.call('HGET', campaign_key, 'pace') or new_pace(now)
  local weight, at, from, people = string.match(text, '^([^|]*)|([^|]*)|([^|]*)|([^|]*)$')
  weight = tonumber(weight) * math.exp(-math.max(0, now - tonumber(at)) / pace_window_ms) + promoted
  return string.format('%.6f|%.0f|%s|%d', weight, now, from, tonumber(people) + promoted)
end

-- Milliseconds between two promotions, as a string; "" when there were too few lately for an estimate.
local function pace_of(campaign_key, now)
  local text = redis.call('HGET', campaign_key, 'pace')
  if not text then return '' end
  local weight, at, from, people = string.match(text, '^([^|]*)|([^|]*)|([^|]*)|([^|]*)$')
  weight = tonumber(weight) * math.exp(-math.max(0, now - tonumber(at)) / pace_window_ms)
  if tonumber(people) < 3 or weight < 1 then return '' end
  -- A line that is younger than the window has had no time for more.
  local lived_ms = pace_window_ms * (1 - math.exp(-math.max(1, now - tonumber(from)) / pace_window_ms))
  return string.format('%.0f', math.max(1, lived_ms / weight))
end

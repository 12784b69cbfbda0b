-- How fast a line is served, for honest estimates: promotions, each weighing less the longer ago it was. Kept in one field
-- of the campaign, `pace`: weight|at|from|people
--   weight   of all promotions so far, as of `at`; without new ones it falls to 1/e in five minutes
--   at, from ms; `from` is when the line began to be counted
--   people   promotions so far
local pace_window_ms = 300000

-- Somebody stands in a line that was never counted.
local function begin_pace(campaign_key, now)
  redis.call('HSETNX', campaign_key, 'pace', '0|' .. now .. '|' .. now .. '|0')
end

local function count_pace(campaign_key, now, promoted)
  local text = redis.call('HGET', campaign_key, 'pace') or ('0|' .. now .. '|' .. now .. '|0')
  local weight, at, from, people = string.match(text, '^([^|]*)|([^|]*)|([^|]*)|([^|]*)$')
  weight = tonumber(weight) * math.exp(-math.max(0, now - tonumber(at)) / pace_window_ms) + promoted
  redis.call('HSET', campaign_key, 'pace',
    string.format('%.6f|%.0f|%s|%d', weight, now, from, tonumber(people) + promoted))
end

-- Milliseconds between two promotions, as a string; "" when too little has happened lately to say it honestly.
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

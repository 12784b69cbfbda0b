-- Who waits and is present, in campaigns with `presence_seconds`. A user who was not seen for so long steps back: they stay
-- in the line behind all present users, are not served and do not count in anyone's position; their line number brings
-- them back to their place.
--   line      score: the line number; of users who stepped back 2^52 more
--   presence  user by when they were seen, in ms; of users who stepped back minus the time until which the place is kept
local away = 4503599627370496
-- As text, since Lua would write it with 14 digits.
local away_text = '4503599627370496'

-- How long the place of an absent user is kept.
local function kept_ms(c)
  return math.max(60000, 5 * c.presence_ms)
end

local function is_away(score)
  return tonumber(score) >= away
end

-- The line number in a score, as text.
local function number_in(score)
  local number = tonumber(score)
  return string.format('%.0f', number >= away and number - away or number)
end

-- The score of a user who steps back.
local function away_score(score)
  return string.format('%.0f', tonumber(score) + away)
end

-- How many wait and are present.
local function present_count(c, line)
  if c.presence_ms == 0 then return c.waiting end
  return redis.call('ZCOUNT', line, '-inf', '(' .. away_text)
end

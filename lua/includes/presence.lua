-- Presence of waiting users, in campaigns with `presence_seconds`. A user not seen for that time is demoted: they keep
-- their entry but sort after all present users. They are not promoted and do not count in the position of other users.
-- Their line number restores their position.
--   line      score: the line number, plus 2^52 for demoted users
--   presence  user by the time when last seen, in ms; for demoted users minus the time until which the place is kept
local away = 4503599627370496
-- As text, because Lua writes numbers with 14 digits.
local away_text = '4503599627370496'

-- Returns the time for which the place of an absent user is kept, in ms.
local function kept_ms(c)
  return math.max(60000, 5 * c.presence_ms)
end

local function is_away(score)
  return tonumber(score) >= away
end

-- Returns the line number in a score, as text.
local function number_in(score)
  local number = tonumber(score)
  return string.format('%.0f', number >= away and number - away or number)
end

-- Returns the score of a user who is demoted.
local function away_score(score)
  return string.format('%.0f', tonumber(score) + away)
end

-- Returns the number of present users in the line.
local function present_count(c, line)
  if c.presence_ms == 0 then return c.waiting end
  return redis.call('ZCOUNT', line, '-inf', '(' .. away_text)
end

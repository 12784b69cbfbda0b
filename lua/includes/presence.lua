-- Who waits and is there, in campaigns with `presence_seconds`. Whoever was not seen for so long steps back: he stays in the
-- line, behind everybody, so that he neither is served nor counts in anybody's place; his number brings him back to it.
--   line      score: the line number; of those who stepped back 2^52 more
--   presence  user by when he was seen, in ms; of those who stepped back by minus the time until which the place is kept
local away = 4503599627370496
-- As text, since Lua would write it with 14 digits.
local away_text = '4503599627370496'

-- How long the place of somebody who is gone is kept.
local function kept_ms(c)
  return math.max(60000, 5 * c.presence_ms)
end

local function is_away(score)
  return tonumber(score) >= away
end

-- The first who is there, and the rest of the line does not matter: user, line number; nil when nobody is.
local function head_of(line)
  local head = redis.call('ZRANGE', line, 0, 0, 'WITHSCORES')
  if not head[1] or is_away(head[2]) then return nil end
  return head[1], head[2]
end

-- How many stand in the line and are there.
local function present_count(c, line)
  if c.presence_ms == 0 then return c.waiting end
  return redis.call('ZCOUNT', line, '-inf', '(' .. away_text)
end

local function saw(presence, user, now)
  redis.call('ZADD', presence, now, user)
end

local function step_back(c, keys, user, seen)
  redis.call('ZINCRBY', keys.line, away_text, user)
  redis.call('ZADD', keys.presence, -(seen + c.presence_ms + kept_ms(c)), user)
end

local function come_back(line, presence, user, now)
  redis.call('ZINCRBY', line, '-' .. away_text, user)
  saw(presence, user, now)
end

-- Whether the head of the line is there; when not, he has stepped back. Somebody who was never seen stood in the line
-- before it asked for presence: he is taken for present once.
local function is_there(c, keys, user, now)
  if c.presence_ms == 0 then return true end
  local seen = tonumber(redis.call('ZSCORE', keys.presence, user) or now)
  if seen > now - c.presence_ms then return true end
  step_back(c, keys, user, seen)
  return false
end

-- Returns the time of Redis in ms since 1970, the only clock of the scripts. Exact as a Lua number and as text until
-- 5138.
local function now_ms()
  local time = redis.call('TIME')
  return tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
end

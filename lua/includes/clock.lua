-- The one clock: milliseconds since 1970 of this Redis. Exact in a Lua number, and in text, up to the year 5138.
local function now_ms()
  local time = redis.call('TIME')
  return tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
end

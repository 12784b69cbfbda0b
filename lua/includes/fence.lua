-- Returns whether the caller may fill Redis: only the worker that began last, and only while Redis is not in service. A
-- worker that was paused thus cannot overwrite records of its successor.
local function may_fill(filler_key, epoch_key, token)
  return redis.call('GET', filler_key) == token and redis.call('EXISTS', epoch_key) == 0
end

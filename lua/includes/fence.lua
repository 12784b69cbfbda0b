-- Only the worker that began last may fill Redis, and only while Redis is not in service: a worker that was paused cannot
-- write over what another one has filled since.
local function may_fill(filler_key, epoch_key, token)
  return redis.call('GET', filler_key) == token and redis.call('EXISTS', epoch_key) == 0
end

-- Returns the generation of the history that this Redis continues, as text; nil while Redis is empty or being filled.
-- The journal entries of a generation have the ids `<generation>-0`, `<generation>-1` and so on, without a gap.
local function generation_of(epoch_key)
  local epoch = redis.call('GET', epoch_key)
  return epoch and string.match(epoch, '^(%d+)|')
end

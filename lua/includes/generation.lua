-- The generation of the history that this Redis continues, as text; nil while it is empty or being filled. Journal entries
-- of a generation have the ids `<generation>-0`, `<generation>-1`, ...: Redis counts them without a gap.
local function generation_of(epoch_key)
  local epoch = redis.call('GET', epoch_key)
  return epoch and string.match(epoch, '^(%d+)|')
end

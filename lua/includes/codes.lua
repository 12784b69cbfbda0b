-- The used coupon codes of a campaign: a bitmap with bit n - 1 for code number n. Postgres has the text of each number,
-- which never changes.
--   changed: code number → true (used) or false (free), decided by the script and not written yet

local function code_is_used(codes_key, code, changed)
  local decided = changed[tonumber(code)]
  if decided ~= nil then return decided end
  return redis.call('GETBIT', codes_key, tonumber(code) - 1) == 1
end

-- Returns the lowest unused number as text, nil = none. All codes before byte `code_hint` of the bitmap are used.
-- `c.code_from` is the bit up to which this script has searched.
local function next_code(codes_key, c, changed)
  local from, bit = c.code_from or c.code_hint * 8, nil
  repeat
    bit = redis.call('BITPOS', codes_key, 0, from, -1, 'BIT')
    -- BITPOS ignores bits behind the last one that was ever set, and returns bit 0 without a bitmap.
    if bit < 0 then bit = redis.call('STRLEN', codes_key) * 8 end
    bit = math.max(bit, from)
    from = bit + 1
  until not changed[bit + 1]
  c.code_from = bit
  local lowest = bit + 1
  for code, used in pairs(changed) do
    if not used and code < lowest then lowest = code end
  end
  return lowest <= c.codes and tostring(lowest) or nil
end

-- Returns the byte before which all codes are used once `changed` is written.
local function next_code_hint(c, changed)
  local hint = c.code_from and math.floor(c.code_from / 8) or c.code_hint
  for code, used in pairs(changed) do
    if not used then hint = math.min(hint, math.floor((code - 1) / 8)) end
  end
  return hint
end

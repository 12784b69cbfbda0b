-- Which of a campaign's coupon codes are used: one bit for each, bit n - 1 for code number n. Which text has which number
-- stands in Postgres and never changes.
--   changed: code number → true (used) or false (free), what the script has decided and not written yet

local function code_is_used(codes_key, code, changed)
  local decided = changed[tonumber(code)]
  if decided ~= nil then return decided end
  return redis.call('GETBIT', codes_key, tonumber(code) - 1) == 1
end

-- The lowest number that is not used, as text; nil when there is none. All codes before `code_hint`, a byte of the bitmap,
-- are used; `c.code_from` is the bit up to which this script has searched.
local function next_code(codes_key, c, changed)
  local from, bit = c.code_from or c.code_hint * 8, nil
  repeat
    bit = redis.call('BITPOS', codes_key, 0, from, -1, 'BIT')
    -- BITPOS finds nothing beyond the last bit that was ever set, and bit 0 when there is no bitmap.
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

-- The byte before which all codes are used once `changed` is written.
local function next_code_hint(c, changed)
  local hint = c.code_from and math.floor(c.code_from / 8) or c.code_hint
  for code, used in pairs(changed) do
    if not used then hint = math.min(hint, math.floor((code - 1) / 8)) end
  end
  return hint
end
